"""A Postgres database as a store, for threads (`PostgresStore`) and for event loops (`AsyncPostgresStore`).

Both are faces of one `Core`; how it works is told there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import strongroom.backends.postgres.export as export
from strongroom.arguments import checked, require_positive
from strongroom.backends.faces import AsyncFace, BlockingFace
from strongroom.backends.postgres.address import Address, parse
from strongroom.backends.postgres.core import Core
from strongroom.backends.postgres.link import AsyncLink, BlockingLink, Link
from strongroom.backends.postgres.upkeep import Check, check
from strongroom.bridge import run
from strongroom.store import MAX_RECORD_BYTES, REPEATS, Find, Found, Repeats, kept_seconds

STEP = 1_000  # how much of everything one call carries


class PostgresStore(BlockingFace[Core]):
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

    def search(self, find: Find) -> Found:
        """Return where any of the words stand. What was committed is found at once."""
        return run(self._core.search(find))

    def check(self) -> Check:
        """Follow every stream and its hash chain, in all spaces. Reads everything; changes nothing."""
        return check(self._everything())

    def _everything(self) -> Iterator[tuple[Any, ...]]:
        after: str | None = None
        while True:
            rows, after = export.parted(run(self._core.rows(after, STEP)))
            yield from rows
            if after is None:
                return


class AsyncPostgresStore(AsyncFace[Core]):
    """The same store for an event loop. Make one with `await AsyncPostgresStore.open(url)`."""

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

    async def search(self, find: Find) -> Found:
        """Return where any of the words stand. What was committed is found at once."""
        return await self._core.search(find)


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
