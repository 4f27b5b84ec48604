"""Removing for good: a whole session, or the content of some of its messages.

Deleting a session: gone at once, its messages in steps. The first commit removes the document, so that nobody sees the
session any more, and with it the oldest messages. Those of a long session follow in commits of their own, because one
that removes a million would keep every other writer waiting. Should the process die in between, what is left cannot be
seen, and a repeat removes it: with the id of the first call, or by deleting the session once more.

Erasing messages: one commit blanks them, hides them so that no `restore` brings them back, and drops what was made of
them: summaries, and vectors, which are made anew of what is left. Whoever made a summary or a vector of them before
and comes to store it only now is refused. Their places and times stay. Copies in other sessions (`fork`) are theirs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from msgspec import structs

from strongroom.codec import encode
from strongroom.errors import CommitUnknown
from strongroom.operations import NOTHING, OURS, Operation, Plan, again, itself, made_here, perform
from strongroom.scope import Scope
from strongroom.services.sessions import writes
from strongroom.services.sessions.ids import find_any
from strongroom.services.sessions.records import own_id
from strongroom.services.sessions.state import (
    MESSAGE,
    SESSION,
    SUMMARY,
    VECTOR,
    covers,
    dump,
    id_key,
    joined,
    size,
    without,
)
from strongroom.services.sessions.view import PAGE, View, both, missing
from strongroom.services.sessions.writes import Decision
from strongroom.store import EXISTS, Commit, Delete, Erase, Expect, Put, Range, Receipt, Truncate, Write, new_id


async def delete(scope: Scope, session_id: str, commit_id: str | None) -> None:
    """Remove a session and its messages for good."""
    key, stream = scope.key(SESSION, session_id), scope.key(MESSAGE, session_id)

    async def attempt() -> Plan[Receipt]:
        document, end = await scope.read(*both(scope, session_id))
        if document is not None:
            return Plan([Expect(key, EXISTS)], writes.deleting(scope, session_id, end.first), itself)
        if end.first == end.length:
            raise missing(session_id)
        left: list[Write] = [Truncate(stream, end.first + writes.DELETED_AT_ONCE)]
        return Plan([Expect(key, 0)], left, itself)

    receipt = await perform(scope, Operation("sessions.delete", key, NOTHING, commit_id), attempt, again)
    if not made_here(scope):
        return
    try:
        await _rest(scope, session_id, receipt.versions[0])
    except CommitUnknown as problem:
        problem.commit_id = OURS + receipt.id if commit_id is None else commit_id
        raise


async def erasing(view: View, message_ids: Sequence[str], before: str | None) -> Decision:
    """Decide what to write so that nothing is left of messages, visible or not."""
    found = [await find_any(view, one) for one in message_ids]
    stretches = [(record.index, record.index + 1) for record in found]
    if before is not None:
        stretches.append((view.first, (await find_any(view, before)).index))
    gone = joined(stretch for stretch in stretches if stretch[0] < stretch[1])
    state = structs.replace(
        view.state,
        visible=without(view.state.visible, gone),
        erased=joined((*view.state.erased, *gone)),
        pins=tuple(index for index in view.state.pins if not covers(gone, index)),
    )
    summaries, vectors = await view.scope.read(Range(view.side(SUMMARY), 0, 0), Range(view.side(VECTOR), 0, 0))
    made = [
        Truncate(view.side(kind), end.length) for kind, end in ((SUMMARY, summaries), (VECTOR, vectors)) if end.length
    ]
    ids = [Delete(id_key(view.document, one)) async for one in _own_ids(view, gone)]
    writes: list[Write] = [Erase(view.stream, start, stop) for start, stop in gone]
    count = size(list(gone))
    # Somebody may just be storing what was made of them.
    expects = [Expect(view.side(SUMMARY), summaries.length), Expect(view.side(VECTOR), vectors.length)]
    document = Put(view.document, dump(state), view.tags)
    return Decision([document, *writes, *made, *ids], expects, encode(count))


async def _own_ids(view: View, stretches: Sequence[tuple[int, int]]) -> AsyncIterator[str]:
    """Yield the ids that callers gave to messages of these stretches, if those bear them still."""
    for start, stop in stretches:
        while start < stop:
            part = await view.scope.some(Range(view.stream, start, stop, PAGE))
            if not part.records:
                break
            start = part.records[-1].index + 1
            for record in part.records:
                given = own_id(record)
                if given is not None and (await find_any(view, given)).index == record.index:
                    yield given


async def _rest(scope: Scope, session_id: str, stop: int) -> None:
    """Remove messages up to where the session ended: one that was opened anew meanwhile keeps what is its own."""
    stream = scope.key(MESSAGE, session_id)
    while (first := (await scope.get(Range(stream, 0, 0))).first) < stop:
        step = Truncate(stream, min(first + writes.DELETED_AT_ONCE, stop))
        await scope.store.commit(Commit(new_id(), (), (step,)))
