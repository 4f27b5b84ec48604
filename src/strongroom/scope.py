"""What every service is given: a store, the space it may see, a clock and a tokenizer; and the typed way to read."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar, cast, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.errors import BudgetExceeded, Damaged
from strongroom.retrieval import MOST_UNREAD
from strongroom.store import (
    AnyQuestion,
    AsyncStore,
    Document,
    Find,
    Found,
    Get,
    Key,
    Page,
    Question,
    Range,
    Scan,
    Slice,
    require_name,
)
from strongroom.tokens import Tokenizer, tokenizer

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
T = TypeVar("T")

LITTLE = 32_768  # characters that a moment is enough for
AT_ONCE = 100  # things that are asked for together where there may be any number
WHOLE = ("replaced", "regressed", "cut")  # reasons of damage to a store, not to something in it

# Is told what cannot be read and therefore is left out; where there is none, damage is raised.
Telling = Callable[[Damaged], object] | None


class Unread(dict[str, None]):
    """The ids of what could not be read and was left out, each once, and no more of them than anybody would go through:
    `unreadable` says where there may be others."""

    def tell(self, damage: Damaged) -> None:
        """Note one more."""
        if len(self) < MOST_UNREAD:
            self[damage.id] = None


def now() -> int:
    """Return microseconds since 1970. Recorded for people; nothing is ever ordered by it."""
    return time.time_ns() // 1000


class Scope(Struct, frozen=True):
    """The tenant's view of a store. A service cannot make a key outside of it."""

    store: AsyncStore
    space: str = "default"
    clock: Callable[[], int] = now
    tokenizer: Tokenizer = tokenizer("default")

    def __post_init__(self) -> None:
        require_name(self.space, "a space")

    def key(self, kind: str, id: str) -> Key:
        return Key(self.space, kind, id)

    @property
    def threads(self) -> bool:
        """Whether slow work goes to a thread: there is an event loop to keep free, as the store is one for a loop."""
        return not getattr(self.store, "needs_no_loop", False)

    async def compute(self, size: int, function: Callable[[], T]) -> T:
        """Compute something from so many characters: on a thread if they are many and others share the event loop, as
        on a server. Without threads this never suspends."""
        if size > LITTLE and getattr(self.store, "shares_its_loop", False):
            return await asyncio.to_thread(function)
        return function()

    @property
    def room(self) -> int:
        """How many bytes an answer may be made of; a store on a server says so, any other leaves it to memory."""
        return cast("int", getattr(self.store, "most_bytes", sys.maxsize))

    def aside(self) -> AbstractContextManager[None]:
        """Read within a block what does not come into the answer: on a server, each read is bounded, their sum is not.

        Whoever holds much of it has to see to that: `room`.
        """
        return cast("AbstractContextManager[None]", getattr(self.store, "aside", nullcontext)())

    async def get(self, question: Question[A]) -> A:
        """Ask one question."""
        [answer] = await self.store.read([cast("AnyQuestion", question)])
        return cast("A", answer)

    async def get_all(self, questions: Sequence[Question[A]]) -> list[A]:
        """Ask any number of questions of one kind, of one snapshot."""
        return cast("list[A]", await self.store.read(cast("Sequence[AnyQuestion]", questions))) if questions else []

    async def get_each(self, questions: Sequence[Question[A]]) -> list[A]:
        """Ask any number of questions of one kind, however large the answers are together; each may be of another
        snapshot."""
        return [answer async for answers in self.parts(questions, AT_ONCE, self.get_all) for answer in answers]

    async def get_sound(self, questions: Sequence[Question[A]]) -> list[A | Damaged]:
        """Ask any number of questions of one kind; where something is damaged each alone, and the damage stands in for
        its answer."""
        try:
            return [*await self.get_all(questions)]
        except Damaged as damage:
            if damage.reason in WHOLE:
                raise
            if len(questions) == 1:
                return [damage]
        return [answer for one in questions for answer in await self.get_sound([one])]

    async def get_known(self, keys: Sequence[Key], damaged: Telling) -> list[Document | None]:
        """Read documents. One that cannot be read is as if it were not there, and told."""
        questions = [Get(key) for key in keys]
        if damaged is None:
            return await self.get_all(questions)
        known: list[Document | None] = []
        for key, answer in zip(keys, await self.get_sound(questions), strict=True):
            if isinstance(answer, Damaged):
                answer.id = key.id
                damaged(answer)
                known.append(None)
            else:
                known.append(answer)
        return known

    async def read_all(self, some: Sequence[Question[A]], others: Sequence[Question[B]]) -> tuple[list[A], list[B]]:
        """Ask any number of questions of two kinds, of one snapshot."""
        answers = await self.get_all(cast("Sequence[Question[object]]", [*some, *others]))
        return cast("list[A]", answers[: len(some)]), cast("list[B]", answers[len(some) :])

    @overload
    async def some(self, question: Range) -> Slice: ...
    @overload
    async def some(self, question: Scan) -> Page: ...
    async def some(self, question: Range | Scan) -> Slice | Page:
        """Read the first things of a range or a scan: all of them, or fewer where a store bounds what one read may
        hold."""
        while True:
            try:
                [answer] = await self.store.read([question])
                return cast("Slice | Page", answer)
            except BudgetExceeded:
                if question.limit is None or question.limit <= 1:
                    raise
                question = replace(question, limit=max(1, question.limit // 4))

    async def parts(
        self, things: Sequence[A], most: int, ask: Callable[[Sequence[A]], Awaitable[B]]
    ) -> AsyncIterator[B]:
        """Ask about things, so many at a time, or fewer where a store bounds what one read may hold."""
        start = 0
        while start < len(things):
            part = things[start : start + most]
            try:
                answer = await ask(part)
            except BudgetExceeded:
                if len(part) <= 1:
                    raise
                most = max(1, len(part) // 4)
                continue
            yield answer
            start += len(part)

    async def first_pages(self, scans: Sequence[Scan], damaged: Telling = None) -> AsyncIterator[Page]:
        """Give a page of each scan, as many of them in one read as a store answers; a shorter one if it is too much.

        What cannot be read ends it, or is told to `damaged` and passed over.
        """

        async def ask(part: Sequence[Scan]) -> list[Page]:
            try:
                return await self.get_all(part) if len(part) > 1 else [await self.some(part[0])]
            except Damaged:
                if damaged is None:
                    raise
            return [await sound(scan) for scan in part]

        async def sound(scan: Scan) -> Page:
            found: list[Document] = []
            async for page in self.pages(scan, damaged):
                found += page
                if len(found) >= scan.limit:
                    break
            return Page(tuple(found[: scan.limit]), None)

        async for pages in self.parts(scans, len(scans), ask):
            for page in pages:
                yield page

    async def finds(self, asked: Find, damaged: Telling = None) -> AsyncIterator[Found]:
        """Give what the store's index finds, in pieces where it is too much for one answer.

        One match that cannot be read does not hide the others: it is told to `damaged` and passed over, by stores that
        can tell which one it is.
        """
        skip, end = asked.skip, asked.skip + asked.limit
        while skip < end:
            find = replace(asked, skip=skip, limit=end - skip, past_damage=damaged is not None)
            found: Found = await self.store.search(find)  # type: ignore[attr-defined]
            if damaged is not None:
                for id in found.damaged:
                    damaged(Damaged(f"{asked.kind} {id!r} cannot be read", reason="corrupt", id=id))
            yield found
            if not found.cut or not found.behind:
                return
            skip += found.behind

    async def listed(self, scan: Scan, load: Callable[[Document], T]) -> tuple[list[T], str | None, tuple[str, ...]]:
        """Return what a page of documents says, where the next one begins, and the ids of those that cannot be read.

        One bad document does not hide its neighbours: where a store refuses a page for it, each is asked for alone.
        """
        if not scan.limit:
            return [], None, ()
        found: list[T] = []
        bad: list[str] = []
        after, step = scan.after, scan.limit
        while len(found) + len(bad) < scan.limit:
            try:
                page = await self.get(replace(scan, after=after, limit=step))
            except Damaged as damage:
                if not damage.place:
                    raise
                if step == 1:
                    bad.append(damage.id)
                    after = damage.place
                step = 1
                continue
            for document in page.documents:
                try:
                    found.append(load(document))
                except (Damaged, msgspec.MsgspecError, ValueError, LookupError, TypeError):
                    bad.append(document.key.id)
            after = page.next
            if after is None:
                break
        return found, after, tuple(bad)

    async def pages(self, scan: Scan, damaged: Telling = None) -> AsyncIterator[tuple[Document, ...]]:
        """Give all that a scan finds, a page at a time. What changes meanwhile may be seen or not.

        What cannot be read ends it, or is told to `damaged` and passed over.
        """
        async for page in self.walk(scan, damaged):
            if page.documents:
                yield page.documents

    async def walk(self, scan: Scan, damaged: Telling = None) -> AsyncIterator[Page]:
        """Give the same pages, each with the cursor behind it; the last may be empty."""
        after, limit = scan.after, scan.limit
        while True:
            try:
                page = await self.get(replace(scan, after=after, limit=limit))
            except BudgetExceeded:
                if limit <= 1:
                    raise
                limit = max(1, limit // 4)
                continue
            except Damaged as damage:
                if damaged is None or not damage.place:
                    raise
                if limit > 1:  # what stands before it in the page is to be seen
                    limit = 1
                    continue
                damaged(damage)
                after, limit = damage.place, scan.limit
                continue
            yield page
            if page.next is None:
                return
            after = page.next

    async def ids(self, scan: Scan) -> list[str]:
        """Return the ids of all that a scan finds, also of what cannot be read."""
        found = list[str]()
        async for page in self.pages(scan, lambda damage: found.append(damage.id)):
            found.extend([document.key.id for document in page])
        return found

    @overload
    async def read(self, a: Question[A], b: Question[B], /) -> tuple[A, B]: ...
    @overload
    async def read(self, a: Question[A], b: Question[B], c: Question[C], /) -> tuple[A, B, C]: ...
    @overload
    async def read(self, a: Question[A], b: Question[B], c: Question[C], d: Question[D], /) -> tuple[A, B, C, D]: ...
    @overload
    async def read(self, a: Question[A], b: Question[B], /, *more: Question[C]) -> tuple[A, B, *tuple[C, ...]]: ...
    async def read(self, *questions: Question[object]) -> tuple[object, ...]:
        """Ask a few questions of one snapshot, in one round trip."""
        return tuple(await self.store.read(cast("Sequence[AnyQuestion]", questions)))
