"""Fixtures of the Redis tests: a store that blocking tests use, so that one body tests blocking and async."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strongroom.backends.redis import AsyncRedisStore, RedisStore
from strongroom.store import AsyncStore, Store
from strongroom.testing import Driven
from tests.redis.proxy import Proxy
from tests.servers.valkey import ValkeyServer


@pytest.fixture(params=["blocking", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Open stores at any address, blocking and async; they are closed at the end."""
    opened: list[Store] = []

    def open_one(address: str, **options: Any) -> Store:
        async def make() -> AsyncStore:
            return await AsyncRedisStore.open(address, **options)

        store: Store = RedisStore(address, **options) if request.param == "blocking" else Driven(make)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def proxy(valkey_server: ValkeyServer) -> Iterator[Proxy]:
    with Proxy(valkey_server.port) as proxy:
        yield proxy
