"""Erasing a person: everything of one owner, in bounded commits, with a receipt.

A person's are the memories that name the user, the sessions that were opened for the user, and what was learnt from
those for anybody else. Each session goes in an order that a kill cannot harm: what was learnt from it first, then the
session, then what somebody may have learnt in between; last the memories of the user. So whatever is left after a kill
is still found by its owner, and calling again finishes it. Runs, threads and files belong to nobody in particular:
they are erased by their names.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import encode, pack
from strongroom.errors import NotFound
from strongroom.operations import Operation, Plan, made_here, perform, step
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.erasure import Cleared, Target, noted, traces
from strongroom.services.memories.learning import session_source
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.sessions.erasure import delete
from strongroom.services.sessions.state import MESSAGE, OWNER, SESSION
from strongroom.store import Delete, Erase, Range, Receipt, Scan, require_name
from strongroom.values import moment

PAGE = 100
PERSON = "person"


class ErasedPerson(Struct, frozen=True, kw_only=True):
    """What was erased of a person: how many sessions and messages, which memories, how many batches spoke of them.

    `derived` are memories made from those that are still there. Until it is `complete`, `pending` says where bytes may
    still lie, out of anybody's reach: in the store's files, or in an index that is away.
    """

    sessions: int
    messages: int
    memories: tuple[str, ...]
    derived: tuple[str, ...]
    batches: int
    by: str
    reason: str
    at: datetime
    complete: bool = False
    pending: str | None = None


class Services(Protocol):
    """What an erasure needs of a context."""

    scope: Scope
    memories: AsyncMemories


async def erase(services: Services, user_id: str, by: str, reason: str, commit_id: str | None) -> ErasedPerson:
    """Leave nothing of a person, however often it takes."""
    require_name(user_id, "a user_id")
    scope = services.scope
    log = keys.log_key(scope.space)

    async def attempt() -> Plan[ErasedPerson]:
        eraser, at = services.memories._eraser, scope.clock()
        sessions, messages, cleared = 0, 0, list[Cleared]()
        async for page in scope.pages(Scan(scope.space, SESSION, {OWNER: user_id}, limit=PAGE)):
            for document in page:
                learnt = Target(source_ref=session_source(document.key.id), exact=True)
                cleared.append(await eraser.clear(learnt, False, by))
                messages += await _session(scope, document.key.id)
                cleared.append(await eraser.clear(learnt, False, by))
                sessions += 1
        own = await eraser.clear(Target(user_id=user_id), False, by)
        away = await services.memories._unheard()
        memories = tuple(dict.fromkeys(id for one in (*cleared, own) for id in one.memories))
        told = ErasedPerson(
            sessions=sessions,
            messages=messages,
            memories=memories,
            derived=own.derived,
            batches=sum(one.batches for one in (*cleared, own)),
            by=by,
            reason=reason,
            at=moment(at),
        )
        # One note for all of it: two who make this at once under one id are one.
        writes = noted(scope, at, by, memories)
        return Plan((), writes, lambda receipt: _told(told, receipt.pending, away), pack(told))

    async def clean() -> Plan[str | None]:
        # Whoever erased may have been killed before the store's files were clean.
        return Plan((), (traces(log),), lambda receipt: receipt.pending)

    async def replay(receipt: Receipt) -> ErasedPerson:
        assert receipt.answer is not None
        pending = await step(scope, log, clean) if made_here(scope) else receipt.pending
        return _told(msgspec.json.decode(receipt.answer, type=ErasedPerson), pending, None)

    target = scope.key(PERSON, keys.digest(user_id))
    content = encode({"user_id": user_id, "by": by, "reason": reason})
    return await perform(scope, Operation("context.erase", target, content, commit_id), attempt, replay)


async def _session(scope: Scope, session_id: str) -> int:
    """Delete a session and the notes of what was learnt from it. Return how many messages it held."""
    stream = scope.key(MESSAGE, session_id)
    end = await scope.get(Range(stream, 0, 0))
    with suppress(NotFound):  # somebody else deleted it
        await delete(scope, session_id, None)
    places = Scan(scope.space, keys.LEARNT, {"session": keys.session_tag(session_id)}, limit=PAGE)

    async def attempt() -> Plan[None]:
        found = [document.key async for page in scope.pages(places) for document in page]
        return Plan((), (*map(Delete, found), Erase(stream, 0, 0)), lambda _: None)

    await step(scope, stream, attempt)
    return end.length - end.first


def _told(told: ErasedPerson, *waits: str | None) -> ErasedPerson:
    pending = "; ".join(filter(None, waits))
    return replace(told, complete=not pending, pending=pending or None)
