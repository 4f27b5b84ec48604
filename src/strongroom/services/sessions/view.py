"""A session as one snapshot saw it, and the reads that start from there.

Records never change, so whatever is read later still belongs to the snapshot as long as the view's own ranges and
length decide what counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from strongroom.errors import Conflict, NotFound, StrongroomError
from strongroom.scope import Scope
from strongroom.services.sessions.records import counted_by, message, messages
from strongroom.services.sessions.state import (
    COUNT,
    CUT,
    KEPT,
    MESSAGE,
    SESSION,
    Naming,
    State,
    bounded,
    changes,
    is_visible,
    parse,
    size,
)
from strongroom.services.sessions.values import Message
from strongroom.store import Document, Get, Key, Question, Range, Record, Slice, Tail
from strongroom.tokens import Tokenizer

PAGE = 500

A = TypeVar("A")


class View(Struct, frozen=True):
    """The state of a session, and how long its streams were: messages, and where they matter, cuts and kept notes.

    `recounted` holds the tokens of messages that an earlier tokenizer counted, as far as `learn` has looked them up.
    """

    scope: Scope
    id: str
    version: int
    state: State
    tags: dict[str, str]
    naming: Naming
    tokenizer: Tokenizer
    first: int
    length: int
    cuts: int = 0
    notes: int = 0
    recounted: dict[int, int] = {}

    @property
    def document(self) -> Key:
        return self.scope.key(SESSION, self.id)

    @property
    def stream(self) -> Key:
        return self.scope.key(MESSAGE, self.id)

    @property
    def revision(self) -> str:
        return self.state.revision(self.version, self.length)

    @property
    def mixed(self) -> bool:
        """Whether some weights may have been counted by another tokenizer than the one that reads."""
        return self.state.mixed or self.tokenizer.name != self.state.counted_by

    @property
    def stretches(self) -> list[tuple[int, int]]:
        return bounded(self.state.visible, self.first, self.length)

    def side(self, kind: str) -> Key:
        """Return the key of one of the session's other streams."""
        return self.scope.key(kind, self.id)

    def shows(self, index: int) -> bool:
        return self.first <= index < self.length and is_visible(self.state.visible, index)

    def has_counted(self, record: Record) -> bool:
        """Whether the tokens of a message are those of the tokenizer in force."""
        return not self.mixed or counted_by(record, self.state) == self.tokenizer.name or record.index in self.recounted

    def message(self, record: Record) -> Message:
        return message(record, self.state, self.naming, self.tokenizer, self.recounted.get(record.index))

    def messages(self, records: Iterable[Record]) -> list[Message]:
        return messages(records, self.state, self.naming, self.tokenizer, self.recounted)


async def look(
    scope: Scope, session_id: str, choose: Callable[[str], Tokenizer], *more: Question[A]
) -> tuple[View, list[A]]:
    """Read a session's state, and in the same snapshot ask for more. `choose` finds the tokenizer of a name."""
    document, found, *answers = await scope.read(*both(scope, session_id), *more)
    return view_of(scope, session_id, document, found, choose), answers


def both(scope: Scope, session_id: str) -> tuple[Get, Range]:
    """Return the questions for a session's document and the end of its stream."""
    return Get(scope.key(SESSION, session_id)), Range(scope.key(MESSAGE, session_id), 0, 0)


async def look_closely(scope: Scope, session_id: str, choose: Callable[[str], Tokenizer]) -> View:
    """Read a session's state together with the lengths of its side streams, to decide about a cut."""
    cut, kept = (Range(scope.key(kind, session_id), 0, 0) for kind in (CUT, KEPT))
    view, (cuts, notes) = await look(scope, session_id, choose, cut, kept)
    return msgspec.structs.replace(view, cuts=cuts.length, notes=notes.length)


