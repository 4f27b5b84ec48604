"""What a writer may commit past the services: what adapters keep for their frameworks, and nothing else.

An adapter writes documents and streams of kinds that are its own and that no service reads, and in the same commit the
session that its messages are. So a writer's commit is held against a list: kinds, and the writes that each takes
(`strongroom.services.sessions.layouts`). Of sessions only those of adapters are in reach, by their ids, and every
message is held against what the service would have stored: its shape, its text, its count. The id of such a commit is
the caller's own. An admin commits what it likes.

Rejected: operations of the server's own for each adapter. It would need every framework beside it, in one version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from strongroom.errors import Damaged, InvalidInput
from strongroom.scope import Scope
from strongroom.server.ids import own_id
from strongroom.server.keys import Caller
from strongroom.server.responses import Refusal
from strongroom.services.sessions.layouts import IN_SESSIONS, NOTES, OWN, adapter_of
from strongroom.services.sessions.records import ROLES, draft, entry, opened
from strongroom.services.sessions.state import MESSAGE, SESSION, State, parse
from strongroom.services.sessions.writes import PINNED
from strongroom.store import Append, Commit, Entry, Get, Key, Put, Receipt, Record
from strongroom.tokens.counting import Absent, counter

UNREADABLE = (TypeError, ValueError, KeyError, IndexError, AttributeError, InvalidInput)


async def commit(scope: Scope, caller: Caller, wanted: Commit) -> Receipt:
    """Commit what a caller may, or refuse all of it."""
    if caller.may("admin"):
        made: Receipt = await scope.store.commit(wanted)
        return made
    allowed(caller, wanted)
    put = {write.key: _state(write) for write in wanted.writes if type(write) is Put and write.key.kind == SESSION}
    appends = [write for write in wanted.writes if type(write) is Append]
    said = [write for write in appends if write.key.kind == MESSAGE]
    documents = {scope.key(SESSION, write.key.id) for write in said}
    states = {**await _stored(scope, sorted(documents - put.keys())), **put}
    for write in said:
        state = states[scope.key(SESSION, write.key.id)]
        for one in write.entries:
            _require_message(one, state.counted_by)
    for write in appends:
        if write.key.kind in NOTES:
            for one in write.entries:
                _require_note(one)
    receipt: Receipt = await scope.store.commit(replace(wanted, id=own_id(caller, wanted.id)))
    return replace(receipt, id=wanted.id)


def allowed(caller: Caller, wanted: Commit) -> None:
    """Refuse a commit that expects or writes anything but what adapters do."""
    for expect in wanted.expects:
        if _writes(expect.key) is None:
            raise _forbidden(caller, expect.key, "expect")
    for write in wanted.writes:
        if type(write) not in (_writes(write.key) or ()):
            raise _forbidden(caller, write.key, type(write).__name__.lower())


def _writes(key: Key) -> Sequence[type] | None:
    """Return the writes that a key takes, None if it is out of reach."""
    if key.kind in OWN:
        return OWN[key.kind]
    return IN_SESSIONS.get(key.kind) if adapter_of(key.id) else None


def _forbidden(caller: Caller, key: Key, what: str) -> Refusal:
    problem = f"a {caller.role} cannot {what} {key.kind!r:.60} {key.id!r:.60} past the services; an admin can"
    return Refusal(403, "forbidden", problem)


def _state(write: Put) -> State:
    """Return what a session's document would say; refuse what is none."""
    try:
        state = parse(write.value)
    except Damaged as problem:
        raise InvalidInput(f"{problem}; nothing changed") from None
    bounds = [-1 if place is None else place for stretch in state.visible for place in stretch]
    if not bounds or bounds.pop() != -1 or min(bounds) < 0 or sorted(bounds) != bounds:
        raise InvalidInput("what a session shows ascends, and its end is open; nothing changed")
    if write.tags.get("by") != adapter_of(write.key.id) or write.text is not None:
        raise InvalidInput("a session of an adapter has the adapter's name as its tag 'by'; nothing changed")
    return state


async def _stored(scope: Scope, keys: Sequence[Key]) -> Mapping[Key, State]:
    documents = await scope.get_all([Get(key) for key in keys])
    missing = [key.id for key, document in zip(keys, documents, strict=True) if document is None]
    if missing:
        raise InvalidInput(f"there is no session {missing[0]!r:.80}; nothing changed")
    return {document.key: parse(document.value) for document in documents if document is not None}


def _require_message(one: Entry, counted_by: str) -> None:
    """Refuse a record that is not what a session stores for the message that it holds."""
    record = Record(0, one.type, one.body, one.weight, one.at, one.sender, one.receiver, one.text, None, None)
    try:
        value, note = opened(record)
        if not {type(note.get(name, "")) for name in ("by", "mark")} == {str}:
            raise TypeError("what is noted of a message is text")
        tokenizer = counter(note.get("by", counted_by), {})
        tokens = one.weight if type(tokenizer) is Absent else None  # believed only where nobody here can count
        made = draft(value, tokenizer, tokens, sidecar=note.get("sidecar"), named=False)
        state = State("", 0, counted_by, counted_by)
        fits = entry(made, state, tokenizer, one.at, note.get("mark")) == one
    except UNREADABLE:
        fits = False
    if not fits:
        raise InvalidInput("a record is not what a session stores for its message; nothing changed")


def _require_note(one: Entry) -> None:
    """Refuse what does not say where a message is."""
    body = one.body.load()
    if (
        one.type not in {PINNED, *ROLES}
        or not isinstance(body, list)
        or [type(each) for each in body] != [int, str]
        or one != Entry(one.type, one.body, one.weight, one.at)
    ):
        raise InvalidInput("a note says where a message is expected, and its mark; nothing changed")
