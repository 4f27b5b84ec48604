"""Erasing a person: everything of one owner, in steps, with a receipt.

A person's are the memories that name the user, the sessions and runs that were opened for the user, what a killed
deletion left of a session, and what was learnt from sessions for anybody else. They go in an order that a kill cannot
harm: whatever is left is still found by its owner, and calling again finishes it. First the sessions are closed: from
then on nothing of them is shown, and nobody learns from them any more. Then go the memories, those of the user and
those that cite one of the sessions or of their messages. Then the messages; and last of each session its document,
which says whose it is. A run loses what it holds, in steps if it is long, and says by a hash whose it was. All of it
is done over again until nothing is found; but each run is emptied once, because it stays, and a worker may record in it
faster than anybody can erase: what came since is found by the next call.

What is damaged keeps nobody from erasing the rest: a run is left as it is, of a session its document; of a memory or a
batch that cannot be read nobody knows whose it is. The receipt says so, and is not complete.

Each of these commits puts on record that what it takes away is still to leave the store's files. The last one, which
also writes down what was erased, cleans them once for all.

Threads, files and some things that adapters keep belong to nobody in particular: they are erased by their names, and
the receipt says that they were not looked at.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import encode
from strongroom.errors import Damaged
from strongroom.operations import Operation, Plan, erasing_step, perform, still_pending
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.erasure import Cleared, Target, briefly, noted, recalled
from strongroom.services.memories.learning import messages_source, session_source
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.owning import OWNER
from strongroom.services.runs.erasure import empty
from strongroom.services.runs.erasure import of_owner as runs_of
from strongroom.services.runs.runs import ACTOR
from strongroom.services.sessions.beside import Taking
from strongroom.services.sessions.erasure import close, erase_left, erase_rests, erase_said, remove
from strongroom.services.sessions.layouts import CONVERSATION, OWNERLESS
from strongroom.services.sessions.state import SESSION
from strongroom.showing import shown_by
from strongroom.store import Delete, Document, Get, Receipt, Scan, require_name
from strongroom.values import moment

PAGE = 100
PERSON = "person"
NOT_COVERED = ("files", "threads", *OWNERLESS)
WHY = "its owner was erased"


@shown_by("memories", "sessions", "messages", "batches", "runs", "beside", "not_covered", "complete", "pending")
class ErasedPerson(Struct, frozen=True, kw_only=True):
    """What was erased of a person: how many sessions and messages, which memories, how many batches spoke of them, how
    many runs, and how much that adapters keep beside them.

    `derived` are memories made from those that are still there. What has no owner was not looked at: `not_covered`.
    Until it is `complete`, `pending` says where bytes may still lie, out of anybody's reach: in the store's files, or
    in an index that is away; and what is damaged, and was not erased.
    """

    sessions: int
    messages: int
    memories: tuple[str, ...]
    derived: tuple[str, ...]
    batches: int
    runs: int
    beside: int
    by: str
    reason: str
    at: datetime
    not_covered: tuple[str, ...] = NOT_COVERED
    complete: bool = False
    pending: str | None = None

    @property
    def found(self) -> bool:
        """Whether anything of this person was there."""
        return bool(self.sessions or self.messages or self.memories or self.batches or self.runs or self.beside)


class Services(Protocol):
    """What an erasure needs of a context."""

    scope: Scope
    memories: AsyncMemories


async def erase(services: Services, user_id: str, by: str, reason: str, commit_id: str | None) -> ErasedPerson:
    """Leave nothing of a person, however often it takes."""
    require_name(user_id, "a user_id")
    scope = services.scope

    async def attempt() -> Plan[ErasedPerson]:
        at = scope.clock()
        sessions = messages = beside = 0
        emptied, kept = dict[str, bool](), set[str]()
        damaged, cleared = list[str](), list[Cleared]()
        owned = Taking(scope, keys.log_key(scope.space))
        while True:
            found = [id for id in await _sessions(scope, user_id) if id not in kept]
            runs = [id for id in await runs_of(scope, user_id) if id not in emptied]
            if cleared and not found and not runs:
                break
            for id in found:
                try:
                    await close(scope, id)
                except Damaged as problem:
                    kept.add(id)
                    damaged.append(f"the document of session {id!r} was not erased: {problem}")
            learnt = [Target(source_ref=session_source(id), exact=True, parts=messages_source(id)) for id in found]
            cleared.append(await services.memories._eraser.clear([Target(user_id=user_id), *learnt], False, by))
            for id in found:
                await _forget_learning(scope, id)
                messages += await (erase_said if id in kept else remove)(scope, id)
            messages += await erase_rests(scope, user_id)
            for id in await _without_session(scope, user_id):
                beside += await erase_left(scope, id)
            for id in runs:
                try:
                    emptied[id] = await empty(scope, id, user_id, reason=reason or WHY, actor=by or ACTOR)
                except Damaged as problem:
                    emptied[id] = False
                    damaged.append(f"run {id!r} was not erased: {problem}")
            beside += await owned.of_owner(user_id)
            sessions += len(found) - len(kept.intersection(found))
        memories = tuple(dict.fromkeys(id for one in cleared for id in one.memories))
        damaged += dict.fromkeys(one for some in cleared for one in some.unread)
        told = ErasedPerson(
            sessions=sessions,
            messages=messages,
            memories=memories,
            derived=tuple(dict.fromkeys(id for one in cleared for id in one.derived if id not in memories)),
            batches=sum(one.batches for one in cleared),
            runs=sum(emptied.values()),
            beside=beside,
            by=by,
            reason=reason,
            at=moment(at),
            pending=briefly(damaged),
        )
        # One note for all of it: two who make this at once under one id are one.
        writes, answer = noted(scope, at, told)
        return Plan((), writes, lambda receipt: _told(told, told.pending, receipt.pending), answer)

    async def replay(receipt: Receipt) -> ErasedPerson:
        told = msgspec.convert(await recalled(scope, receipt), ErasedPerson)
        return _told(told, told.pending, await still_pending(scope, keys.log_key(scope.space), receipt))

    target = scope.key(PERSON, keys.digest(user_id))
    content = encode({"user_id": user_id, "by": by, "reason": reason})
    told = await perform(scope, Operation("context.erase", target, content, commit_id), attempt, replay)
    return _told(told, told.pending, await services.memories._unheard())


async def _sessions(scope: Scope, user_id: str) -> list[str]:
    """Return the sessions that say they are this user's, also those that cannot be read."""
    return await scope.ids(Scan(scope.space, SESSION, {OWNER: user_id}, limit=PAGE))


async def _without_session(scope: Scope, user_id: str) -> list[str]:
    """Return the sessions of this user that are gone but for what Pydantic AI knew them by."""
    records = await _all(scope, Scan(scope.space, CONVERSATION, {OWNER: user_id}, limit=PAGE))
    sessions = await scope.get_each([Get(scope.key(SESSION, one.key.id)) for one in records])
    return [one.key.id for one, session in zip(records, sessions, strict=True) if session is None]


async def _forget_learning(scope: Scope, session_id: str) -> None:
    """Delete the notes of what was learnt from a closed session."""
    places = Scan(scope.space, keys.LEARNT, {"session": keys.session_tag(session_id)}, limit=PAGE)

    async def attempt() -> Plan[None]:
        return Plan((), [Delete(one.key) for one in await _all(scope, places)], lambda _: None)

    await erasing_step(scope, keys.log_key(scope.space), attempt)


async def _all(scope: Scope, scan: Scan) -> list[Document]:
    return [document async for page in scope.pages(scan) for document in page]


def _told(told: ErasedPerson, *waits: str | None) -> ErasedPerson:
    pending = "; ".join(filter(None, waits))
    return replace(told, complete=not pending, pending=pending or None)
