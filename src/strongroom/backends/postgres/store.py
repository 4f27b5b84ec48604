"""A Postgres database as a store, for threads (`PostgresStore`) and for event loops (`AsyncPostgresStore`).

Both are tables of contents over one `Core`; how it works is told there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from strongroom.arguments import checked, require_positive
from strongroom.backends.postgres import export
from strongroom.backends.postgres.address import Address, parse
from strongroom.backends.postgres.core import Core
from strongroom.backends.postgres.link import AsyncLink, BlockingLink, Link
from strongroom.backends.postgres.upkeep import Check, check
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
    Find,
    Found,
    Key,
    Part,
    Receipt,
    Repeats,
    kept_seconds,
)

STEP = 1_000  # how much of everything one call carries


class PostgresStore:
    """Keep everything in a Postgres database. Safe across threads, processes and machines, not across fork()."""

    @checked
    def __init__(
        self,
        url: str,
        *,
        max_connections: int = 16,
        timeout_seconds: float = 30.0,
        max_record_bytes: int = MAX_RECORD_BYTES,
        repeats: Repeats = REPEATS,
    ) -> None:
        self._core = _core(BlockingLink, url, max_connections, timeout_seconds, max_record_bytes, repeats)
        run(self._core.open())

    @property
    def address(self) -> Address:
        return self._core.address

    @property
    def kept_seconds(self) -> float:
        """How long ids that callers chose are remembered."""
        return self._core.kept_seconds

    @property
    def durability(self) -> Durability:
        return self._core.facts.durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot."""
        return run(self._core.read(questions))

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions from one snapshot, as many as fit."""
        return run(self._core.read_within(questions, max_bytes))

    def commit(self, commit: Commit) -> Receipt:
        """Apply a commit, all or nothing. After a lost connection it is sent again, which its id makes safe."""
        return run(self._core.commit(commit))

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        run(self._core.wait(key, length, timeout_seconds))

    def search(self, find: Find) -> Found:
        """Return where any of the words stand. What was committed is found at once."""
        return run(self._core.search(find))

    def unload(self, after: str | None, limit: int) -> ExportPage:
        """Return the next items of everything there is; see `strongroom.store.Exportable`."""
        return run(self._core.unload(after, limit))

    def load(self, items: Sequence[ExportItem]) -> None:
        """Put items in place as they are; see `strongroom.store.Exportable`."""
        run(self._core.load(items))

    def check(self) -> Check:
        """Follow every stream and its hash chain, in all spaces. Reads everything; changes nothing."""
        return check(self._everything())

    def close(self) -> None:
        """Let go of the database. Closing twice is fine."""
        run(self._core.close())

    def __enter__(self) -> PostgresStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PostgresStore({self.address.shown!r})"

    def _everything(self) -> Iterator[tuple[Any, ...]]:
        after: str | None = None
        while True:
            rows = run(self._core.rows(after, STEP))
            yield from rows
            after = export.page(rows, STEP).next
            if after is None:
                return


class AsyncPostgresStore:
    """The same store for an event loop. Make one with `await AsyncPostgresStore.open(url)`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @classmethod
    @checked
    async def open(
        cls,
        url: str,
        *,
        max_connections: int = 16,
        timeout_seconds: float = 30.0,
        max_record_bytes: int = MAX_RECORD_BYTES,
        repeats: Repeats = REPEATS,
    ) -> AsyncPostgresStore:
        core = _core(AsyncLink, url, max_connections, timeout_seconds, max_record_bytes, repeats)
        await core.open()
        return cls(core)

    @property
    def address(self) -> Address:
        return self._core.address

    @property
    def kept_seconds(self) -> float:
        """How long ids that callers chose are remembered."""
        return self._core.kept_seconds

    @property
    def durability(self) -> Durability:
        return self._core.facts.durability

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

    async def search(self, find: Find) -> Found:
        """Return where any of the words stand. What was committed is found at once."""
        return await self._core.search(find)

    async def unload(self, after: str | None, limit: int) -> ExportPage:
        """Return the next items of everything there is; see `strongroom.store.Exportable`."""
        return await self._core.unload(after, limit)

    async def load(self, items: Sequence[ExportItem]) -> None:
        """Put items in place as they are; see `strongroom.store.Exportable`."""
        await self._core.load(items)

    async def close(self) -> None:
        """Let go of the database. Closing twice is fine."""
        await self._core.close()

    async def __aenter__(self) -> AsyncPostgresStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncPostgresStore({self.address.shown!r})"


def _core(
    link: type[Link], url: str, max_connections: int, timeout_seconds: float, max_record_bytes: int, repeats: Repeats
) -> Core:
    require_positive(
        max_connections=max_connections, timeout_seconds=timeout_seconds, max_record_bytes=max_record_bytes
    )
    kept = kept_seconds(repeats)
    address = parse(url)
    connected = link(address, max_connections=max_connections, timeout_seconds=timeout_seconds)
    return Core(
        address, connected, timeout_seconds=timeout_seconds, max_record_bytes=max_record_bytes, kept_seconds=kept
    )
