"""What is stored for a run: one document, and the streams it names.

The document (kind `run`) holds the working set and what Strongroom must know to go on. Its ledger and episodes are
streams of the run's own id. Those of a restored run have a fresh name: a pack is written to streams nobody looks at
yet, before the document, put last, makes the run appear all at once.

Rules
-----
1. A document can be exchanged, the first record of a stream cannot. So a document is not believed about where its
   ledger is: the ledger of run X is the stream X, or the one that the first record of the stream X points to.
2. A run is used only through a `Ref` that was found by these rules, and each document read later must agree with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from strongroom.codec import Json, encode, pack
from strongroom.errors import Conflict, Damaged, NotFound
from strongroom.operations import Plan, made_here
from strongroom.scope import Scope
from strongroom.services.owning import owned
from strongroom.services.runs.ledger import KIND as LEDGER
from strongroom.services.runs.ledger import Identity, entry
from strongroom.services.runs.working_set import WorkingSetJson, change
from strongroom.store import EXISTS, Append, Document, Entry, Expect, Get, Key, Put, Range, Receipt
from strongroom.values import Eviction, RunConfig

KIND = "run"
ACTOR = "agent"  # who did it, where nobody says
EPISODES = "episodes"
POINTER = "ledger-at"

T = TypeVar("T")

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
    """The run document. `user_id` says whose the run is; its tags say it too. `created` is the time of its first event,
    said here so that a list of runs need not read their ledgers."""

    working_set: WorkingSetJson
    streams: str
    config: RunConfig
    mark: Mark
    created: int
    user_id: str | None = None
    format: int = 1


_states = msgspec.json.Decoder(RunState)


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
    """Return the run in a document, or raise `NotFound`. Where its ledger is has still to be found."""
    if document is None:
        raise NotFound(f"there is no run {run_id!r} in this space", kind=KIND, id=run_id)
    try:
        state = _states.decode(document.value)
    except msgspec.DecodeError as problem:
        raise Damaged(f"the document of run {run_id!r} is not one of a run ({problem})", reason="corrupt") from None
    if state.working_set.get("run_id") != run_id:
        raise Damaged(f"the document of run {run_id!r} is one of another run", reason="replaced")
    return state


def load_of(ref: Ref, document: Document | None) -> RunState:
    """Return the run in a document, if it still speaks of the ledger that is known to be the run's."""
    state = load(document, ref.run_id)
    if state.streams != ref.streams:
        raise _not_its_own(ref.run_id)
    return state


async def find(scope: Scope, run_id: str) -> tuple[Ref, RunState]:
    """Look a run up by its id."""
    state = load(await scope.get(Get(run_key(scope, run_id))), run_id)
    return await _sound_ref(scope, run_id, state), state


async def find_to_update(scope: Scope, run_id: str) -> tuple[Ref, RunState, Stored | None]:
    """Look a run up, and with it all that its next update has to know; that is left out for a run that was restored."""
    own = Ref(scope, run_id, run_id)  # where all runs are that were not restored
    document, events = await scope.read(Get(own.key), Range(own.ledger, limit=0))
    state = load(document, run_id)
    if state.streams != run_id:
        return await _sound_ref(scope, run_id, state), state, None
    return own, state, _stored(own, state, document, events.length)


async def _sound_ref(scope: Scope, run_id: str, state: RunState) -> Ref:
    [ref] = await refs(scope, [(run_id, state)])
    if isinstance(ref, Damaged):
        raise ref
    return ref


async def refs(scope: Scope, states: Sequence[tuple[str, RunState]]) -> list[Ref | Damaged]:
    """Return where runs are kept; of one whose document names a ledger that is not its own, or whose own cannot be
    read, what is wrong."""
    moved = [run_id for run_id, state in states if state.streams != run_id]
    pages = await scope.get_sound([Range(scope.key(LEDGER, run_id), 0, 1) for run_id in moved])
    damaged = {run_id: page for run_id, page in zip(moved, pages, strict=True) if isinstance(page, Damaged)}
    pointers = {
        run_id: record.body.load()
        for run_id, page in zip(moved, pages, strict=True)
        if not isinstance(page, Damaged)
        for record in page.records
        if record.type == POINTER and record.body is not None
    }
    return [
        Ref(scope, run_id, state.streams)
        if state.streams == run_id or pointers.get(run_id) == state.streams
        else damaged.get(run_id) or _not_its_own(run_id)
        for run_id, state in states
    ]


def point_to(ref: Ref) -> tuple[Expect, Append]:
    """Say where the ledger of a run is that is not kept under the run's own id. Can be said once."""
    own = ref.scope.key(LEDGER, ref.run_id)
    return Expect(own, 0), Append(own, (Entry(POINTER, encode(ref.streams), at=ref.scope.clock()),))


def _not_its_own(run_id: str) -> Damaged:
    return Damaged(f"the document of run {run_id!r} names a ledger that is not its own", reason="replaced")


def stored_in(ref: Ref, document: Document | None, length: int) -> Stored:
    """Return the run in a document, with the length of its ledger in the same snapshot."""
    return _stored(ref, load_of(ref, document), document, length)


def _stored(ref: Ref, state: RunState, document: Document | None, length: int) -> Stored:
    assert document is not None
    return Stored(ref, state, document.version, length, len(document.value))


async def read(ref: Ref) -> Stored:
    """Return the run and the length of its ledger, from one snapshot."""
    document, events = await ref.scope.read(Get(ref.key), Range(ref.ledger, limit=0))
    return stored_in(ref, document, events.length)


def put(ref: Ref, state: RunState) -> Put:
    """Say how to store the run document."""
    return Put(ref.key, pack(state), tags=tags_of(state))


def tags_of(state: RunState) -> dict[str, str]:
    """Return what runs are listed by."""
    return owned({"status": state.working_set["status"]}, state.user_id)


def speaker(scope: Scope, actor: str | None = None) -> str:
    """Return who is said to have done something.

    A server names whoever says nothing by their key, so it is told nothing: no name that was said is taken for none.
    """
    if actor is not None:
        return actor
    return ACTOR if made_here(scope) else ""


def record(ref: Ref, type: str, payload: dict[str, Any] | Json, *, at: int | None = None, **rest: Any) -> Entry:
    """Return one event of this run, recorded now unless `at` says when."""
    return entry(ref.identity, type, payload, at=ref.scope.clock() if at is None else at, **rest)


def recording(ref: Ref, entry: Entry, result: Callable[[Receipt], T], answer: Json | None = None) -> Plan[T]:
    """Plan to add one event. It expects nothing but a run, so it never fights, and is not tried again."""
    told = Append(ref.ledger, (entry,))
    return Plan((Expect(ref.key, EXISTS),), (told,), result, answer, refusal=lambda conflict: conflict)


def unused(ref: Ref) -> tuple[Expect, ...]:
    """Say what must hold where a run is to begin: no such run, and nothing where its events and episodes will be."""
    return Expect(ref.key, 0), Expect(ref.ledger, 0), Expect(ref.episodes, 0)


def taken(run_id: str, conflict: Conflict) -> Conflict:
    """Say that a run id is in use."""
    return Conflict(
        f"there is a run {run_id!r} already; nothing changed", expected=0, actual=conflict.actual, key=conflict.key
    )


def erased(ref: Ref, what: str) -> NotFound:
    """Say that what an operation made cannot be told again: its content is gone for good."""
    return NotFound(
        f"this was done before, and the {what} it made in run {ref.run_id!r} was erased since; nothing changed",
        kind=what,
        id=ref.run_id,
    )


class Attached(Struct, frozen=True, kw_only=True):
    """Content that a run has, as the event that attached it tells."""

    id: str
    type: str
    path: str
    sha256: str
    size: int


class Detail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says of the version it made: the whole state, or what changed since the one before.

    `floor` is the place in the ledger before which nothing is needed to rebuild it. An event with a `config` tells all
    that a run is and has from there on: `episodes` are how many it came with and the hash of them (`history.py`),
    `attached` the artifacts, `user_id` whose it is. An update has only those `attached` that are new, and a `user_id`
    alone stands where a run is given to somebody.
    """

    seq: int | None = None
    state: WorkingSetJson | None = None
    change: Raw | None = None
    floor: int | None = None
    eviction: Eviction | None = None
    never_kept: list[Any] | None = None
    config: RunConfig | None = None
    attached: Sequence[Attached] = ()
    episodes: tuple[int, str] | None = None
    user_id: str | None = None


def beginning(state: RunState, attached: Sequence[Attached] = (), episodes: tuple[int, str] | None = None) -> Json:
    """Return the detail of an event that tells all that a run is and has."""
    now = state.working_set
    told = Detail(
        seq=now["_update_seq"],
        state=now,
        config=state.config,
        attached=attached,
        episodes=episodes,
        user_id=state.user_id,
    )
    return pack(told)


def advance(
    stored: Stored,
    after: WorkingSetJson,
    eviction: Eviction | None,
    wanted: WorkingSetJson,
    attached: Sequence[Attached] = (),
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
    if attached:
        detail = msgspec.structs.replace(detail, attached=attached)
    if eviction is not None:
        # What arrived and left in the same update is in no version, so its content is kept here.
        known = [*before["sliding_context"], *after["sliding_context"]]
        lost = [item for item in wanted["sliding_context"] if item not in known]
        detail = msgspec.structs.replace(detail, eviction=eviction, never_kept=lost)
    return msgspec.structs.replace(stored.state, working_set=after, mark=mark), pack(detail)
