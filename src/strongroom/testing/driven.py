"""An async store for blocking code: how the conformance suite, which blocks, tests one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from strongroom.bridge import can_search
from strongroom.errors import Closed
from strongroom.store import (
    EXPORT_BYTES,
    Answer,
    AnyQuestion,
    AsyncStore,
    Commit,
    Durability,
    Exportable,
    ExportItem,
    ExportPage,
    Find,
    Found,
    Key,
    Part,
    Receipt,
    Watchable,
)

T = TypeVar("T")


class Driven:
    """A blocking `Store` over an async one, which lives on a loop in a thread of its own.

    `open` is called on that loop. Any number of threads may use the store at once; each call is a task.
    """

    def __init__(self, open: Callable[[], Awaitable[AsyncStore]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="strongroom-driven", daemon=True)
        self._thread.start()
        self._open = True
        try:
            self._store: AsyncStore = self._call(open)
        except BaseException:
            self._stop()
            raise
        if isinstance(self._store, Watchable):
            self.wait = self._wait
        if can_search(self._store):
            self.search = self._search
        if hasattr(self._store, "read_within"):
            self.read_within = self._read_within
        if isinstance(self._store, Exportable):
            self.unload, self.load = self._unload, self._load

    @property
    def durability(self) -> Durability:
        return self._store.durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return self._call(lambda: self._store.read(questions))

    def commit(self, commit: Commit) -> Receipt:
        return self._call(lambda: self._store.commit(commit))

    def close(self) -> None:
        """Close the store, then its loop. Closing twice is fine."""
        if self._open:
            self._call(lambda: self._store.close())
            self._stop()

    def _wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        assert isinstance(self._store, Watchable)
        wait = cast("Callable[[Key, int, float], Awaitable[None]]", self._store.wait)
        self._call(lambda: wait(key, length, timeout_seconds))

    def _search(self, find: Find) -> Found:
        return self._call(lambda: self._store.search(find))  # type: ignore[attr-defined, no-any-return]

    def _read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        return self._call(lambda: self._store.read_within(questions, max_bytes))  # type: ignore[attr-defined, no-any-return]

    def _unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        return self._call(lambda: self._store.unload(after, limit, max_bytes))  # type: ignore[attr-defined, no-any-return]

    def _load(self, items: Sequence[ExportItem]) -> None:
        self._call(lambda: self._store.load(items))  # type: ignore[attr-defined]

    def _call(self, verb: Callable[[], Awaitable[T]]) -> T:
        if not self._open:
            raise Closed("this store is closed; nothing changed")

        async def on_loop() -> T:
            return await verb()

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()

    def _stop(self) -> None:
        self._open = False
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
