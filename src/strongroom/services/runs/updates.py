"""Making an update: from a run as it is to the writes of one commit, or a refusal that the ledger tells of.

A handle that expects a version may say what it knows of it. That saves the read, and is safe because the commit
expects the very document it was planned for. Only a commit may follow from memory: before a refusal the run is read, so
nobody is ever refused for what is no longer so.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from strongroom.codec import Json, encode, pack
from strongroom.errors import Conflict, InvalidInput, StrongroomError
from strongroom.operations import NOTHING, Operation, Plan, Prepared, Undecided, made_here, perform, step
from strongroom.services.runs import history, own_state
from strongroom.services.runs.eviction import make_room
from strongroom.services.runs.ledger import body_of
from strongroom.services.runs.state import (
    Attached,
    Ref,
    Stored,
    advance,
    erased,
    put,
    read,
    record,
    recording,
    stored_in,
)
from strongroom.services.runs.working_set import MUTABLE, changed, data, view
from strongroom.store import Append, Entry, Expect, Get, Range, Receipt, Write
from strongroom.values import Eviction, UpdateFields, WorkingSet

MAX_ERROR = 1000


class By(NamedTuple):
    """Who wants an update, and which event led to it."""

    actor: str
    parent: str | None


class Request(Struct, frozen=True):
    """What an update changes, what belongs into the same commit, and what its receipt is to tell.

    `state_type` is what the run's own state must fit once it is patched. What is `plain` was read from JSON.
    """

    fields: Mapping[str, Any] = {}
    append: Mapping[str, Sequence[Any]] = {}
    remove: Mapping[str, Sequence[Any]] = {}
    state_patch: Mapping[str, Any] | None = None
    state_type: type[Any] | None = None
    events: tuple[Entry, ...] = ()
    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()
    answer: Json | None = None
    attached: tuple[Attached, ...] = ()
    plain: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Tell whether this asks for nothing at all. What asks for what is so already counts as an update."""
        edits = (*self.append.values(), *self.remove.values())
        besides = self.events or self.writes or self.attached
        return not (self.fields or any(edits) or self.state_patch or besides)


class Outcome(Struct, frozen=True):
    """The working set that an update made, or found if there was nothing to do (`made` is False).

    `stored` is the run as it was left; None if the update was made by an earlier call.
    """

    working_set: WorkingSet
    stored: Stored | None = None
    made: bool = True
    eviction: Eviction | None = None
    answer: Json | None = None
    events: int = 0


Fields = UpdateFields | Mapping[str, Any]
MakeRequest = Callable[[Stored], Awaitable[Request | None]]
Decide = Callable[[], Awaitable[Json]]


async def update(
    ref: Ref,
    operation: Operation,
    by: By,
    make_request: MakeRequest,
    *,
    known: Stored | None = None,
    expected: int | None = None,
    decide: Decide | None = None,
) -> Outcome:
    """Make the update that `make_request` returns, or record why it is refused and raise."""
    refused: list[StrongroomError] = []
    prepared = prepare(ref, operation, by, make_request, known, expected, decide, refused)
    try:
        return await perform(ref.scope, *prepared)
    except StrongroomError as problem:
        if any(problem is one for one in refused):
            try:
                await reject(ref, f"{problem.code}: {problem}", by)
            except StrongroomError as failure:
                problem.add_note(f"this refusal could not be recorded: {failure}")
        raise


def prepare(
    ref: Ref,
    operation: Operation,
    by: By,
    make_request: MakeRequest,
    known: Stored | None,
    expected: int | None,
    decide: Decide | None,
    refused: list[StrongroomError],
) -> Prepared[Outcome]:
    """Say how an update is made. What it is refused for, about the run as it is, is added to `refused`."""

    async def attempt() -> Plan[Outcome]:
        nonlocal known
        remembered, known = known, None
        if remembered is not None:
            with suppress(StrongroomError):
                return await _planned(remembered, make_request, by, expected)
        stored = await read(ref)
        try:
            return await _planned(stored, make_request, by, expected)
        except StrongroomError as refusal:
            refused.append(refusal)
            raise

    return Prepared(operation, attempt, lambda receipt: _made_before(ref, receipt), decide)


