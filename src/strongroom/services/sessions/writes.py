"""What to write for messages that come in, are hidden or come back, and for a session that goes. Pure.

An append writes the messages, and only where needed a little more in the same commit: a document for each id that a
caller chose, which makes it unique, and a note in a side stream for each message that a window must find without
reading the history (system messages, pins, priorities). It never writes the session's own document, so appends of any
number of writers commute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.scope import Scope
from strongroom.services.sessions.records import Draft, draft, entry
from strongroom.services.sessions.state import (
    COUNT,
    CUT,
    KEPT,
    MESSAGE,
    SESSION,
    SUMMARY,
    VECTOR,
    Hidden,
    Naming,
    Recount,
    State,
    bounded,
    hide,
    id_key,
    priority_kind,
    show,
    size,
)
from strongroom.services.sessions.values import Message
from strongroom.services.sessions.view import View
from strongroom.store import Append, Delete, Entry, Expect, Key, Put, Truncate, Write, new_id
from strongroom.tokens import Tokenizer
from strongroom.tokens.choosing import HIGHEST_PRIORITY, is_kept, priority

PINNED = "pinned"
DELETED_AT_ONCE = 2000  # a commit that removes more would keep every other writer waiting


class Batch(Struct, frozen=True):
    """Messages checked and counted, ready to be written."""

    drafts: tuple[Draft, ...]
    times: tuple[int, ...] = ()

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.drafts if one.id is not None]

    @property
    def needs_length(self) -> bool:
        """Whether notes are written that say where a message is expected to land."""
        return any(one.id is not None or _noted(one) for one in self.drafts)


def batch(
    messages: Mapping[str, Any] | Sequence[Mapping[str, Any]], tokenizer: Tokenizer, times: Sequence[int] = ()
) -> Batch:
    """Check and count what a caller wants to write. `times` are those of messages copied from elsewhere."""
    if isinstance(messages, (str, bytes)):
        raise InvalidInput("messages must be mappings such as {'role': 'user', 'content': ...}, not a string")
    many = [messages] if isinstance(messages, Mapping) else messages
    made = Batch(tuple([draft(one, tokenizer) for one in many]), tuple(times))
    if len(set(made.ids)) < len(made.ids):
        raise InvalidInput("two messages of one call have the same id; nothing changed")
    return made


def appending(
    scope: Scope, session_id: str, state: State, tokenizer: Tokenizer, made: Batch, length: int
) -> list[Write]:
    """Return the writes that append a batch to a stream believed to have this length. The messages come first."""
    now = scope.clock()
    entries: list[Entry] = []
    notes: dict[str, list[Entry]] = {}
    ids: list[Write] = []
    for place, one in enumerate(made.drafts):
        mark = None
        hint = length + place
        at = made.times[place] if made.times else now
        if _noted(one):
            mark = new_id()[-12:]
            for kind, label in _noted(one):
                notes.setdefault(kind, []).append(Entry(label, encode([hint, mark]), weight=one.tokens, at=at))
        if one.id is not None:
            ids.append(Put(id_key(scope.key(SESSION, session_id), one.id), encode(hint)))
        entries.append(entry(one, state, tokenizer, at, mark))
    side: list[Write] = [Append(scope.key(kind, session_id), tuple(new)) for kind, new in sorted(notes.items())]
    return [Append(scope.key(MESSAGE, session_id), tuple(entries)), *side, *ids]


def stored(made: Batch, naming: Naming, start: int, writes: Sequence[Write]) -> list[Message]:
    """Return the messages of a batch as they were stored from index `start` on."""
    (append, *_) = writes
    assert type(append) is Append
    return [
        Message(one.value, id=one.id or naming.id(index), index=index, micros=record.at, tokens=one.tokens)
        for index, (one, record) in enumerate(zip(made.drafts, append.entries, strict=True), start)
    ]


def unused(session: Key, made: Batch, versions: Mapping[str, int]) -> list[Expect]:
    """Return the expectations that no id of the batch is in use. `versions` tells of ids whose message is hidden."""
    return [Expect(id_key(session, one), versions.get(one, 0)) for one in made.ids]


def cutting(view: View, start: int) -> tuple[State, list[Write], int]:
    """Hide everything from `start` on: the state that does, the record of what it hid, and how many messages."""
    visible, hidden = hide(view.state.visible, start, view.length)
    hidden = bounded(tuple(hidden), view.first, view.length)
    if not hidden:
        return msgspec.structs.replace(view.state, visible=visible), [], 0
    record = Hidden(hidden, view.state.cut, view.state.kept_from)
    body = encode(msgspec.to_builtins(record))
    state = msgspec.structs.replace(
        view.state,
        visible=visible,
        cut=view.cuts,
        # With nothing older left, no note that existed in this snapshot is of a visible message.
        kept_from=view.notes if len(visible) == 1 else view.state.kept_from,
    )
    return state, [Append(view.side(CUT), (Entry("cut", body, at=view.scope.clock()),))], size(hidden)


def restoring(view: View, hidden: Hidden) -> tuple[State, list[Write]]:
    """Undo one cut: the state that shows again what it hid, and the record of that."""
    state = msgspec.structs.replace(
        view.state,
        visible=show(view.state.visible, hidden.ranges),
        cut=hidden.previous,
        kept_from=min(hidden.kept_from, view.state.kept_from),
    )
    undone = Entry("restored", encode(view.state.cut), at=view.scope.clock())
    return state, [Append(view.side(CUT), (undone,))]


def counting_anew(view: View, tokenizer: str, counts: int) -> tuple[State, list[Write]]:
    """Put another tokenizer in force: the state that does, and the end of a stream of counts that has this length."""
    plan = Recount(view.first, view.length)
    state = msgspec.structs.replace(view.state, tokenizer=tokenizer, recount=plan)
    # The counts of the tokenizer before are of no more use, and this one's begin where they end.
    return state, [Truncate(view.side(COUNT), counts)]


def deleting(view: View) -> list[Write]:
    """Return the writes that make a session go, and with it all that hangs on it but a long stream of messages."""
    levels = [priority_kind(level) for level in range(1, HIGHEST_PRIORITY + 1)]
    kinds = [SESSION, CUT, KEPT, SUMMARY, COUNT, VECTOR, *levels]
    if view.length - view.first <= DELETED_AT_ONCE:
        kinds.append(MESSAGE)
    return [Delete(view.side(kind)) for kind in kinds]


def deleting_rest(view: View) -> list[Write]:
    """Return the writes that remove the messages of a long session that is gone already, to be committed one by one.

    They only reach to where it ended, so a session that was opened anew meanwhile keeps what is its own.
    """
    if view.length - view.first <= DELETED_AT_ONCE:
        return []
    steps = [*range(view.first, view.length, DELETED_AT_ONCE)[1:], view.length]
    return [Truncate(view.stream, step) for step in steps]


def _noted(one: Draft) -> list[tuple[str, str]]:
    """Return the side streams a message is noted in, each with the label that says why."""
    found = []
    if is_kept(one.value):
        found.append((KEPT, PINNED if one.value.get("pinned") is True else one.value["role"]))
    level = priority(one.value)
    if level:
        found.append((priority_kind(level), PINNED))
    return found
