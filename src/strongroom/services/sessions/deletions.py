"""Deleting a session: gone at once, its messages in steps.

The first commit removes the document, so that nobody sees the session any more, and with it the oldest messages. Those
of a long session follow in commits of their own, because one that removes a million would keep every other writer
waiting. Should the process die in between, what is left cannot be seen, and a repeat removes it: with the id of the
first call, or by deleting the session once more.
"""

from __future__ import annotations

from strongroom.errors import CommitUnknown
from strongroom.operations import NOTHING, OURS, Operation, Plan, again, itself, made_here, perform
from strongroom.scope import Scope
from strongroom.services.sessions import writes
from strongroom.services.sessions.state import MESSAGE, SESSION
from strongroom.services.sessions.view import both, missing
from strongroom.store import EXISTS, Commit, Expect, Range, Receipt, Truncate, Write, new_id


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


async def _rest(scope: Scope, session_id: str, stop: int) -> None:
    """Remove messages up to where the session ended: one that was opened anew meanwhile keeps what is its own."""
    stream = scope.key(MESSAGE, session_id)
    while (first := (await scope.get(Range(stream, 0, 0))).first) < stop:
        step = Truncate(stream, min(first + writes.DELETED_AT_ONCE, stop))
        await scope.store.commit(Commit(new_id(), (), (step,)))