async def _planned(stored: Stored, make_request: MakeRequest, by: By, expected: int | None) -> Plan[Outcome]:
    if expected is not None:
        require_seq(stored, expected)
    request = await make_request(stored)
    return _left_as_it_is(stored) if request is None else plan(stored, request, by)


def _left_as_it_is(stored: Stored) -> Plan[Outcome]:
    """Plan to write nothing, and to answer with the run as it is."""
    found = Outcome(view(stored.working_set), stored, made=False)
    return Plan((stored.unchanged,), (), lambda receipt: found, encode(stored.seq))


def require_seq(stored: Stored, expected_seq: object) -> None:
    """Raise `Conflict` if somebody else has updated the run."""
    if type(expected_seq) is not int or expected_seq < 0:
        raise InvalidInput(f"expected_seq must be a whole number, 0 or more, not {expected_seq!r:.40}; nothing changed")
    if stored.seq != expected_seq:
        raise Conflict(
            f"run {stored.ref.run_id!r} was expected at seq {expected_seq} and is at {stored.seq}; nothing changed",
            expected=expected_seq,
            actual=stored.seq,
            key=stored.ref.key,
        )


def commute(fields: Fields, append: object, remove: object, state_patch: object) -> bool:
    """Tell whether an update only edits lists, so that it is right about whatever is there."""
    return not (fields or state_patch) and bool(append or remove)


def content_of(request: Request, by: By, *, recorded: bool) -> Json:
    """Return what an update asks for; nothing if that cannot be stored, for which it is refused and the ledger told.

    Where no refusal is recorded, because a server would be asked or because of a turn, it is refused at once.
    """
    edits = {"fields": request.fields, "append": request.append, "remove": request.remove}
    if request.state_patch:
        edits["state_patch"] = request.state_patch
    try:
        told = {kind: {name: data(items) for name, items in edit.items()} for kind, edit in edits.items()}
        return encode({**told, "actor": by.actor, "parent": by.parent})
    except InvalidInput:
        if recorded:
            return NOTHING
        raise


def request_in(content: Json, state_type: type[Any] | None) -> Request:
    """Return what an update asks for, in objects that are nobody else's."""
    told = content.load()
    return Request(told["fields"], told["append"], told["remove"], told.get("state_patch"), state_type, plain=True)


async def check_state(ref: Ref, request: Request) -> None:
    """Refuse a patch after which the state would not fit its type, where the update is made by a server.

    The server does not know the type, so it is looked at here, against the run as it is now.
    """
    if not request.state_patch or request.state_type is None or made_here(ref.scope):
        return
    stored = await read(ref)
    own_state.patched(stored.working_set.get("state"), request.state_patch, request.state_type)


def plan(stored: Stored, request: Request, by: By) -> Plan[Outcome]:
    """Plan the commit: the run document, then the event that tells the change, then what belongs with them."""
    ref, config = stored.ref, stored.state.config
    edits = (request.fields, request.append, request.remove, request.state_patch, request.state_type)
    wanted = changed(stored.working_set, config, *edits, plain=request.plain)
    if request.changes_nothing:
        return _left_as_it_is(stored)
    after, eviction = make_room(
        stored.working_set, wanted, max_tokens=config.ws_max_tokens, tokenizer=ref.scope.tokenizer
    )
    state, detail = advance(stored, after, eviction, wanted, request.attached)
    told = pack({"new_seq": after["_update_seq"]})
    event = record(ref, "WS_UPDATE_APPLIED", told, actor=by.actor, parent=by.parent, detail=detail)
    document = put(ref, state)

    def outcome(receipt: Receipt) -> Outcome:
        version, length, *_ = receipt.versions
        made = Stored(ref, state, version, length, len(document.value))
        return Outcome(view(after), made, eviction=eviction, answer=request.answer, events=1 + len(request.events))

    writes = (document, Append(ref.ledger, (event, *request.events)), *request.writes)
    return Plan((stored.unchanged, *request.expects), writes, outcome, request.answer)


