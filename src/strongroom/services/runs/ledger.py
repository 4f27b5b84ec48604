"""A run's ledger: what one event looks like in its stream, and how it joins the hash chain.

Theory of operation
-------------------
An event is one record. The columns `type` and `at` outlive erasure; everything else is in the body, beside 32 random
bytes of salt. What joins the chain is a commitment in two layers:

    digest     = sha256("strongroom/content/1" + salt + content)              payload and detail
    commitment = sha256("strongroom/event/1" + space, run, type, at, id, actor, parent, digest)

each part with its length before it. Erasing an event deletes its body, salt included, so that nobody can guess what it
said from the digest. The ERASED event that records it keeps, for each, id, actor, parent and digest: with them the
commitment of an erased event can still be recomputed, its type and time can still not be altered, and a body blanked
without such a receipt is found as tampering.

The store links commitments inside the commit (chain = sha256(previous + commitment)), so recording needs no
expectation and any number of writers never fight. An event's id is its place unless it came from elsewhere with one
of its own.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from hashlib import sha256
from struct import Struct as Packer
from typing import Any

import msgspec
from msgspec import Raw, Struct

from strongroom.codec import ENVELOPE, Json, encode, pack
from strongroom.errors import Damaged, InvalidInput, shown
from strongroom.schemas import Validator, parts
from strongroom.schemas import check as check_schema
from strongroom.store import Entry, Record
from strongroom.values import Event, moment

KIND = "ledger"
SALT_BYTES = 32
GENESIS = bytes(32)
PAGE = 256

# Those that only Strongroom writes: each stands for something that happened in the same commit.
RESERVED = {
    "RUN_START": "ctx.runs.create",
    "WS_UPDATE_APPLIED": "run.update",
    "WS_UPDATE_REJECTED": "run.update",
    "MILESTONE": "run.milestone",
    "MEMORY_PROPOSED": "ctx.memories.propose",
    "MEMORY_COMMITTED": "ctx.memories.commit",
    "MEMORY_REJECTED": "ctx.memories.reject",
    "SNAPSHOT": "run.export",
    "RESTORED": "ctx.runs.restore",
    "FORKED": "run.fork",
    "ROLLED_BACK": "run.rollback",
    "ERASED": "ctx.runs.erase",
    "OWNED": "ctx.runs.open",
}


class Identity(Struct, frozen=True):
    """Whose ledger it is. Part of every commitment, so that no event can be moved to another run or tenant."""

    space: str
    run_id: str


class Body(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The part of an event that erasure removes."""

    salt: str
    actor: str
    payload: dict[str, Any]
    detail: dict[str, Any] | None = None
    parent: str | None = None
    id: str | None = None


class Tombstone(Struct, frozen=True, array_like=True):
    """What stays of an erased event, besides its type and time: enough to check its commitment."""

    id: str | None
    actor: str
    parent: str | None
    digest: str


_bodies = msgspec.json.Decoder(Body)


class EventTypes:
    """The event types a context knows: those of the schema, and the `custom.` ones its user registered."""

    def __init__(self) -> None:
        self._custom: dict[str, Validator] = {}

    def register(self, type: str, schema: Mapping[str, Any]) -> None:
        """Add a `custom.` type whose payloads fit a JSON Schema."""
        check_schema("ledger_event", type, part="custom_type", path="type")
        self._custom[type] = Validator(schema)

    def check(self, type: str, payload: object) -> Json:
        """Return the payload as it will be stored; raise `InvalidInput` unless a user may record this."""
        if type in RESERVED:
            told = f"{type} is recorded by {RESERVED[type]}, not by hand; {_allowed()}; nothing changed"
            raise InvalidInput(told, path="type")
        if type not in self._custom:
            return check_payload(type, payload)
        stored = encode(payload, depth=1)
        self._custom[type].check(payload, "payload")
        return stored


def check_payload(type: object, payload: object) -> Json:
    """Return the payload as it will be stored, if the type is one of the schema's and it fits."""
    stored = encode(payload, depth=1)  # inside a body
    known = parts("ledger_event")
    if not isinstance(type, str) or type == "custom_type" or type not in known:
        if str(type).startswith("custom."):
            hint = "register it with ctx.runs.register_event first"
        else:
            hint = f"{_meant(type, _recordable())}{_allowed()}"
        raise InvalidInput(f"no event type {type!r:.80}; {hint}; nothing changed", path="type")
    check_schema("ledger_event", payload, part=type, path="payload")
    return stored


def wanted_types(types: object) -> list[str]:
    """Return the types of events to look for, of which one may stand for a list of it; refuse those that no ledger has.
    A `custom.` one may be registered in another process."""
    if not isinstance(types, Iterable) or isinstance(types, (bytes, Mapping)):
        raise InvalidInput(f"types must be a type of events or a list of them, not {shown(types)}", path="types")
    wanted: list[str] = [types] if isinstance(types, str) else list(types)
    known = [*RESERVED, *_recordable()]
    for type in wanted:
        if isinstance(type, str) and type.startswith("custom."):
            check_schema("ledger_event", type, part="custom_type", path="types")
        elif type not in known:
            allowed = f"there are {', '.join(known)}, and those that begin with custom."
            raise InvalidInput(f"no event type {shown(type)}; {_meant(type, known)}{allowed}", path="types")
    return wanted


