"""What to write for messages that come in, are hidden or come back, and for a session that is copied or goes.

An append writes the messages, and only where needed a little more in the same commit: a document for each id that a
caller chose, which makes it unique, and a note in a side stream for each message that a window must find without
reading the history (system messages, pins, priorities). It never writes the session's own document, so appends of any
number of writers commute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from strongroom.codec import Json, encode, pack
from strongroom.errors import InvalidInput
from strongroom.operations import NOTHING, Operation, Plan, identify, made_here, unchanged
from strongroom.scope import Scope
from strongroom.services.sessions.ids import taken
from strongroom.services.sessions.records import Draft, draft, entry, own_id
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
    beginning,
    bounded,
    dump,
    hide,
    id_key,
    priority_kind,
    show,
    size,
    without,
)
from strongroom.services.sessions.values import Message, Messages
from strongroom.services.sessions.view import View
from strongroom.store import (
    MAX_ANSWER,
    Append,
    Delete,
    Entry,
    Expect,
    Key,
    Put,
    Range,
    Receipt,
    Record,
    Truncate,
    Write,
    new_id,
)
from strongroom.tokens import Tokenizer, is_built_in
from strongroom.tokens.choosing import HIGHEST_PRIORITY, is_kept, priority
from strongroom.tokens.counting import Absent

T = TypeVar("T")

Ids = Literal["unique", "repeat"]

PINNED = "pinned"
BEGIN = "sessions.begin"
# The streams beside a session's messages.
SIDES = (CUT, KEPT, SUMMARY, COUNT, VECTOR, *(priority_kind(level) for level in range(1, HIGHEST_PRIORITY + 1)))
DELETED_AT_ONCE = 2000  # a commit that removes more would keep every other writer waiting


class Decision(Struct, frozen=True):
    """What one attempt wants to write, provided the session's document has not changed."""

    writes: Sequence[Write]
    expects: Sequence[Expect] = ()
    answer: Json | None = None


class Drafts(Struct, frozen=True):
    """Messages checked and counted, ready to be written."""

    drafts: tuple[Draft, ...]
    times: tuple[int, ...] = ()
    ids_repeat: bool = False

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.drafts if one.id is not None]

    def content(self, **more: str | None) -> Json:
        """What the caller asks for, as arguments. Those that are as usual are left out."""
        said: dict[str, Any] = {"messages": [Raw(one.json) for one in self.drafts]}
        if any(one.sidecar is not None for one in self.drafts):
            said["sidecars"] = [one.sidecar for one in self.drafts]
        if self.ids_repeat:
            said["ids"] = "repeat"
        return pack(said | {name: Raw(encode(value)) for name, value in more.items() if value is not None})

    def besides(self, scope: Scope, tokenizer: Tokenizer, expected_revision: str | None) -> Json | None:
        """What is no part of what the id stands for: which revision the caller saw, and how the messages were counted
        where they are written by a server that does not have this tokenizer."""
        said: dict[str, Any] = {} if expected_revision is None else {"expected_revision": expected_revision}
        if not made_here(scope) and not is_built_in(tokenizer.name):
            said |= {"tokenizer": tokenizer.name, "tokens": [one.tokens for one in self.drafts]}
        return encode(said) if said else None

    @property
    def needs_length(self) -> bool:
        """Whether notes are written that say where a message is expected to land."""
        return any(one.id is not None or _noted(one) for one in self.drafts)

    def answer(self, at: int) -> Json | None:
        """Return what a repeat must know beside its own messages: when they were stored, and how they were counted."""
        made = encode([at, [one.tokens for one in self.drafts]])
        return made if len(made) <= MAX_ANSWER else None

    def stored(self, naming: Naming, at: int, receipt: Receipt, tokens: Sequence[int] | None = None) -> list[Message]:
        """Return the messages as they were stored, by the receipt of a commit that appended them first of all.

        `tokens` are what they were counted as then, if that was not this time.
        """
        if not self.drafts:
            return []
        counts = [one.tokens for one in self.drafts] if tokens is None else tokens
        start = receipt.versions[0] - len(self.drafts)
        return [
            Message(one.value, id=one.id or naming.id(index), index=index, micros=at, tokens=count, sidecar=one.sidecar)
            for index, (one, count) in enumerate(zip(self.drafts, counts, strict=True), start)
        ]


