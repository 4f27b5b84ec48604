"""Appending to a session by its name: one that is not there begins with its first messages, in one commit.

To open it first, by a commit of its own, would leave a session behind if the messages are refused.

The key of a call that began a session is kept with that commit, of which the session's document tells the id. So a
repeat is known by whoever appends to the session, through any door (`Session.append`); when the session was deleted
since, the repeat is told so and begins none anew. The key of a call that found one is noted before it appends, since
what an append leaves under it is of that session alone and says nothing once it is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from strongroom.codec import encode
from strongroom.errors import Conflict, NotFound
from strongroom.operations import NOTHING, Operation, Plan, identify, is_ours, nothing, perform, refusing, unchanged
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.sessions.erasure import remove_some
from strongroom.services.sessions.ids import free
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.sessions.state import SESSION, Naming, State, beginning, changes, dump
from strongroom.services.sessions.values import Message, Messages
from strongroom.services.sessions.view import View, both, missing
from strongroom.services.sessions.writes import Drafts, Ids, appending, beginning_with, drafted, listed, unused
from strongroom.store import EXISTS, Expect, Key, Put, Receipt, ReceiptOf
from strongroom.tokens.counting import remembered

FOUND = "sessions.found"


async def append_to(
    sessions: AsyncSessions,
    session_id: str,
    messages: Messages,
    *,
    sidecars: Sequence[Any] | None = None,
    ids: Ids = "unique",
    expected_revision: str | None = None,
    commit_id: str | None = None,
) -> list[Message]:
    """Append to the session of that id, or begin it with these messages; all of it, or nothing at all."""
    messages = listed(messages)
    for _ in attempts(f"{SESSION} {session_id!r}"):
        try:
            with refusing:
                session = await sessions.get(session_id)
            await _note(session, commit_id)
        except NotFound:
            made = drafted(messages, remembered(sessions._scope.tokenizer), sidecars, ids)
            try:
                return await _begin(sessions, session_id, made, expected_revision, commit_id)
            except _ThereByNow:
                continue
        return await session.append(
            messages, sidecars=sidecars, ids=ids, expected_revision=expected_revision, commit_id=commit_id
        )
    raise AssertionError("attempts() raises when it is enough")


async def _note(session: AsyncSession, commit_id: str | None) -> None:
    """Keep that the session was there when a key came, whatever becomes of it. An id of ours stands for one commit,
    which says so itself."""
    if commit_id is not None and not is_ours(commit_id):

        async def attempt() -> Plan[None]:
            return Plan([Expect(session._key, EXISTS)], (), lambda _: None, refusal=session._gone)

        await perform(session._scope, _found(session._key, commit_id), attempt, nothing)


def _found(key: Key, commit_id: str) -> Operation:
    return Operation(FOUND, key, NOTHING, commit_id)


class _ThereByNow(Exception):
    """Somebody else began the session meanwhile."""


async def _begin(
    sessions: AsyncSessions, id: str, made: Drafts, expected_revision: str | None, commit_id: str | None
) -> list[Message]:
    scope, began = sessions._scope, False
    key, naming, tokenizer = scope.key(SESSION, id), Naming(id), remembered(scope.tokenizer)
    operation = beginning_with(key, made, commit_id)
    notes = () if commit_id is None else (ReceiptOf(scope.space, identify(_found(key, commit_id))[0]),)

    async def attempt() -> Plan[list[Message]]:
        nonlocal began
        document, end, *noted = await scope.read(*both(scope, id), *notes)
        if document is not None:
            raise _ThereByNow
        if any(noted):  # seen in one snapshot with the stream's end: what is appended by that key meanwhile moves it
            raise missing(id)
        if expected_revision is not None:
            raise _none_there(scope, id, expected_revision)
        at = scope.clock()
        by = "" if commit_id is None else identify(operation)[0]
        state = State(id, at, tokenizer.name, tokenizer.name, beginning(end), begun_by=by)
        view = View(scope, id, 0, state, {}, naming, tokenizer, end.first, end.length)
        versions = await free(view, made.ids)
        writes = [*appending(scope, id, state, tokenizer, made, end.length, at), Put(key, dump(state))]
        expects = [Expect(key, 0), Expect(view.stream, end.length), *unused(key, made, versions)]
        answer = None if commit_id is None else made.answer(at) or encode([at, None])
        began = True
        return Plan(expects, writes, partial(made.stored, naming, at), answer)

    async def replay(receipt: Receipt) -> list[Message]:
        await sessions.get(id)
        raise _ThereByNow  # whoever appends to it is told what the first call was

    stored = await perform(scope, operation, attempt, replay)
    if began:
        await remove_some(scope)
        if stored and sessions._meaning is not None:
            await (await sessions._handle(id))._appended(stored)
    return stored


def _none_there(scope: Scope, id: str, expected: str) -> Exception:
    problem = Conflict(
        f"there is no session {id!r:.80}, so it is not at revision {expected!r:.80}",
        expected=changes(expected),
        actual=0,
        key=scope.key(SESSION, id),
    )
    return unchanged(problem)
