"""Reading threads: the slots of one, and of all of them how they stand and which have been unused for longest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from time import monotonic
from typing import Any, overload

from msgspec import Struct

from strongroom.arguments import checked, got_by
from strongroom.codec import Json
from strongroom.errors import Damaged, InvalidInput, NotFound, shown
from strongroom.meant import Unsettable
from strongroom.scope import Scope
from strongroom.services.threads.payloads import PayloadTypes
from strongroom.services.threads.plans import INFO, THREAD, ThreadRead, count_key, found, questions
from strongroom.services.threads.values import Slot
from strongroom.store import Document, Get, Key, Range, Record, Scan, Slice, Tail

PAGE = 256
WAIT_SECONDS = 1.0


@got_by("`await ctx.threads.get(thread_id)`", lambda given: isinstance(given, Scope))
@checked
class AsyncThread(Unsettable):
    """A handle on one thread. It holds nothing: every call asks the store.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         await ctx.threads.append("planner", {"task": "call the carrier"}, from_id="support")
    ...         thread = await ctx.threads.get("planner")
    ...         return (await thread[0]).payload, await thread.length()
    >>> asyncio.run(main())
    ({'task': 'call the carrier'}, 1)
    """

    def __init__(self, scope: Scope, types: PayloadTypes, key: Key) -> None:
        self._scope = scope
        self._types = types
        self._key = key

    @property
    def id(self) -> str:
        return self._key.id

    def __repr__(self) -> str:
        return f"AsyncThread({self.id!r})"

    # Else Python would try one index after the other, and no coroutine is ever the end.
    __iter__ = None
    __contains__ = None

    async def length(self) -> int:
        """Return how many slots the thread shows."""
        return len(await self.indexes())

    async def indexes(self) -> range:
        """Return the indexes of the slots that the thread shows. One that ended and came back does not begin at 0."""
        here = await self._read(0, 0)
        return range(here.first, here.length)

    @overload
    async def __getitem__(self, place: int) -> Slot: ...
    @overload
    async def __getitem__(self, place: slice) -> list[Slot]: ...
    async def __getitem__(self, place: int | slice) -> Slot | list[Slot]:
        """Return one slot by index (from the end if negative), or some by a slice without a step."""
        if isinstance(place, slice):
            if place.step not in (None, 1):
                raise InvalidInput("a thread cannot be sliced with a step")
            return await self.slice(place.start or 0, place.stop)
        if not isinstance(place, int) or isinstance(place, bool):
            raise InvalidInput(f"an index of a thread is a whole number, or a slice of them, not {shown(place)}")
        if place >= 0:
            here = await self._read(place, place + 1)
            chosen = here.records
        else:
            here = await self._scope.get(Tail(self._key, -place))
            chosen = here.records[:1] if len(here.records) == -place else ()
        if not chosen:
            held = f"it holds {here.first} to {here.length - 1}" if here.first < here.length else "it is empty"
            raise NotFound(
                f"thread {self.id!r} has no slot {place}; {held}",
                kind="slot",
                id=self.id,
            )
        return self._slot(chosen[0])

    async def slice(self, start: int = 0, stop: int | None = None) -> list[Slot]:
        """Return the slots with start <= index < stop. Negative numbers count from the end."""
        if start < 0 or (stop is not None and stop < 0):
            length = (await self._read(0, 0)).length
            start = max(start + length, 0) if start < 0 else start
            stop = max(stop + length, 0) if stop is not None and stop < 0 else stop
        return [slot async for slot in self._iterate(start, stop)]

    async def by_type(self, payload_type: str | type) -> list[Slot]:
        """Return the slots whose payload has this type, or a type of this name."""
        name = payload_type if isinstance(payload_type, str) else payload_type.__name__
        return [slot async for slot in self._iterate(0, None) if slot.type == name]

    async def sent_by(self, from_id: str) -> list[Slot]:
        """Return the slots this sender appended."""
        return [slot async for slot in self._iterate(0, None) if slot.from_id == from_id]

    def __aiter__(self) -> AsyncIterator[Slot]:
        return self._iterate(0, None)

    async def follow(self, *, after: int = -1, idle_seconds: float | None = None) -> AsyncIterator[Slot]:
        """See `AsyncThreads.follow`."""
        store: Any = self._scope.store
        next_index, since = after + 1, monotonic()
        while True:
            here = await self._read(next_index, None, PAGE)
            for record in here.records:
                yield self._slot(record)
            if here.records:
                next_index, since = here.records[-1].index + 1, monotonic()
                continue
            left = WAIT_SECONDS if idle_seconds is None else since + idle_seconds - monotonic()
            if left <= 0:
                return
            await store.wait(self._key, next_index, min(left, WAIT_SECONDS))

    async def _iterate(self, start: int, stop: int | None) -> AsyncIterator[Slot]:
        # The length is taken once: iterating ends although somebody keeps appending.
        while True:
            here = await self._read(start, stop, PAGE)
            stop = here.length if stop is None else min(stop, here.length)
            for record in here.records:
                yield self._slot(record)
            if not here.records:
                return
            start = here.records[-1].index + 1
            if start >= stop:
                return

    async def _read(self, start: int, stop: int | None, limit: int | None = None) -> Slice:
        return await read_slice(self._scope, Range(self._key, start, stop, limit))

    def _slot(self, record: Record) -> Slot:
        return Slot(self.id, record, self._types)


async def read_slice(scope: Scope, question: Range) -> Slice:
    """Read a part of a thread. A damaged record does not hide its neighbours: a slot that cannot be opened stands in
    its place."""
    try:
        return await scope.some(question)
    except Damaged:
        here = await scope.get(Range(question.key, 0, 0))
        start = max(question.start, here.first)
        stop = here.length if question.stop is None else min(question.stop, here.length)
        if question.limit is not None:
            stop = min(stop, start + question.limit)
        records = [await _read_alone(scope, question.key, index) for index in range(start, stop)]
        return Slice(here.length, here.first, tuple(records))


async def _read_alone(scope: Scope, key: Key, index: int) -> Record:
    try:
        return (await scope.get(Range(key, index, index + 1))).records[0]
    except Damaged:
        return Record(index, "", Json(b""), 0, 0, None, None, None, None, None)


# ---- all of them -----------------------------------------------------------------------------------------------------


class Used(Struct, frozen=True, order=True):
    """When a thread was last written to, and how long it was then."""

    at: int
    thread_id: str
    length: int


async def look(scope: Scope, keys: Sequence[Key]) -> tuple[list[ThreadRead], Document | None]:
    """Return what a plan for these threads needs, and the document that counts all of them, from one snapshot."""
    *answers, count = await scope.get_all([*questions(keys), Get(count_key(scope.space))])
    assert not isinstance(count, Slice)
    return found(keys, answers), count


async def live(scope: Scope) -> AsyncIterator[list[Key]]:
    """Yield the keys of all live threads, some at a time. One bad document does not hide the others."""
    async for page in scope.pages(Scan(scope.space, INFO, {"state": "live"}, limit=PAGE), lambda damage: None):
        yield [scope.key(THREAD, info.key.id) for info in page]


async def by_use(scope: Scope) -> list[Used]:
    """List the live threads, the one unused for longest first."""
    used = []
    async for keys in live(scope):
        slices = await scope.get_sound([Tail(key, 1) for key in keys])
        used += [
            Used(here.records[0].at, key.id, here.length)
            for key, here in zip(keys, slices, strict=True)
            if not isinstance(here, Damaged) and here.records  # what cannot be read is not thrown away either
        ]
    return sorted(used)