def view_of(
    scope: Scope, session_id: str, document: Document | None, found: Slice, choose: Callable[[str], Tokenizer]
) -> View:
    """Make a view of a session's document and the end of its stream, as one read returned them."""
    if document is None:
        raise missing(session_id)
    state = parse(document.value)
    return View(
        scope,
        session_id,
        document.version,
        state,
        document.tags,
        Naming(session_id),
        choose(state.tokenizer),
        found.first,
        found.length,
    )


def missing(session_id: str) -> NotFound:
    return NotFound(f"there is no session {session_id!r:.80}", kind=SESSION, id=session_id)


def require_revision(view: View, expected: str) -> None:
    """Refuse a session that is no longer what a caller has seen."""
    if view.revision != expected:
        raise Conflict(
            f"session {view.id!r} is at revision {view.revision}, not {expected!r:.80}; read it again; nothing changed",
            expected=changes(expected),
            actual=changes(view.revision),
            key=view.document,
        )


async def fresh(view: View, answer: Awaitable[A]) -> A | None:
    """Return what was made of a view; None if it was refused only because the session changed meanwhile.

    What is read after a view may be newer than it: the note of an id that was used again, a stream that was deleted.
    """
    try:
        return await answer
    except StrongroomError:
        document = await view.scope.get(Get(view.document))
        if document is not None and document.version == view.version:
            raise
        return None


async def forward(view: View, start: int, count: int) -> list[Record]:
    """Return up to `count` visible records from index `start` on, in order."""
    found: list[Record] = []
    for low, high in view.stretches:
        low = max(low, start)
        if low < high and len(found) < count:
            found += (await view.scope.get(Range(view.stream, low, high, count - len(found)))).records
    await learn(view, found)
    return found


async def visible(view: View, stop: int) -> list[Record]:
    """Return all visible records before index `stop`, or raise `NotFound` if they were deleted meanwhile."""
    found: list[Record] = []
    start = 0
    while page := [one for one in await forward(view, start, PAGE) if one.index < stop]:
        found += page
        start = page[-1].index + 1
    if len(found) < size(bounded(view.state.visible, view.first, stop)):
        raise missing(view.id)
    return found


async def backward(view: View, before: int, count: int) -> list[Record]:
    """Return up to `count` visible records before index `before`, in order."""
    found: list[Record] = []
    for low, high in reversed(view.stretches):
        high = min(high, before)
        if low < high and len(found) < count:
            part = await view.scope.get(Tail(view.stream, min(count - len(found), high - low), None, high))
            found = [*part.records, *found]
    await learn(view, found)
    return found


async def at(view: View, indexes: Iterable[int]) -> dict[int, Record]:
    """Return the visible records at certain indexes, in one round trip."""
    return await stored_at(view, [index for index in set(indexes) if view.shows(index)])


async def stored_at(view: View, indexes: Iterable[int]) -> dict[int, Record]:
    """Return the records at certain indexes, visible or not, in one round trip."""
    wanted = _runs(sorted(set(indexes)))
    if not wanted:
        return {}
    slices = await view.scope.get_all([Range(view.stream, low, high) for low, high in wanted])
    found = [record for part in slices for record in part.records]
    await learn(view, found)
    return {record.index: record for record in found}


async def learn(view: View, records: Sequence[Record]) -> None:
    """Look up what these records were counted anew, if the tokenizer changed since they were written.

    What has not been counted anew yet is counted by whoever asks for its message.
    """
    plan = view.state.recount
    if plan is None:
        return
    blocks = {plan.block(one.index) for one in records if plan.start <= one.index < plan.stop}
    if not blocks:
        return
    made = await view.scope.get(Range(view.side(COUNT), 0, 0))
    wanted = [Range(view.side(COUNT), made.first + low, made.first + high) for low, high in _runs(sorted(blocks))]
    for part in await view.scope.get_all(wanted):
        for record in part.records:
            # The tokenizer may have changed again since this view was taken; a block tells whose counts it holds.
            if record.type == view.tokenizer.name and record.body is not None:
                start, counts = record.body.load()
                view.recounted.update(enumerate(counts, start))


def _runs(indexes: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs
