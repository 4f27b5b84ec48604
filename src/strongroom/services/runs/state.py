"""What is stored for a run: one document, and the streams it names.

The document (kind `run`) holds the working set and what Strongroom must know to go on. Its ledger and episodes are
streams named by `streams`: the run's own id when it was created here, a fresh one when it was restored. A pack is
written to streams nobody looks at yet, and the document, put last, makes the run appear all at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw, Struct

from strongroom.codec import Json, pack
from strongroom.errors import NotFound
from strongroom.scope import Scope
from strongroom.services.runs.changes import WorkingSetJson, change
from strongroom.services.runs.ledger import KIND as LEDGER
from strongroom.services.runs.ledger import Identity, check_payload, entry
from strongroom.store import EXISTS, Append, Document, Entry, Expect, Get, Key, Put, Range, Write
from strongroom.values import Eviction, RunConfig

KIND = "run"
RETRY_SECONDS = 30.0
EPISODES = "episodes"

# A whole state is written again once the changes since the last one weigh twice as much, so that history costs at
# most half as much again as the changes in it, and no version is further away than that.
SNAPSHOT_RATIO = 2
SNAPSHOT_RECORDS = 1024
# What a change costs beside its own bytes: salt, hashes, columns.
RECORD_BYTES = 250


class Mark(Struct, frozen=True):
    """Where the last whole state is (not before place `floor` of the ledger) and what changes cost since then."""

    floor: int
    spent: int


class RunState(Struct, frozen=True, kw_only=True):
    """The run document."""

    working_set: WorkingSetJson
    streams: str
    config: RunConfig
    mark: Mark
    format: int = 1


class Ref(Struct, frozen=True, dict=True):
    """Where a run is kept."""

    scope: Scope
    run_id: str
    streams: str

    @cached_property
    def key(self) -> Key:
        return run_key(self.scope, self.run_id)

    @cached_property
    def ledger(self) -> Key:
        return self.scope.key(LEDGER, self.streams)

    @cached_property
    def episodes(self) -> Key:
        return self.scope.key(EPISODES, self.streams)

    @cached_property
    def identity(self) -> Identity:
        return Identity(self.scope.space, self.run_id)


class Stored(Struct, frozen=True):
    """A run as one snapshot of the store showed it. The ledger is `length` long at least: others record meanwhile."""

    ref: Ref
    state: RunState
    version: int
    length: int
    size: int

    @property
    def working_set(self) -> WorkingSetJson:
        return self.state.working_set

    @property
    def seq(self) -> int:
        return int(self.state.working_set["_update_seq"])

    @property
    def unchanged(self) -> Expect:
        return Expect(self.ref.key, self.version)


def run_key(scope: Scope, run_id: str) -> Key:
    return scope.key(KIND, run_id)


def load(document: Document | None, run_id: str) -> RunState:
    """Return the run in a document, or raise `NotFound`."""
    if document is None:
        raise NotFound(f"there is no run {run_id!r} in this space", kind=KIND, id=run_id)
    return msgspec.json.decode(document.value, type=RunState)


async def find(scope: Scope, run_id: str) -> tuple[Ref, RunState]:
    """Look a run up by its id."""
    [document] = await scope.store.read([Get(run_key(scope, run_id))])
    state = load(document, run_id)
    return Ref(scope, run_id, state.streams), state


def stored_in(ref: Ref, document: Document | None, length: int) -> Stored:
    """Return the run in a document, with the length of its ledger in the same snapshot."""
    state = load(document, ref.run_id)
    assert document is not None
    return Stored(ref, state, document.version, length, len(document.value))


async def read(ref: Ref) -> Stored:
    """Return the run and the length of its ledger, from one snapshot."""
    document, ledger_slice = await ref.scope.store.read([Get(ref.key), Range(ref.ledger, limit=0)])
    return stored_in(ref, document, ledger_slice.length)


def put(ref: Ref, state: RunState) -> Put:
    """Say how to store the run document."""
    return Put(ref.key, pack(state), tags={"status": state.working_set["status"]})


def record(ref: Ref, type: str, payload: dict[str, Any] | Json, **rest: Any) -> Entry:
    """Return one event of this run, recorded now."""
    return entry(ref.identity, type, payload, at=ref.scope.clock(), **rest)


def retries() -> Iterator[None]:
    """Yield as long as trying again is worth it. Whoever loses a race has lost it to somebody who got on."""
    deadline = time.monotonic() + RETRY_SECONDS
    yield
    while time.monotonic() < deadline:
        yield


async def event_writes(
    scope: Scope, run_id: str, type: str, payload: dict[str, Any], *, actor: str, parent: str | None = None
) -> tuple[tuple[Expect, ...], tuple[Write, ...]]:
    """Say what to join to a commit of your own so that it records an event in a run's ledger too."""
    told = check_payload(type, payload)
    ref, _ = await find(scope, run_id)
    added = record(ref, type, told, actor=actor, parent=parent)
    return (Expect(ref.key, EXISTS),), (Append(ref.ledger, (added,)),)


class Detail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says of the version it made: the whole state, or what changed since the one before.

    `floor` is the place in the ledger before which nothing is needed to rebuild it.
    """

    seq: int
    state: WorkingSetJson | None = None
    change: Raw | None = None
    floor: int | None = None
    eviction: Eviction | None = None
    never_kept: list[Any] | None = None


def whole(state: WorkingSetJson) -> Json:
    """Return the detail of an event that carries a whole state."""
    return pack(Detail(seq=state["_update_seq"], state=state))


def advance(
    stored: Stored, after: WorkingSetJson, eviction: Eviction | None, wanted: WorkingSetJson
) -> tuple[RunState, Json]:
    """Return the next run document and the detail of the event that tells how it came about."""
    before, mark = stored.working_set, stored.state.mark
    delta = pack(change(before, after))
    spent = mark.spent + len(delta) + RECORD_BYTES
    seq = after["_update_seq"]
    if stored.length - mark.floor >= SNAPSHOT_RECORDS or spent >= SNAPSHOT_RATIO * stored.size:
        mark = Mark(stored.length, 0)
        detail = Detail(seq=seq, state=after)
    else:
        mark = Mark(mark.floor, spent)
        detail = Detail(seq=seq, change=Raw(delta), floor=mark.floor)
    if eviction is not None:
        # What arrived and left in the same update is in no version, so its content is kept here.
        known = [*before["sliding_context"], *after["sliding_context"]]
        lost = [item for item in wanted["sliding_context"] if item not in known]
        detail = msgspec.structs.replace(detail, eviction=eviction, never_kept=lost)
    return msgspec.structs.replace(stored.state, working_set=after, mark=mark), pack(detail)
