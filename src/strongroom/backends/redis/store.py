"""A Redis or Valkey server as a store: one Lua script a verb, for threads (`RedisStore`) and for event loops
(`AsyncRedisStore`).

The address is `redis://[user:password@]host[:port][/db][?prefix=name]` (`rediss://` for TLS). `prefix` (default
"strongroom") keeps several stores apart on one server. What an acknowledged commit survives is up to the server's
settings: read `durability`, or insist with `require_durable=True`.

No full-text search: a plain server has no index for it, so the store does not declare any.
"""

from __future__ import annotations

from collections.abc import Callable

from strongroom.arguments import checked, require_positive
from strongroom.backends.faces import AsyncFace, BlockingFace
from strongroom.backends.redis.connections import AsyncConnections, BlockingConnections, Connections, ConnectionSettings
from strongroom.backends.redis.export import MovableCore
from strongroom.backends.redis.layout import parse_address
from strongroom.bridge import run
from strongroom.store import MAX_RECORD_BYTES, REPEATS, Repeats, kept_seconds


class RedisStore(BlockingFace[MovableCore]):
    """Keep everything on a Redis or Valkey server. Safe across threads, processes and machines.

    `require_durable` refuses a server that may lose acknowledged commits. `wait_aof` makes each commit wait until the
    server's log is on its disk, where the server can do that (WAITAOF) and does not do it anyway. A call
    is tried again until `timeout_seconds` have passed; one try waits half as long.
    """

    @checked
    def __init__(
        self,
        url: str,
        *,
        prefix: str | None = None,
        require_durable: bool = False,
        wait_aof: bool = False,
        timeout_seconds: float = 10.0,
        max_record_bytes: int = MAX_RECORD_BYTES,
        max_connections: int = 64,
        repeats: Repeats = REPEATS,
    ) -> None:
        limits = (timeout_seconds, max_record_bytes, max_connections)
        self._core = _core(BlockingConnections, url, prefix, require_durable, wait_aof, *limits, repeats)
        run(self._core.open())


class AsyncRedisStore(AsyncFace[MovableCore]):
    """The same store for an event loop. Make one with `await AsyncRedisStore.open(url)`."""

    @classmethod
    @checked
    async def open(
        cls,
        url: str,
        *,
        prefix: str | None = None,
        require_durable: bool = False,
        wait_aof: bool = False,
        timeout_seconds: float = 10.0,
        max_record_bytes: int = MAX_RECORD_BYTES,
        max_connections: int = 64,
        repeats: Repeats = REPEATS,
    ) -> AsyncRedisStore:
        limits = (timeout_seconds, max_record_bytes, max_connections)
        core = _core(AsyncConnections, url, prefix, require_durable, wait_aof, *limits, repeats)
        await core.open()
        return cls(core)


def _core(
    connections: Callable[[ConnectionSettings], Connections],
    url: str,
    prefix: str | None,
    require_durable: bool,
    wait_aof: bool,
    timeout_seconds: float,
    max_record_bytes: int,
    max_connections: int,
    repeats: Repeats,
) -> MovableCore:
    require_positive(
        timeout_seconds=timeout_seconds, max_record_bytes=max_record_bytes, max_connections=max_connections
    )
    kept = kept_seconds(repeats)
    address = parse_address(url, prefix)
    return MovableCore(
        connections(ConnectionSettings(address, timeout_seconds, max_connections)),
        address,
        require_durable=require_durable,
        wait_aof=wait_aof,
        timeout_seconds=timeout_seconds,
        max_record_bytes=max_record_bytes,
        kept_seconds=kept,
    )
