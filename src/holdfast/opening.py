"""From an address to a store: the one place that knows every backend by name.

| address | store |
|---|---|
| a path, or `sqlite:///path` | one SQLite file |
| `memory://` | this process's memory |
| `postgresql://...` | a Postgres database (extra `postgres`) |
| `redis://...`, `rediss://...` | a Redis or Valkey server (extra `redis`) |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.bridge import OnLoop, Threaded
from holdfast.errors import InvalidInput
from holdfast.store import AsyncStore, Store

Address = str | os.PathLike[str]


def open_store(address: Address, **options: Any) -> Store:
    """Open a blocking store. Backends are imported only when asked for."""
    return _find(address)[0](**options)


async def open_async_store(address: Address, **options: Any) -> AsyncStore:
    """Open the same store for an event loop."""
    opened: AsyncStore = await _find(address)[1](**options)
    return opened


def _find(address: Address) -> tuple[Callable[..., Store], Callable[..., Any]]:
    text = os.fspath(address)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme == "memory":
        return _memory, _inline(_memory)
    if scheme in ("", "sqlite", "file"):
        path = text if not scheme else unquote(urlsplit(text).netloc + urlsplit(text).path.removeprefix("/"))
        if not path:
            raise InvalidInput("a store address must not be empty; try 'agent.db' or 'memory://'")
        return _sqlite(path)
    if scheme in ("postgresql", "postgres"):
        return _postgres(text)
    if scheme in ("redis", "rediss"):
        return _redis(text)
    raise InvalidInput(
        f"no store is known for {scheme}:// addresses; use a path, sqlite:///, memory://, postgresql:// or redis://"
    )


def _memory(**options: Any) -> Store:
    from holdfast.backends.memory import MemoryStore

    return MemoryStore(**options)


def _sqlite(path: str) -> tuple[Callable[..., Store], Callable[..., Any]]:
    from holdfast.backends.sqlite import SqliteStore

    async def threaded(**options: Any) -> AsyncStore:
        return Threaded(SqliteStore(path, **options))

    def blocking(**options: Any) -> Store:
        return SqliteStore(path, **options)

    return blocking, threaded


def _postgres(url: str) -> tuple[Callable[..., Store], Callable[..., Any]]:
    from holdfast.backends.postgres import AsyncPostgresStore, PostgresStore

    return partial(PostgresStore, url), partial(AsyncPostgresStore.open, url)


def _redis(url: str) -> tuple[Callable[..., Store], Callable[..., Any]]:
    from holdfast.backends.redis import AsyncRedisStore, RedisStore

    return partial(RedisStore, url), partial(AsyncRedisStore.open, url)


def _inline(make: Callable[..., Store]) -> Callable[..., Any]:
    async def opened(**options: Any) -> AsyncStore:
        return OnLoop(make(**options))

    return opened