def _recordable() -> list[str]:
    return [name for name in parts("ledger_event") if name not in RESERVED and name != "custom_type"]


def _meant(type: object, names: Sequence[str]) -> str:
    near = get_close_matches(type.upper(), names, 1) if isinstance(type, str) else ()
    return f"did you mean {near[0]}?; " if near else ""


def _allowed() -> str:
    own = ", ".join(_recordable())
    return f"there are {own}, and those that ctx.runs.register_event made, which begin with custom."


def entry(
    identity: Identity,
    type: str,
    payload: dict[str, Any] | Json,
    *,
    actor: str,
    at: int,
    parent: str | None = None,
    detail: dict[str, Any] | Json | None = None,
    id: str | None = None,
    salt: str | None = None,
) -> Entry:
    """Return what to append for one event. The caller has validated the payload."""
    if not isinstance(actor, str) or not actor:
        raise InvalidInput(f"an actor must be a non-empty string, not {actor!r:.80}; nothing changed", path="actor")
    if parent is not None and (not isinstance(parent, str) or not parent):
        raise InvalidInput(f"a parent must be an event id, not {parent!r:.80}; nothing changed", path="parent")
    if not (actor.isascii() and parent is None and id is None):
        encode([actor, parent, id])
    grains = b64decode(salt) if salt else os.urandom(SALT_BYTES)
    salt = salt or b64encode(grains).decode()
    told = payload if isinstance(payload, Json) else encode(payload, depth=1)
    added = detail if detail is None or isinstance(detail, Json) else encode(detail, depth=-ENVELOPE)
    kept = Tombstone(id, actor, parent, _digest(grains, b"[%b,%b]" % (told, b"null" if added is None else added)))
    # Canonical already, so it goes in as it is: hashed and stored from one encoding.
    parts: Any = {"payload": Raw(told), "detail": None if added is None else Raw(added)}
    body = Body(salt=salt, actor=actor, parent=parent, id=id, **parts)
    return Entry(type, pack(body), at=at, commitment=commitment(identity, type, at, kept))


def body_of(raw: Json) -> Body:
    """Read a stored body back."""
    try:
        return _bodies.decode(raw)
    except msgspec.DecodeError as problem:
        raise Damaged(f"a stored event is not one ({problem})", reason="corrupt") from None


def tombstone(body: Body) -> Tombstone:
    """Return what would stay of an event if it were erased."""
    digest = _digest(b64decode(body.salt), encode([body.payload, body.detail], depth=-ENVELOPE))
    return Tombstone(body.id, body.actor, body.parent, digest)


def commitment(identity: Identity, type: str, at: int, kept: Tombstone) -> bytes:
    """Return the 32 bytes that join the chain for one event."""
    pieces = [b"strongroom/event/1\0"]
    for part in (identity.space, identity.run_id, type, str(at), kept.id, kept.actor, kept.parent, kept.digest):
        # A missing part and an empty one must differ, and no two lists of parts may read the same.
        if part is None:
            pieces.append(_NO_PART)
        else:
            raw = part.encode()
            pieces += (_SIZE(len(raw) + 1), b"=", raw)
    return sha256(b"".join(pieces)).digest()


_SIZE = Packer(">Q").pack
_NO_PART = _SIZE(0)


def _digest(salt: bytes, content: bytes) -> str:
    return sha256(b"strongroom/content/1\0" + salt + content).hexdigest()


def event_id(index: int) -> str:
    """Return the id of the event at a place of the stream."""
    return f"evt_{index + 1}"


def event(record: Record, working_set: Mapping[str, Any]) -> Event:
    """Return the event a record holds, for the run whose working set is given."""
    common = {name: working_set[name] for name in ("run_id", "task_id", "thread_id")}
    place, at = record.index + 1, moment(record.at)
    if record.body is None:
        return Event(
            sequence_id=place,
            event_id=event_id(record.index),
            type=record.type,
            payload={},
            actor="",
            at=at,
            erased=True,
            **common,
        )
    body = body_of(record.body)
    return Event(
        sequence_id=place,
        event_id=body.id or event_id(record.index),
        type=record.type,
        payload=body.payload,
        actor=body.actor,
        at=at,
        parent_event_id=body.parent,
        detail=body.detail,
        **common,
    )


def recorded(entry: Entry, index: int, *, erased: bool = False) -> Record:
    """Return the record an entry has become, or what is left of it once it is erased."""
    return Record(
        index, entry.type, None if erased else entry.body, 0, entry.at, None, None, None, entry.commitment, None
    )