class Counted(list[Any]):
    """Messages that were counted elsewhere, with a tokenizer that is not at hand here."""

    def __init__(self, messages: Sequence[Any], tokenizer: str, tokens: Sequence[int]) -> None:
        super().__init__(messages)
        if len(tokens) != len(messages) or min(tokens, default=0) < 0:
            raise InvalidInput("tokens must tell of each message how many it has; nothing changed", path="tokens")
        self.tokenizer, self.tokens = tokenizer, tokens


def listed(messages: Messages) -> Messages:
    """Return messages such that they can be gone through more than once."""
    if isinstance(messages, (str, bytes, Mapping, Sequence)) or hasattr(messages, "model_dump"):
        return messages
    return list(messages)


def counter_of(messages: Messages, tokenizer: Tokenizer) -> Tokenizer:
    """Return who counts messages: the session's tokenizer, or, where that is absent, whoever has counted them."""
    if type(tokenizer) is Absent and isinstance(messages, Counted):
        return Absent(messages.tokenizer)
    return tokenizer


def drafted(messages: Messages, tokenizer: Tokenizer, sidecars: Sequence[Any] | None, ids: Ids) -> Drafts:
    """Check and count what a caller wants to write."""
    if isinstance(messages, (str, bytes)):
        raise InvalidInput("messages must be mappings such as {'role': 'user', 'content': ...}, not a string")
    one = isinstance(messages, Mapping) or hasattr(messages, "model_dump")  # which could be iterated, over its fields
    many: list[Any] = [messages] if one else list(messages)
    if sidecars is not None and len(sidecars) != len(many):
        raise InvalidInput(
            f"there must be a sidecar, or None, for each of {len(many)} messages, not {len(sidecars)}; nothing changed",
            path="sidecars",
        )
    told = messages.tokens if type(tokenizer) is Absent and isinstance(messages, Counted) else repeat(None)
    beside = repeat(None) if sidecars is None else sidecars
    named = ids == "unique"
    drafts: list[Draft] = []
    try:
        for each, tokens, sidecar in zip(many, told, beside, strict=False):
            drafts.append(draft(each, tokenizer, tokens, sidecar=sidecar, named=named))
    except InvalidInput as problem:
        raise unchanged(problem if one else _placed(problem, len(drafts))) from None
    made = Drafts(tuple(drafts), ids_repeat=not named)
    if len(set(made.ids)) < len(made.ids):
        raise InvalidInput("two messages of one call have the same id; nothing changed")
    return made


def _placed(problem: InvalidInput, place: int) -> InvalidInput:
    """Say in which message of several it is."""
    inside = problem.path.removeprefix("$") if problem.path.startswith("$") else ""
    said = str(problem).removeprefix(f"{problem.path}: ") if inside else str(problem)
    return InvalidInput(said, path=f"$[{place}]{inside}")


def beginning_with(key: Key, made: Drafts, commit_id: str | None) -> Operation:
    """Return the operation that begins a session with its first messages."""
    return Operation(BEGIN, key, made.content(), commit_id)


def began(state: State, key: Key, commit_id: str | None) -> bool:
    """Tell whether the call of this id was the one that began the session."""
    if commit_id is None or not state.begun_by:
        return False
    return identify(Operation(BEGIN, key, NOTHING, commit_id))[0] == state.begun_by


def appending(
    scope: Scope, session_id: str, state: State, tokenizer: Tokenizer, made: Drafts, length: int, now: int
) -> list[Write]:
    """Return the writes that append a batch to a stream believed to have this length. The messages come first."""
    if not made.drafts:
        return []
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


def unused(session: Key, made: Drafts, versions: Mapping[str, int]) -> list[Expect]:
    """Return the expectations that no id of the batch is in use. `versions` tells of ids whose message is hidden."""
    return [Expect(id_key(session, one), versions.get(one, 0)) for one in made.ids]


