"""Blocking stores for async code, in four ways: which one is right depends on how long the store's verbs take.

`Inline` never suspends, so that blocking code can drive what is written in async def. The others are for event loops:
`OnLoop` over a store in memory, `Threaded` over a SQLite file, `Pooled` over any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from strongroom.bridge.driving import finish
from strongroom.store import (
    EXPORT_BYTES,
    Answer,
    AnyQuestion,
    Bounded,
    Commit,
    Durability,
    Exportable,
    ExportItem,
    ExportPage,
    Find,
    Found,
    Get,
    Key,
    Part,
    Range,
    Receipt,
    ReceiptOf,
    Searchable,
    Store,
    Tail,
    Watchable,
    ask,
)

QUICK = 32

T = TypeVar("T")


class Inline:
    """A blocking store seen through async eyes. It never suspends."""

    needs_no_loop = True  # so nothing that is done over it may need one either: see `Scope.threads`

    def __init__(self, store: Store) -> None:
        self.blocking = store
        if isinstance(store, Exportable):  # declared only where it is so
            self.unload, self.load = self._unload, self._load
        if hasattr(store, "perform"):
            self.perform, self.new_id = self._perform, self._new_id

    def __repr__(self) -> str:
        return repr(self.blocking)

    @property
    def durability(self) -> Durability:
        return self.blocking.durability

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return self.blocking.read(questions)

    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        return _bounded(self.blocking).read_within(questions, max_bytes)

    async def commit(self, commit: Commit) -> Receipt:
        return self.blocking.commit(commit)

    async def search(self, find: Find) -> Found:
        return _searchable(self.blocking).search(find)

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        cast("Watchable", self.blocking).wait(key, length, timeout_seconds)

    async def _perform(self, operation: Any) -> Receipt | None:
        made: Receipt | None = cast("Any", self.blocking).perform(operation)
        return made

    async def _new_id(self) -> str:
        made: str = cast("Any", self.blocking).new_id()
        return made

    async def _unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        return _exportable(self.blocking).unload(after, limit, max_bytes)

    async def _load(self, items: Sequence[ExportItem]) -> None:
        _exportable(self.blocking).load(items)

    async def close(self) -> None:
        self.blocking.close()


class OnLoop(Inline):
    """A store in memory for an event loop: its verbs take microseconds, so only waiting needs a thread."""

    needs_no_loop = False

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._watchers = ThreadPoolExecutor(256, thread_name_prefix="strongroom-wait")

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        # Inline.wait would stop the loop, and with it the task that is to append.
        wait = cast("Watchable", self.blocking).wait
        await asyncio.get_running_loop().run_in_executor(self._watchers, wait, key, length, timeout_seconds)

    async def close(self) -> None:
        await super().close()
        self._watchers.shutdown(wait=False)


class Pooled(OnLoop):
    """Any blocking store for any number of event loops: each call waits on a thread of its own.

    What an async driver does better, but only on the loop that it was opened on. Those who wait for a stream have other
    threads: they may be many and take long, and so stand in nobody's way.
    """

    _threads = "strongroom-call"

    def __init__(self, store: Store, *, threads: int = 16) -> None:
        super().__init__(store)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=self._threads)
        self._closer: ThreadPoolExecutor | None = self._pool

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return await self._call(self.blocking.read, questions)

    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        return await self._call(_bounded(self.blocking).read_within, questions, max_bytes)

    async def commit(self, commit: Commit) -> Receipt:
        return await finish(self._call(self.blocking.commit, commit))

    async def search(self, find: Find) -> Found:
        return await self._call(_searchable(self.blocking).search, find)

    async def _perform(self, operation: Any) -> Receipt | None:
        made: Receipt | None = await finish(self._call(cast("Any", self.blocking).perform, operation))
        return made

    async def _new_id(self) -> str:
        made: str = await self._call(cast("Any", self.blocking).new_id)
        return made

    async def _unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        return await self._call(_exportable(self.blocking).unload, after, limit, max_bytes)

    async def _load(self, items: Sequence[ExportItem]) -> None:
        await finish(self._call(_exportable(self.blocking).load, items))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._closer, self.blocking.close)
        self._pool.shutdown(wait=False)
        self._watchers.shutdown(wait=False)

    async def _call(self, call: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *given)


class Grouping(Store, Protocol):
    """A blocking store that can take a commit now and answer later, from a thread of its own.

    The future must decline to be cancelled: a task cancelled meanwhile then waits for its commit first.
    """

    def look(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer as `read` does without waiting for the disk: a receipt that is found may not be durable yet."""
        ...

    def look_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part: ...
    def require_usable(self) -> None: ...
    def submit(self, commit: Commit, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Receipt]: ...
    def watching(self, key: Key, length: int, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Have `wake` called, from whatever thread, whenever a stream may have become longer than `length`."""
        ...


class Threaded(Pooled):
    """A SQLite file for an event loop: commits are queued to share an fsync, only longer reads are worth a thread, and
    any number of tasks that wait share one."""

    blocking: Grouping
    _threads = "strongroom-read"

    def __init__(self, store: Grouping, *, readers: int = 4) -> None:
        super().__init__(store, threads=readers)
        self._closer = None  # the loop's own: not in line behind reads, which may be many and long

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        if len(questions) <= QUICK and all(map(_is_quick, questions)):
            # They take microseconds; the way to another thread and back takes more.
            answers = self.blocking.look(questions)
            if not any(isinstance(answer, Receipt) for answer in answers):
                return answers
            # A receipt must be made durable first, which is for a thread to wait for.
        return await super().read(questions)

    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        if len(questions) <= QUICK and all(map(_is_quick, questions)):
            part = self.blocking.look_within(questions, max_bytes)
            if not any(isinstance(answer, Receipt) for answer in part.answers):
                return part
        return await super().read_within(questions, max_bytes)

    async def commit(self, commit: Commit) -> Receipt:
        return await self.blocking.submit(commit, asyncio.get_running_loop())

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        news = asyncio.Event()
        ring = partial(_ring, asyncio.get_running_loop(), news)
        with self.blocking.watching(key, length, ring):
            try:
                async with asyncio.timeout(timeout_seconds):  # not wait_for, which can swallow a cancellation on 3.11
                    while ask(self.blocking, Range(key, 0, 0)).length <= length:
                        await news.wait()
                        news.clear()
            except TimeoutError:
                return

    async def require_usable(self) -> None:
        """Look at the files: readers go on although somebody has taken them away."""
        await self._call(self.blocking.require_usable)


def _is_quick(question: AnyQuestion) -> bool:
    """Tell whether the answer is one document, one receipt or a few records at most."""
    if type(question) is Tail:
        return question.count is not None and question.count <= QUICK
    if type(question) is Range:
        most = question.limit if question.stop is None else question.stop - question.start
        return most is not None and most <= QUICK
    return type(question) is Get or type(question) is ReceiptOf


def _ring(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    """Set an event of a loop, from whatever thread."""
    try:
        loop.call_soon_threadsafe(news.set)
    except RuntimeError:
        pass  # the loop is closed: nobody is left to wake


def can_search(store: object) -> bool:
    """Tell whether a store has a full-text index, looking through the adapters of this module."""
    # Not isinstance(): with a protocol that takes longer than a search of a small store.
    return hasattr(getattr(store, "blocking", store), "search")


def _searchable(store: Store) -> Searchable:
    assert can_search(store), "ask can_search() first"
    return cast("Searchable", store)


def _bounded(store: object) -> Bounded:
    return cast("Bounded", store)


def _exportable(store: object) -> Exportable:
    assert isinstance(store, Exportable)
    return store
