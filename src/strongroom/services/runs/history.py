"""Time travel: any version of a working set, rebuilt from the ledger.

Updates carry the change they made, and now and then the whole state. A version is found by bisection (sequence numbers
only grow along a ledger), then rebuilt from the last whole state before it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from strongroom.codec import Json
from strongroom.errors import Damaged, InvalidInput, NotFound
from strongroom.services.runs.ledger import PAGE, body_of, event
from strongroom.services.runs.own_state import FIELD, differs
from strongroom.services.runs.state import Attached, Ref, Stored
from strongroom.services.runs.working_set import WorkingSetJson, apply, view
from strongroom.store import Range, Record
from strongroom.values import Diff, FieldChange, RunConfig, Step


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
        return {**apply(state, detail["change"]), "_update_seq": detail["seq"]}
    return state


def diff(before: WorkingSetJson, after: WorkingSetJson) -> Diff:
    """Return what differs, by field."""
    found = []
    for name in dict.fromkeys([*after, *before]):
        old: Any = before.get(name)
        value: Any = after.get(name)
        same = not differs(old, value) if name == FIELD else old == value
        if same or name in ("_update_seq", "run_id"):
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


# ---- the story a ledger tells ---------------------------------------------------------------------------------------
#
# Everything of a run is told in its chain: the state by what each update changed, the configuration by the event the
# run began with, an episode by the hash in the event of its milestone, content by the event that attached it, the owner
# by the event that gave the run to somebody. Events that begin a run anew (it was started, restored, erased) tell all
# of it at once. So whatever is kept beside the ledger can be held against it.


def episode_digest(at: int, body: Json) -> str:
    """Return what the event of a milestone tells of its episode."""
    return sha256(b"strongroom/episode/1\0" + at.to_bytes(8, "big", signed=True) + body).hexdigest()


def all_digest(digests: Iterable[str]) -> tuple[int, str]:
    """Return how many episodes there are and one hash over all of them, for an event that tells them at once."""
    known = list(digests)
    return len(known), sha256(b"strongroom/episodes/1\0" + "".join(known).encode()).hexdigest()


class Story:
    """A ledger that is being told. `hear` raises ValueError where an event says what none can say."""

    def __init__(self) -> None:
        self.state: WorkingSetJson | None = None
        self.config: RunConfig | None = None
        self.user_id: str | None = None
        self.created: int | None = None  # when the first event was recorded
        self.whole = -1  # the place of the last event with a whole state
        self.attached: dict[str, Attached] = {}
        self._brought = all_digest(())
        self._made: list[str] = []

    def hear(self, record: Record) -> None:
        """Take in the next event. Of one that was erased nothing is left to take in."""
        self.created = record.at if self.created is None else self.created
        try:
            self._hear(record)
        except (msgspec.ValidationError, LookupError, TypeError, AttributeError, ValueError) as problem:
            raise ValueError(f"the event says what no event can say ({problem})") from None

    def _hear(self, record: Record) -> None:
        if record.body is None:
            self.state = None
            return
        detail = detail_of(record)
        self.state = told(self.state, detail)
        if "state" in detail:
            self.whole = record.index
        if "config" in detail:
            self.config = msgspec.convert(detail["config"], RunConfig)
            self.attached = {}
            self._brought = msgspec.convert(detail.get("episodes", all_digest(())), tuple[int, str])
            self._made = []
        if "config" in detail or "user_id" in detail:
            self.user_id = msgspec.convert(detail.get("user_id"), str | None)
        for one in msgspec.convert(detail.get("attached", []), list[Attached]):
            self.attached[one.id] = one
        if "episode_sha256" in detail:
            self._made.append(str(detail["episode_sha256"]))

    def wrong_episode(self, digests: list[str]) -> int | None:
        """Return the place of the first episode, of those that are there, that is missing, exchanged or too many."""
        count, brought = self._brought
        if all_digest(digests[:count]) != (count, brought):
            return 0
        there, told = digests[count:], self._made
        for place in range(max(len(there), len(told))):
            if there[place : place + 1] != told[place : place + 1]:
                return count + place
        return None
