"""Deciding an update: from a run as it is to the writes of one commit, or a refusal (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from strongroom.codec import pack
from strongroom.errors import Conflict, InvalidInput
from strongroom.services.runs.eviction import make_room
from strongroom.services.runs.state import RunState, Stored, advance, put, record
from strongroom.services.runs.working_set import MUTABLE, changed
from strongroom.store import Append, Entry, Expect, Write
from strongroom.values import Eviction

MAX_ERROR = 1000


class Request(Struct, frozen=True):
    """What the caller of an update asked for, and what belongs into the same commit."""

    fields: Mapping[str, Any]
    append: Mapping[str, Sequence[Any]]
    remove: Mapping[str, Sequence[Any]]
    actor: str
    parent: str | None = None
    events: tuple[Entry, ...] = ()
    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()


class Update(Struct, frozen=True):
    """What to write, and what will then be true."""

    state: RunState
    size: int
    eviction: Eviction | None
    expects: tuple[Expect, ...]
    writes: tuple[Write, ...]


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


def plan(stored: Stored, asked: Request) -> Update:
    """Return the commit: the run document, then the event that tells the change, then what belongs with them."""
    wanted = changed(stored.working_set, stored.state.config, asked.fields, asked.append, asked.remove)
    after, eviction = make_room(
        stored.working_set,
        wanted,
        max_tokens=stored.state.config.ws_max_tokens,
        tokenizer=stored.ref.scope.tokenizer,
    )
    state, detail = advance(stored, after, eviction, wanted)
    seq = after["_update_seq"]
    event = record(
        stored.ref, "WS_UPDATE_APPLIED", pack({"new_seq": seq}), actor=asked.actor, parent=asked.parent, detail=detail
    )
    document = put(stored.ref, state)
    writes = (document, Append(stored.ref.ledger, (event, *asked.events)), *asked.writes)
    return Update(state, len(document.value), eviction, (stored.unchanged, *asked.expects), writes)


def rejection(stored: Stored, problem: Exception, actor: str, parent: str | None) -> Append:
    """Return the event that says an update was refused, and why. It expects nothing, so it never fights."""
    told = {"error": f"{getattr(problem, 'code', 'error')}: {problem}"[:MAX_ERROR]}
    return Append(stored.ref.ledger, (record(stored.ref, "WS_UPDATE_REJECTED", told, actor=actor, parent=parent),))


def back_to(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that make a run what it was."""
    return {name: old[name] for name in MUTABLE}
