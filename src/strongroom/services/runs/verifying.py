"""Checking a ledger from its first event to its last, a page at a time, and naming the first that is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256

import msgspec

from strongroom.codec import encode
from strongroom.errors import Damaged, StrongroomError
from strongroom.services.runs import history
from strongroom.services.runs.changes import WorkingSetJson
from strongroom.services.runs.ledger import GENESIS, PAGE, Tombstone, body_of, commitment, tombstone
from strongroom.services.runs.state import Ref, load
from strongroom.store import Document, Get, Range, Record
from strongroom.values import Head, Verification

ERASED = "ERASED"


class Tombstones:
    """What ERASED events say about the events they erased. Looked for only when an erased event is met."""

    def __init__(self, ref: Ref) -> None:
        self._ref = ref
        self._places: list[tuple[int, int, int]] | None = None  # first index, end, index of the ERASED event
        self._loaded: tuple[int, list[Tombstone]] = (-1, [])

    async def get(self, index: int) -> Tombstone | None:
        if self._places is None:
            self._places = [place async for place in self._scan(index)]
        for first, end, place in self._places:
            if first <= index < end:
                if self._loaded[0] != place:
                    self._loaded = (place, await self._load(place))
                return self._loaded[1][index - first]
        return None

    async def _scan(self, start: int) -> AsyncIterator[tuple[int, int, int]]:
        while True:
            _, length, found = await page(self._ref, start)
            for record in found:
                if isinstance(record, Record) and record.type == ERASED and record.body is not None:
                    payload = body_of(record.body).payload
                    first, last, told = payload["first"], payload["last"], payload["tombstones"]
                    if len(told) == last - first + 1:
                        yield first - 1, last, record.index
            start += PAGE
            if start >= length:
                return

    async def _load(self, place: int) -> list[Tombstone]:
        [found] = await self._ref.scope.store.read([Range(self._ref.ledger, place, place + 1)])
        return msgspec.convert(body_of(found.records[0].body).payload["tombstones"], list[Tombstone])


async def verify(ref: Ref, head: Head | None = None) -> Verification:
    """Recompute every commitment and the chain; compare the working set with what the ledger leads to."""
    tombstones = Tombstones(ref)
    chain, checked, problem = GENESIS, 0, ""
    state: WorkingSetJson | None = None
    while not problem:
        document, length, found = await page(ref, checked)
        if not found:
            problem = "an event is missing here" if checked < length or not checked else ""
            break
        for record in found:
            problem = await _problem(ref, record, checked, chain, tombstones)
            if problem:
                break
            assert isinstance(record, Record) and record.commitment is not None
            chain = sha256(chain + record.commitment).digest()
            if head is not None and head.length == checked + 1 and head.chain != chain.hex():
                problem = "this is not the ledger whose head was kept: it was rewritten here or before"
                break
            state = history.after(state, record)
            checked += 1
    if not problem and head is not None and head.length > checked:
        problem = f"the ledger ends here, and was {head.length} events long when its head was kept"
    first_bad = checked + 1 if problem else None
    if not problem and state is not None and state != load(document, ref.run_id).working_set:
        problem = "the working set is not what the ledger leads to"
    return Verification(
        ok=not problem, checked=checked, first_bad=first_bad, reason=problem, head=Head(checked, chain.hex())
    )


async def page(ref: Ref, start: int) -> tuple[Document | None, int, list[Record | Damaged]]:
    """Return the run document, the ledger's length and a page of its records, from one snapshot.

    A record that the store itself finds damaged stands there as its error, and ends the page.
    """
    store = ref.scope.store
    try:
        document, found = await store.read([Get(ref.key), Range(ref.ledger, start, start + PAGE)])
        return document, found.length, list(found.records)
    except Damaged:
        document, found = await store.read([Get(ref.key), Range(ref.ledger, limit=0)])
    records: list[Record | Damaged] = []
    for index in range(start, min(start + PAGE, found.length)):
        try:
            [one] = await store.read([Range(ref.ledger, index, index + 1)])
        except Damaged as damage:
            return document, found.length, [*records, damage]
        records += one.records
    return document, found.length, records


async def _problem(ref: Ref, record: Record | Damaged, index: int, chain: bytes, tombstones: Tombstones) -> str:
    """Return what is wrong with a record, or nothing."""
    if isinstance(record, Damaged):
        return str(record)
    if record.index != index:
        return "an event is missing here"
    if record.weight or record.text is not None or record.sender is not None or record.receiver is not None:
        return "the record has columns no event has"
    if record.commitment is None or record.chain != sha256(chain + record.commitment).digest():
        return "the event does not continue the chain"
    if record.body is None:
        known = await tombstones.get(index)
        if known is None:
            return "the content is gone and no erasure was recorded"
    else:
        known = _recomputed(record)
        if known is None:
            return "the content is not readable as an event"
    if commitment(ref.identity, record.type, record.at, known) != record.commitment:
        return "the event is not the one that was recorded"
    return ""


def _recomputed(record: Record) -> Tombstone | None:
    assert record.body is not None
    try:
        body = body_of(record.body)
        # One content has one spelling; anything else was not written by us.
        return tombstone(body) if encode(msgspec.to_builtins(body)) == record.body else None
    except (msgspec.DecodeError, msgspec.ValidationError, StrongroomError, ValueError):
        return None
