"""The store as the services of a server see it: no read holds more than a bound, whoever asks for it.

What is asked for comes whole or not at all. A list is bounded in all that is read for it: it asks again for fewer
(`fewer`). What is only looked at on the way, candidates of a search and the upkeep of an index, is bounded read by read
(`aside`), and whoever looks keeps to `most_bytes`. Walks go on in smaller steps (`Scope.some`, `Scope.parts`), and what
is left is refused: nothing is built that was too large to begin with.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from msgspec.structs import replace

from strongroom.bridge import can_search
from strongroom.codec import count_values
from strongroom.errors import BudgetExceeded
from strongroom.store import (
    MAX_RECORD_BYTES,
    Answer,
    AnyQuestion,
    AsyncStore,
    Commit,
    Document,
    Durability,
    Find,
    Found,
    Get,
    Key,
    Page,
    Part,
    Range,
    Receipt,
    Record,
    Scan,
    Slice,
    Tail,
)

T = TypeVar("T")

MIB = 1024 * 1024
VALUE_BYTES = 72  # that a small value takes once it is parsed
EXPANSION = 6  # how many times its bytes an answer may take before its values count
LARGEST_READ = MAX_RECORD_BYTES + 4 * MIB  # one record of the largest kind, and what is read beside it

_left: ContextVar[list[int] | None] = ContextVar("strongroom.left", default=None)


class BoundedStore:
    """A store whose reads are refused before they hold too much."""

    shares_its_loop = True  # with every other request: see `Scope.compute`

    def __init__(self, store: AsyncStore, most_bytes: int) -> None:
        self._store: Any = store
        self.most_bytes = most_bytes
        self.on_commit: Callable[[Commit, Receipt], None] = _nobody
        if can_search(store):
            self.search = self._search

    @property
    def durability(self) -> Durability:
        stated: Durability = self._store.durability
        return stated

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        if not questions:
            return []
        left = _left.get()
        most = left[0] if left is not None else LARGEST_READ if _is_single(questions) else self.most_bytes
        part: Part = await self._store.read_within(questions, most)
        if part.cut or len(part.answers) < len(questions):
            raise too_much(most)
        if left is not None or most < LARGEST_READ:  # what may be as large as anything need not be weighed
            cost = sum(map(_cost, part.answers))
            if cost > most and most < LARGEST_READ:
                raise too_much(most)
            if left is not None:
                left[0] -= cost
        return part.answers

    async def commit(self, commit: Commit) -> Receipt:
        made: Receipt = await self._store.commit(commit)
        self.on_commit(commit, made)
        return made

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        await self._store.wait(key, length, timeout_seconds)

    async def _search(self, find: Find) -> Found:
        """Return the best matches, as many as there is room for; for a list, half of it, as more is read for each."""
        left = _left.get()
        most = self.most_bytes if left is None else left[0] // 2
        found: Found = await self._store.search(replace(find, max_bytes=min(most, find.max_bytes or most)))
        return found

    @staticmethod
    def aside() -> AbstractContextManager[None]:
        """Leave what is read within a block out of the sum that a list is bounded by."""
        return _at_most(None)

    async def close(self) -> None:
        await self._store.close()


async def fewer(limit: int, most_bytes: int, ask: Callable[[int], Awaitable[T]]) -> T:
    """Ask for a page of `limit` things, or of fewer if so many of them are too large together."""
    while True:
        try:
            # The last one may be as large as any.
            with _at_most(most_bytes if limit > 1 else max(most_bytes, LARGEST_READ)):
                return await ask(limit)
        except BudgetExceeded:
            if limit <= 1:
                raise
            limit = max(1, limit // 4)


@contextmanager
def _at_most(most_bytes: int | None) -> Iterator[None]:
    """Bound all that is read within a block together; None: each read for itself."""
    token = _left.set(None if most_bytes is None else [most_bytes])
    try:
        yield
    finally:
        _left.reset(token)


def _nobody(commit: Commit, made: Receipt) -> None:
    """Nobody wants to hear of commits."""


def too_much(most_bytes: int) -> BudgetExceeded:
    return BudgetExceeded(
        f"this would take more than {most_bytes} bytes to answer; ask for less at once",
        limit=most_bytes,
        needed=most_bytes + 1,
    )


def _is_single(questions: Sequence[AnyQuestion]) -> bool:
    """Tell whether a read asks for so little that it cannot ask for less: one thing, or two that belong together."""
    return len(questions) <= 2 and all(map(_is_one, questions))


def _is_one(question: AnyQuestion) -> bool:
    return type(question) is Get or _most(question) <= 1


def _most(question: AnyQuestion) -> float:
    """Return how many things a question asks for, at most."""
    if type(question) is Range:
        stretch = math.inf if question.stop is None else question.stop - question.start
        return stretch if question.limit is None else min(stretch, question.limit)
    if type(question) is Tail:
        return math.inf if question.count is None else question.count
    return question.limit if type(question) is Scan else 1


def _cost(answer: Answer) -> int:
    """Return what an answer counts for: its bytes, or more if much of it is small values."""
    if type(answer) is Document:
        return _cost_of(answer)
    if type(answer) is Slice:
        return sum(map(_cost_of, answer.records))
    return sum(map(_cost_of, answer.documents)) if type(answer) is Page else 0


def _cost_of(one: Document | Record) -> int:
    value = (one.value if type(one) is Document else one.body if type(one) is Record else None) or b""
    return max(len(value), count_values(value) * VALUE_BYTES // EXPANSION) + len(one.text or "")
