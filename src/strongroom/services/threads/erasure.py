"""Erasing slots for good: what was said, by whom and for whom. Their places, types and times stay.

With a message goes what the workers noted of it: its dead letter, and why it failed last. A message that nobody has
handled yet is not delivered any more. Whoever is handling one just now loses the thread in the same commit, so that
nothing it makes of the message is stored; what it has not handled yet is handled anew.

A long thread is erased in bounded commits, oldest slots first. Each can be made again without doing more, so whoever
is killed in between calls again. What a message led to in other threads, and a pack that left the store, are copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from strongroom.codec import encode, pack
from strongroom.errors import InvalidInput
from strongroom.operations import Operation, Plan, erasing_step, perform, still_pending, traces
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import DELIVERY, dead_key, due, interrupted, read_delivery
from strongroom.services.threads.plans import THREAD
from strongroom.services.threads.reading import read_slice
from strongroom.services.threads.values import ErasedSlots
from strongroom.store import Delete, Erase, Expect, Get, Key, Put, Range, Receipt, Record, Write
from strongroom.values import microseconds

AT_ONCE = 1_000


class Chosen(Struct, frozen=True):
    """Which slots are to be erased: start <= index < stop, and appended before that time (in microseconds)."""

    start: int | None = None
    stop: int | None = None
    before: int | None = None

    def takes(self, record: Record) -> bool:
        return self.before is None or record.at < self.before


class _Part(Struct, frozen=True):
    """What erases some slots, how many that are, and where the next ones begin."""

    expects: tuple[Expect, ...]
    writes: tuple[Write, ...]
    count: int
    next: int


def chosen(start: int | None, stop: int | None, before: datetime | None) -> Chosen:
    """Return which slots are meant."""
    if before is not None and before.tzinfo is None:
        raise InvalidInput("before must be an aware time, such as datetime.now(UTC); nothing changed")
    return Chosen(start, stop, None if before is None else microseconds(before))


def _require(which: Chosen) -> None:
    """Raise `InvalidInput` unless somebody said what to erase: a whole thread does not go by an omission."""
    if which == Chosen():
        raise InvalidInput(
            "say which slots to erase: start and stop, before a time, or start=0 for the whole thread; nothing changed"
        )
    for name, value in (("start", which.start), ("stop", which.stop)):
        if value is not None and value < 0:
            raise InvalidInput(f"{name} must be an index, 0 or more, not {value!r:.40}; nothing changed")


async def erase(scope: Scope, thread_id: str, which: Chosen, commit_id: str | None) -> ErasedSlots:
    """Leave nothing of slots, however often it takes."""
    _require(which)
    key = scope.key(THREAD, thread_id)

    async def attempt() -> Plan[ErasedSlots]:
        here = await scope.get(Range(key, 0, 0))
        place = max(which.start or 0, here.first)
        stop = here.length if which.stop is None else min(which.stop, here.length)
        count = 0
        while True:
            part = await _part(scope, key, which, place, stop)
            if part.next >= stop:
                break
            part = await erasing_step(scope, key, partial(_step, scope, key, which, place, stop))
            count, place = count + part.count, part.next
        count += part.count
        # The trace even if nothing is left: whoever came first may have been killed before the files were clean.
        writes = (*part.writes, traces(key))
        return Plan(part.expects, writes, lambda receipt: told(count, receipt.pending), encode(count))

    def told(count: int, pending: str | None) -> ErasedSlots:
        return ErasedSlots(thread_id, count, pending is None, pending)

    async def replay(receipt: Receipt) -> ErasedSlots:
        assert receipt.answer is not None
        return told(receipt.answer.load(), await still_pending(scope, key, receipt))

    content = encode({"start": which.start, "stop": which.stop, "before": which.before})
    return await perform(scope, Operation("threads.erase", key, content, commit_id), attempt, replay)


async def _step(scope: Scope, key: Key, which: Chosen, place: int, stop: int) -> Plan[_Part]:
    part = await _part(scope, key, which, place, stop)
    return Plan(part.expects, part.writes, lambda _: part)


async def _part(scope: Scope, key: Key, which: Chosen, place: int, stop: int) -> _Part:
    """Say what erases the next slots."""
    if place >= stop:
        return _Part((), (), 0, stop)
    delivery = Key(key.space, DELIVERY, key.id)
    document = await scope.get(Get(delivery))
    here = await read_slice(scope, Range(key, place, stop, AT_ONCE))
    records = [record for record in here.records if which.takes(record)]
    letters = [
        dead_key(key.space, thread_id=key.id, index=record.index, receiver=record.receiver)
        for record in records
        if record.receiver is not None
    ]
    dead = [found for found in await scope.get_all([Get(letter) for letter in letters]) if found is not None]
    expects = [Expect(found.key, found.version) for found in dead]
    writes: list[Write] = [Erase(key, start, end) for start, end in _stretches(records)]
    writes += [Delete(found.key) for found in dead]
    state = read_delivery(document)
    after = interrupted(state, {record.index for record in records})
    receivers = {record.receiver for record in records if record.receiver is not None}
    if due(state, records, receivers) or after.put_off != state.put_off:
        # Whoever takes the thread meanwhile has read the message: the next attempt interrupts that one, too.
        expects.append(Expect(delivery, document.version if document else 0))
        writes += [Put(delivery, pack(after))] if after != state else []
    following = here.records[-1].index + 1 if here.records else stop
    return _Part(tuple(expects), tuple(writes), len(records), following)


def _stretches(records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """Yield the runs of indexes that follow each other, as ranges."""
    start = end = None
    for record in records:
        if record.index != end:
            if start is not None and end is not None:
                yield start, end
            start = record.index
        end = record.index + 1
    if start is not None and end is not None:
        yield start, end