def unchanging(request: Request) -> MakeRequest:
    """Ask for the same, whatever the run is like."""

    async def make_request(stored: Stored) -> Request:
        return request

    return make_request


def by_callback(
    decide: Callable[[WorkingSet], Fields | Awaitable[Fields | None] | None], plain: Callable[[Fields], Fields]
) -> MakeRequest:
    """Ask for what a callback decides."""

    async def make_request(stored: Stored) -> Request | None:
        answer = decide(view(stored.working_set))
        fields: object = await answer if inspect.isawaitable(answer) else answer
        if fields is not None and not isinstance(fields, Mapping):
            raise InvalidInput(f"a decision must be a mapping of fields, not {type(fields).__name__}")
        return None if fields is None else Request(plain(fields))

    return make_request


def back_to(ref: Ref, seq: int, by: By) -> MakeRequest:
    """Ask for what makes a run what it was."""

    async def make_request(stored: Stored) -> Request:
        old = await history.at(stored, seq)
        told = record(ref, "ROLLED_BACK", {"to_seq": seq, "new_seq": stored.seq + 1}, **by._asdict())
        return Request({name: old[name] for name in MUTABLE} | {"state": old.get("state")}, events=(told,))

    return make_request


async def _made_before(ref: Ref, receipt: Receipt) -> Outcome:
    """Return what an update of the past returned. Its version is told by the last event that its commit appended."""
    if not receipt.versions:
        assert receipt.answer is not None
        return Outcome(view(await history.at(await read(ref), receipt.answer.load())), made=False)
    length = receipt.versions[1]
    document, events = await ref.scope.read(Get(ref.key), Range(ref.ledger, length - 1, length))
    told = events.records[0].body
    if told is None:
        raise erased(ref, "version")
    body = body_of(told)
    working_set = await history.at(stored_in(ref, document, events.length), body.payload["new_seq"])
    left = (body.detail or {}).get("eviction")
    eviction = None if left is None else msgspec.convert(left, Eviction)
    return Outcome(view(working_set), eviction=eviction, answer=receipt.answer)


async def reject(ref: Ref, error: str, by: By) -> None:
    """Record that an update was refused, and why."""
    told = {"error": error[:MAX_ERROR]}

    async def attempt() -> Plan[None]:
        event = record(ref, "WS_UPDATE_REJECTED", told, **by._asdict())
        return recording(ref, event, lambda receipt: None)

    await step(ref.scope, ref.key, attempt)


# ---- decisions of clients -------------------------------------------------------------------------------------------
#
# A client decides about the run as it saw it, and says what it saw. What does not fit any more is not done: `Undecided`
# sends the question back.


class Decision(Struct, frozen=True):
    """What `update_with` was told by its callback, about a run after so many updates. None: nothing to do."""

    fields: dict[str, Any] | None
    seq: int


def deciding(ref: Ref, make_request: MakeRequest) -> Decide:
    """Say what is decided about a run as it is now."""

    async def decide() -> Json:
        stored = await read(ref)
        request = await make_request(stored)
        fields = None if request is None else {name: data(value) for name, value in request.fields.items()}
        return encode({"fields": fields, "seq": stored.seq})

    return decide


def decided(made: Decision | None) -> MakeRequest:
    """Ask for what was decided, if it is about the run as it is."""

    async def make_request(stored: Stored) -> Request | None:
        if made is None or made.seq != stored.seq:
            raise Undecided
        return None if made.fields is None else Request(made.fields)

    return make_request
