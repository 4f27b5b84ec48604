"""Recording events in a run's ledger, and reading them back: in pages, or as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from time import monotonic
from typing import Any

from msgspec import Raw

from strongroom.codec import Json, pack
from strongroom.errors import NotFound
from strongroom.operations import Operation, Plan, Prepared
from strongroom.scope import Scope
from strongroom.services.runs import state
from strongroom.services.runs.ledger import PAGE, check_payload, event, recorded, wanted_types
from strongroom.services.runs.state import Ref, find, load_of
from strongroom.store import EXISTS, Append, Expect, Get, Range, Receipt, Write
from strongroom.values import Event, Listing

WAIT_SECONDS = 5.0


def recording(
    ref: Ref, ids: Mapping[str, Any], type: str, payload: Json, *, actor: str, parent: str | None, commit_id: str | None
) -> Prepared[Event]:
    """Say how an event is added whose payload was checked."""

    async def attempt() -> Plan[Event]:
        entry = state.record(ref, type, payload, actor=actor, parent=parent)
        return state.recording(ref, entry, lambda made: event(recorded(entry, made.versions[0] - 1), ids))

    async def replay(receipt: Receipt) -> Event:
        length = receipt.versions[0]
        document, page = await ref.scope.read(Get(ref.key), Range(ref.ledger, length - 1, length))
        if page.records[0].body is None:
            raise NotFound(f"event {length} of run {ref.run_id!r} was erased since", kind="event", id=str(length))
        return event(page.records[0], load_of(ref, document).working_set)

    content = pack({"type": type, "payload": Raw(payload), "actor": actor, "parent": parent})
    return Prepared(Operation("run.record", ref.key, content, commit_id), attempt, replay)


async def event_writes(
    scope: Scope, run_id: str, type: str, payload: dict[str, Any], *, actor: str, parent: str | None = None
) -> tuple[tuple[Expect, ...], tuple[Write, ...]]:
    """Say what to join to a commit of your own so that it records an event in a run's ledger too."""
    told = check_payload(type, payload)
    ref, _ = await find(scope, run_id)
    added = state.record(ref, type, told, actor=actor, parent=parent)
    return (Expect(ref.key, EXISTS),), (Append(ref.ledger, (added,)),)


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


async def events(ref: Ref, after: int, limit: int, types: str | Sequence[str] | None) -> Listing[Event]:
    """Return up to `limit` events with a sequence id above `after`, of one type, some or all."""
    wanted = None if types is None else wanted_types(types)
    found: list[Event] = []
    start = after
    while True:
        document, page = await ref.scope.read(Get(ref.key), Range(ref.ledger, start, None, limit))
        working_set = load_of(ref, document).working_set
        for record in page.records:
            start = record.index + 1
            if wanted is None or record.type in wanted:
                found.append(event(record, working_set))
                if len(found) == limit:
                    return Listing(found, str(start) if start < page.length else None)
        if start >= page.length or not page.records:
            return Listing(found)
