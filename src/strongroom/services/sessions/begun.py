"""Appending to a session by its name: one that is not there begins with its first messages, in one commit.

To open it first, by a commit of its own, would leave a session behind if the messages are refused.

The key of a call that began a session is kept with that commit. A repeat finds the session, so it looks there before it
appends; when the session was deleted since, it is told so and begins none anew. The key of a call that found one is
noted before it appends, since what an append leaves under it is of that session alone and says nothing once it is gone.
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
from strongroom.services.sessions.handle import AnotherLife
from strongroom.services.sessions.ids import free
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.sessions.state import SESSION, Naming, State, beginning, changes, dump
from strongroom.services.sessions.values import Message, Messages
from strongroom.services.sessions.view import View, both, missing
from strongroom.services.sessions.writes import Drafts, Ids, appending, drafted, listed, unused
from strongroom.store import EXISTS, Expect, Key, Put, Range, Receipt, ReceiptOf, used_otherwise
from strongroom.tokens.counting import remembered

NAME = "sessions.begin"
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
    draft = partial(drafted, messages, sidecars=sidecars, ids=ids)
    for _ in attempts(f"{SESSION} {session_id!r}"):
        try:
            with refusing:
                session = await sessions.get(session_id)
            await _note(session, commit_id)
        except NotFound:
            made = draft(remembered(sessions._scope.tokenizer))
            try:
                return await _begin(sessions, session_id, made, expected_revision, commit_id)
            except _ThereByNow:
                continue
        if commit_id is not None and (receipt := await _begun_by(session, commit_id)) is not None:
            made = draft(session.tokenizer)
            if receipt.digest == identify(_operation(session._scope, session_id, made, commit_id))[1]:
                return await _told(session, made, receipt)
            if not is_ours(commit_id):  # one of ours may be of the append alone
                raise used_otherwise(commit_id)
        try:
            return await session._append(messages, sidecars, ids, expected_revision, commit_id)
        except AnotherLife:
            continue  # it was deleted and begun anew meanwhile: perhaps by this very key
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
        state = State(id, at, tokenizer.name, tokenizer.name, beginning(end))
        view = View(scope, id, 0, state, {}, naming, tokenizer, end.first, end.length)
        versions = await free(view, made.ids)
        writes = [*appending(scope, id, state, tokenizer, made, end.length, at), Put(key, dump(state))]
        expects = [Expect(key, 0), Expect(view.stream, end.length), *unused(key, made, versions)]
        answer = None if commit_id is None else made.answer(at) or encode([at, None])
        began = True
        return Plan(expects, writes, partial(made.stored, naming, at), answer)

    async def replay(receipt: Receipt) -> list[Message]:
        session = await sessions.get(id)
        if not _is_of(receipt, session):
            raise _ThereByNow
        return await _told(session, made, receipt)

    stored = await perform(scope, _operation(scope, id, made, commit_id), attempt, replay)
    if began:
        await remove_some(scope)
        if stored and sessions._meaning is not None:
            await (await sessions._handle(id))._appended(stored)
    return stored


def _operation(scope: Scope, id: str, made: Drafts, commit_id: str | None) -> Operation:
    return Operation(NAME, scope.key(SESSION, id), made.content(), commit_id)


async def _begun_by(session: AsyncSession, commit_id: str) -> Receipt | None:
    """Return the receipt of the call under this id that began this session, if one did, and none of its name before."""
    id, _ = identify(Operation(NAME, session._key, NOTHING, commit_id))
    receipt = await session._scope.get(ReceiptOf(session._scope.space, id))
    return receipt if receipt is not None and _is_of(receipt, session) else None


def _is_of(receipt: Receipt, session: AsyncSession) -> bool:
    """Tell whether a receipt is of this session's beginning. It says when that was, if its caller named an id."""
    return receipt.answer is None or receipt.answer.load()[0] == session._state.created


async def _told(session: AsyncSession, made: Drafts, receipt: Receipt) -> list[Message]:
    """Answer as the first call did: by what it kept of its answer, or by the records where they are too many."""
    tokens = None if receipt.answer is None else receipt.answer.load()[1]
    if tokens is None and made.drafts:
        length = receipt.versions[0]
        part = await session._scope.get(Range(session._stream, length - len(made.drafts), length))
        tokens = [one.weight for one in part.records]
    return made.stored(session._naming, session._state.created, receipt, tokens)


def _none_there(scope: Scope, id: str, expected: str) -> Exception:
    problem = Conflict(
        f"there is no session {id!r:.80}, so it is not at revision {expected!r:.80}",
        expected=changes(expected),
        actual=0,
        key=scope.key(SESSION, id),
    )
    return unchanged(problem)
