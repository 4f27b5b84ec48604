"""A Redis or Valkey server as a store: one Lua script a verb, for threads (`RedisStore`) and for event loops
(`AsyncRedisStore`).

The address is `redis://[user:password@]host[:port][/db][?prefix=name]` (`rediss://` for TLS). `prefix` (default
"strongroom") keeps several stores apart on one server. What an acknowledged commit survives is up to the server's
settings: read `durability`, or insist with `require_durable=True`.

No full-text search: a plain server has no index for it, so the store does not declare any.
"""

from __future__ import annotations

from collections.abc import Sequence

from strongroom.arguments import checked, require_positive
from strongroom.backends.redis.connections import AsyncConnections, BlockingConnections, ConnectionSettings
from strongroom.backends.redis.core import Core
from strongroom.backends.redis.export import Mover
from strongroom.backends.redis.layout import parse_address
from strongroom.bridge import finish, run
from strongroom.store import (
    MAX_RECORD_BYTES,
    REPEATS,
    Answer,
    AnyQuestion,
    Commit,
    Durability,
    ExportItem,
    ExportPage,
    Key,
    Part,
    Receipt,
    Repeats,
    kept_seconds,
)


class RedisStore:
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
        require_positive(
            timeout_seconds=timeout_seconds, max_record_bytes=max_record_bytes, max_connections=max_connections
        )
        kept = kept_seconds(repeats)
        address = parse_address(url, prefix)
        self._core = Core(
            BlockingConnections(ConnectionSettings(address, timeout_seconds, max_connections)),
            address,
            require_durable=require_durable,
            wait_aof=wait_aof,
            timeout_seconds=timeout_seconds,
            max_record_bytes=max_record_bytes,
            kept_seconds=kept,
        )
        self._mover = Mover(self._core)
        run(self._core.open())

    @property
    def kept_seconds(self) -> float:
        """How long ids that callers chose are remembered."""
        return self._core.kept_seconds

    @property
    def durability(self) -> Durability:
        return self._core.durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot."""
        return run(self._core.read(questions))

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions from one snapshot, as many as fit."""
        return run(self._core.read_within(questions, max_bytes))

    def commit(self, commit: Commit) -> Receipt:
        """Apply a commit, all or nothing."""
        return run(self._core.commit(commit))

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        run(self._core.wait(key, length, timeout_seconds))

    def unload(self, after: str | None, limit: int) -> ExportPage:
        """Return the next items of everything there is, of all spaces."""
        return run(self._mover.unload(after, limit))

    def load(self, items: Sequence[ExportItem]) -> None:
        """Put items of another store in place as they are."""
        run(self._mover.load(items))

    def close(self) -> None:
        """Let what is under way finish, then let go of the server."""
        run(self._core.close())

    def __enter__(self) -> RedisStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RedisStore({self._core.shown!r})"


class AsyncRedisStore:
    """The same store for an event loop. Make one with `await AsyncRedisStore.open(url)`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._mover = Mover(core)

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
        require_positive(
            timeout_seconds=timeout_seconds, max_record_bytes=max_record_bytes, max_connections=max_connections
        )
        kept = kept_seconds(repeats)
        address = parse_address(url, prefix)
        core = Core(
            AsyncConnections(ConnectionSettings(address, timeout_seconds, max_connections)),
            address,
            require_durable=require_durable,
            wait_aof=wait_aof,
            timeout_seconds=timeout_seconds,
            max_record_bytes=max_record_bytes,
            kept_seconds=kept,
        )
        await core.open()
        return cls(core)

    @property
    def kept_seconds(self) -> float:
        """How long ids that callers chose are remembered."""
        return self._core.kept_seconds

    @property
    def durability(self) -> Durability:
        return self._core.durability

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot."""
        return await self._core.read(questions)

    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions from one snapshot, as many as fit."""
        return await self._core.read_within(questions, max_bytes)

    async def commit(self, commit: Commit) -> Receipt:
        """Apply a commit, all or nothing. A cancelled caller waits until it has landed or failed."""
        return await finish(self._core.commit(commit))

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        await self._core.wait(key, length, timeout_seconds)

    async def unload(self, after: str | None, limit: int) -> ExportPage:
        """Return the next items of everything there is, of all spaces."""
        return await self._mover.unload(after, limit)

    async def load(self, items: Sequence[ExportItem]) -> None:
        """Put items of another store in place as they are."""
        await self._mover.load(items)

    async def close(self) -> None:
        """Let what is under way finish, then let go of the server."""
        await self._core.close()

    async def __aenter__(self) -> AsyncRedisStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncRedisStore({self._core.shown!r})"
