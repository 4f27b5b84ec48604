"""Time travel: any version of a working set, rebuilt from the ledger.

Updates carry the change they made, and now and then the whole state. A version is found by bisection (sequence numbers
only grow along a ledger), then rebuilt from the last whole state before it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from time import monotonic
from typing import Any

from strongroom.errors import Damaged, InvalidInput, NotFound
from strongroom.services.runs import changes
from strongroom.services.runs.changes import WorkingSetJson
from strongroom.services.runs.ledger import PAGE, body_of, event
from strongroom.services.runs.state import Ref, Stored, load_of
from strongroom.services.runs.working_set import view
from strongroom.store import Get, Range, Record
from strongroom.values import Diff, Event, FieldChange, Listing, Step

MAX_EVENTS = 1000
WAIT_SECONDS = 5.0


async def at(stored: Stored, seq: int) -> WorkingSetJson:
    """Return the working set after update number `seq`."""
    if type(seq) is not int or seq < 0:
        raise InvalidInput(f"seq must be a whole number, 0 or more, not {seq!r:.40}")
    if seq == stored.seq:
        return stored.working_set
    found = await _last_with(stored, seq) if seq < stored.seq else None
    if found is None or detail_of(found)["seq"] != seq:
        gone = "it was erased, or lies before what was restored" if seq < stored.seq else f"it is at {stored.seq}"
        raise NotFound(f"run {stored.ref.run_id!r} has no version {seq}: {gone}", kind="version", id=str(seq))
    state = None
    async for record in records(stored.ref, detail_of(found).get("floor", found.index), found.index + 1):
        state = after(state, record)
    if state is None or state["_update_seq"] != seq:
        raise Damaged(f"the ledger of run {stored.ref.run_id!r} does not lead to version {seq}", reason="gap")
    # A restored run has its own id in every version.
    return {**state, "run_id": stored.ref.run_id}


async def replay(stored: Stored) -> AsyncIterator[Step]:
    """Yield every event up to now with the working set after it."""
    state: WorkingSetJson | None = None
    async for record in records(stored.ref, 0, stored.length):
        state = after(state, record)
        shown = None if state is None else view({**state, "run_id": stored.ref.run_id})
        yield Step(event(record, stored.working_set), shown)


async def follow(ref: Ref, ids: Mapping[str, Any], after: int, idle_seconds: float | None) -> AsyncIterator[Event]:
    """Yield the events with a sequence id above `after`, then new ones as they come, until none has for long enough."""
    store: Any = ref.scope.store
    start, since = after, monotonic()
    while True:
        page = await ref.scope.some(Range(ref.ledger, start, None, PAGE))
        for record in page.records:
            yield event(record, ids)
        if page.records:
            start, since = page.records[-1].index + 1, monotonic()
            continue
        left = WAIT_SECONDS if idle_seconds is None else since + idle_seconds - monotonic()
        if left <= 0:
            return
        await store.wait(ref.ledger, max(start, page.length), min(left, WAIT_SECONDS))


async def events(ref: Ref, after: int, limit: int, types: Sequence[str] | None) -> Listing[Event]:
    """Return up to `limit` events with a sequence id above `after`, of some types or all."""
    if type(limit) is not int or not 0 < limit <= MAX_EVENTS:
        raise InvalidInput(f"limit must be 1 to {MAX_EVENTS}, not {limit!r:.40}")
    found: list[Event] = []
    start = after
    while True:
        document, page = await ref.scope.read(Get(ref.key), Range(ref.ledger, start, None, limit))
        working_set = load_of(ref, document).working_set
        for record in page.records:
            start = record.index + 1
            if types is None or record.type in types:
                found.append(event(record, working_set))
                if len(found) == limit:
                    return Listing(found, str(start) if start < page.length else None)
        if start >= page.length or not page.records:
            return Listing(found)


async def records(ref: Ref, start: int, stop: int) -> AsyncIterator[Record]:
    """Yield the records of a ledger, a page at a time."""
    while start < stop:
        page = await ref.scope.some(Range(ref.ledger, start, stop, PAGE))
        for record in page.records:
            yield record
        if not page.records:
            return
        start = page.records[-1].index + 1


def after(state: WorkingSetJson | None, record: Record) -> WorkingSetJson | None:
    """Return the state after a record, given the one before (None: not known)."""
    return None if record.body is None else told(state, detail_of(record))


def told(state: WorkingSetJson | None, detail: Mapping[str, Any]) -> WorkingSetJson | None:
    """Return the state after an event with this detail, given the one before (None: not known)."""
    if "state" in detail:
        found: WorkingSetJson = detail["state"]
        return found
    if "change" in detail and state is not None:
        return {**changes.apply(state, detail["change"]), "_update_seq": detail["seq"]}
    return state


def diff(before: WorkingSetJson, after: WorkingSetJson) -> Diff:
    """Return what differs, by field."""
    found = []
    for name, value in after.items():
        old = before[name]
        if old == value or name in ("_update_seq", "run_id"):
            continue
        if isinstance(value, list):
            added = tuple(item for item in value if item not in old)
            removed = tuple(item for item in old if item not in value)
            found.append(FieldChange(field=name, before=old, after=value, added=added, removed=removed))
        else:
            found.append(FieldChange(field=name, before=old, after=value))
    return Diff(before["_update_seq"], after["_update_seq"], tuple(found))


async def _last_with(stored: Stored, seq: int) -> Record | None:
    """Return the last record that carries a version not above `seq`."""
    low, high, best = 0, stored.length, None
    while low < high:
        middle = (low + high) // 2
        found = await _first_version(stored.ref, middle, high)
        if found is None or detail_of(found)["seq"] > seq:
            high = middle
        else:
            best, low = found, found.index + 1
    return best


async def _first_version(ref: Ref, start: int, stop: int) -> Record | None:
    async for record in records(ref, start, stop):
        if "seq" in detail_of(record):
            return record
    return None


def detail_of(record: Record) -> dict[str, Any]:
    """Return what Strongroom added to an event (nothing, if that was erased)."""
    return (body_of(record.body).detail if record.body is not None else None) or {}