def putting(view: View, state: State) -> Decision:
    """Write the document, if it changes at all."""
    return Decision([] if state == view.state else [Put(view.document, dump(state), view.tags)])


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
        visible=without(show(view.state.visible, hidden.ranges), view.state.erased),
        cut=hidden.previous,
        kept_from=min(hidden.kept_from, view.state.kept_from),
    )
    undone = Entry("restored", encode(view.state.cut), at=view.scope.clock())
    return state, [Append(view.side(CUT), (undone,))]


def counting_anew(view: View, tokenizer: str, counts: int) -> tuple[State, Decision]:
    """Put another tokenizer in force: the state that does, and the end of a stream of counts that has this length."""
    if view.state.tokenizer == tokenizer:
        return view.state, Decision([])  # as it was, or somebody else was first and may have counted some already
    plan = Recount(view.first, view.length)
    state = msgspec.structs.replace(view.state, tokenizer=tokenizer, recount=plan)
    # The counts of the tokenizer before are of no more use, and this one's begin where they end.
    key = view.side(COUNT)
    return state, Decision([Put(view.document, dump(state), view.tags), Truncate(key, counts)], [Expect(key, counts)])


async def copying(
    view: View, records: Sequence[Record], target: Key, title: str | None, made_of: Callable[[State], T]
) -> Plan[T]:
    """Plan a session that holds these records of another one, and what is then answered."""
    scope = view.scope
    if type(view.tokenizer) is Absent and not all(view.has_counted(record) for record in records):
        raise InvalidInput(
            f"some messages of session {view.id!r:.80} were not counted yet by its tokenizer "
            f"{view.tokenizer.name!r:.80}, which is not at hand here; open it with that tokenizer and wait() first; "
            "nothing changed"
        )
    made = Drafts(
        tuple([_draft(view, record, Naming(target.id)) for record in records]), tuple([record.at for record in records])
    )
    stream = scope.key(MESSAGE, target.id)
    end = await scope.get(Range(stream, 0, 0))
    state = State(
        title or view.state.title,
        scope.clock(),
        view.tokenizer.name,
        view.tokenizer.name,
        beginning(end),
        pins=tuple(index for index, one in enumerate(records, end.length) if one.index in view.state.pins),
        metadata=view.state.metadata,
        forked_from=view.id,
    )
    new = appending(scope, target.id, state, view.tokenizer, made, end.length, 0)
    expects = [
        Expect(target, 0),
        # Pins are places in the stream, so it must begin where it was seen to.
        Expect(stream, end.length),
        # The version, and not that it exists: what was deleted while it was read must not be copied in part.
        Expect(view.document, view.version),
        # Nothing of an earlier session of that id is visible, so its message ids are free.
        *unused(target, made, await taken(scope, target, made.ids)),
    ]
    return Plan(
        expects,
        [*new, Put(target, dump(state), view.tags)],
        lambda _: made_of(state),
        encode([target.id, state.life]),
        lambda conflict: conflict if conflict.key == target else None,
    )


def _draft(view: View, record: Record, naming: Naming) -> Draft:
    message = view.message(record)
    value = dict(message)
    own = own_id(record)
    if own is not None and naming.index(own) is not None:
        own = None  # the copy gives that out itself; here it is data
    return Draft(value, own, message.tokens, encode(value), message.sidecar)


def deleting(scope: Scope, session_id: str, first: int) -> list[Write]:
    """Return the writes that make a session go: its oldest messages, its document and all that hangs on it.

    The receipt of the first one tells how long the stream was then, so how far a long one is still to be removed. It is
    never deleted as a whole: whoever opens a session of that id anew must know where it begins.
    """
    oldest = Truncate(scope.key(MESSAGE, session_id), first + DELETED_AT_ONCE)
    return [oldest, *(Delete(scope.key(kind, session_id)) for kind in (SESSION, *SIDES))]


def _noted(one: Draft) -> list[tuple[str, str]]:
    """Return the side streams a message is noted in, each with the label that says why."""
    found = []
    if is_kept(one.value):
        found.append((KEPT, PINNED if one.value.get("pinned") is True else one.value["role"].lower()))
    level = priority(one.value)
    if level:
        found.append((priority_kind(level), PINNED))
    return found
