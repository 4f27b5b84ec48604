"""The Postgres store keeps every promise, blocking and async."""

from __future__ import annotations

import pytest

from strongroom.backends.postgres import AsyncPostgresStore, PostgresStore
from strongroom.store import AsyncStore, Store
from strongroom.testing import Driven, StoreConformance


@pytest.fixture(autouse=True, scope="module")
def database(postgres_url: str) -> None:
    TestPostgres.url = postgres_url


class TestPostgres(StoreConformance):
    url: str
    max_record_bytes = 65536

    def make_store(self) -> Store:
        return PostgresStore(self.url, max_record_bytes=self.max_record_bytes)


class TestPostgresAsync(TestPostgres):
    def make_store(self) -> Store:
        async def opened() -> AsyncStore:
            return await AsyncPostgresStore.open(self.url, max_record_bytes=self.max_record_bytes)

        return Driven(opened)
