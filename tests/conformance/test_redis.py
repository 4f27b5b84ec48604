"""The Redis store keeps every promise, blocking and async."""

from __future__ import annotations

import pytest

from strongroom.backends.redis import AsyncRedisStore, RedisStore
from strongroom.store import AsyncStore, Store
from strongroom.testing import Driven, StoreConformance


@pytest.fixture(autouse=True, scope="module")
def server(redis_url: str) -> None:
    TestRedis.url = redis_url


class TestRedis(StoreConformance):
    url: str
    max_record_bytes = 65536

    def make_store(self) -> Store:
        return RedisStore(self.url, max_record_bytes=self.max_record_bytes)


class TestRedisAsync(TestRedis):
    def make_store(self) -> Store:
        async def opened() -> AsyncStore:
            return await AsyncRedisStore.open(self.url, max_record_bytes=self.max_record_bytes)

        return Driven(opened)
