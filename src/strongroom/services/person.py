"""Erasing a person: everything of one owner, in steps, with a receipt.

A person's are the memories that name the user, the sessions and runs that were opened for the user, what a killed
deletion left of a session, and what was learnt from sessions for anybody else. They go in an order that a kill cannot
harm: whatever is left is still found by its owner, and calling again finishes it. First the sessions are closed: from
then on nothing of them is shown, and nobody learns from them any more. Then go the memories, those of the user and
those that cite one of the sessions or of their messages. Then the messages; and last of each session its document,
which says whose it is. A run loses what it holds, in steps if it is long, and says by a hash whose it was. All of it
is done over again until nothing is found; but each run is emptied once, because it stays, and a worker may record in it
faster than anybody can erase: what came since is found by the next call.

What is damaged keeps nobody from erasing the rest. What nothing else hangs on goes whatever it was: vectors, messages,
summaries. A run is left as it is, of a session its document, which also stays as long as something that is found by it
could not be erased; of a memory or a batch that cannot be read nobody knows whose it is. The receipt says so, and is
not complete.

Each of these commits puts on record that what it takes away is still to leave the store's files. The last one, which
also writes down what was erased, cleans them once for all.

Threads, files and some things that adapters keep belong to nobody in particular, and so does a session or run for which
no user was named, be it a copy that was made before one was: they are erased by their names, and the receipt says that
they were not looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import Damaged
from strongroom.operations import Operation, Plan, erasing_step, perform, still_pending
from strongroom.scope import Scope
from strongroom.services.erasing import briefly, require_brief, waiting
from strongroom.services.memories import keys
from strongroom.services.memories.erasure import Cleared
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.noting import noted, recalled
from strongroom.services.memories.sources import session_source
from strongroom.services.memories.targets import Target
from strongroom.services.owning import OWNER
from strongroom.services.runs.erasure import empty
from strongroom.services.runs.erasure import of_owner as runs_of
from strongroom.services.runs.state import speaker
from strongroom.services.sessions.beside import Taking
from strongroom.services.sessions.erasure import close, erase_left, erase_rest, erase_said, remove, rests_of
from strongroom.services.sessions.layouts import CONVERSATION, OWNERLESS
from strongroom.services.sessions.state import MESSAGE, SESSION
from strongroom.showing import shown_by
from strongroom.store import Delete, Get, Receipt, Scan, require_name
from strongroom.values import moment

T = TypeVar("T")

PAGE = 100
PERSON = "person"
NOT_COVERED = ("files", "threads", "sessions without an owner", "runs without an owner", *OWNERLESS)
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
    require_brief(by=by, reason=reason)
    scope = services.scope

    async def attempt() -> Plan[ErasedPerson]:
        at = scope.clock()
        taken = _Taken(scope, services.memories, user_id, by, reason)
        while await taken.more():
            pass
        told = taken.told(at)
        # One note for all of it: two who make this at once under one id are one.
        writes, answer = await noted(scope, at, told)
        return Plan((), writes, lambda receipt: waiting(told, receipt.pending), answer)

    async def replay(receipt: Receipt) -> ErasedPerson:
        told = msgspec.convert(await recalled(scope, receipt), ErasedPerson)
        return waiting(told, await still_pending(scope, keys.log_key(scope.space), receipt))

    target = scope.key(PERSON, keys.digest(user_id))
    content = encode({"user_id": user_id, "by": by, "reason": reason})
    told = await perform(scope, Operation("context.erase", target, content, commit_id), attempt, replay)
    return waiting(told, await services.memories._unheard())


class _Taken:
    """What is taken away of a person, and how much it was. What is damaged is told, and stays."""

    def __init__(self, scope: Scope, memories: AsyncMemories, user_id: str, by: str, reason: str) -> None:
        self._scope, self._memories, self._user_id, self._by, self._reason = scope, memories, user_id, by, reason
        self._cleared = list[Cleared]()
        self._sessions = self._messages = self._beside = 0
        self._emptied = dict[str, bool]()
        self._kept = set[str]()  # sessions whose documents stay
        self._damaged = dict[str, None]()

    async def more(self) -> bool:
        """Take away all that is there; tell whether there was any session or run that was not seen before."""
        scope, user_id = self._scope, self._user_id
        found = [id for id in await _sessions(scope, user_id) if id not in self._kept]
        runs = [id for id in await runs_of(scope, user_id) if id not in self._emptied]
        if self._cleared and not found and not runs:
            return False
        for id in found:
            if await self._unless_damaged(f"the document of session {id!r}", close(scope, id)) is None:
                self._kept.add(id)
        learnt = [Target(source_ref=session_source(id), session_id=id) for id in found]
        self._cleared.append(await self._memories._eraser.clear([Target(user_id=user_id), *learnt], False, self._by))
        if not self._cleared[-1].whole:  # what was learnt from a session is found by its document
            self._kept.update(found)
        for id in found:
            await self._session(id)
        for id in await rests_of(scope, user_id):
            self._messages += await self._unless_damaged(f"the rest of session {id!r}", erase_rest(scope, id)) or 0
        for id in await _without_session(scope, user_id):
            self._beside += await self._unless_damaged(f"the rest of session {id!r}", erase_left(scope, id)) or 0
        for id in runs:
            emptying = empty(scope, id, user_id, reason=self._reason or WHY, actor=self._by or speaker(scope))
            self._emptied[id] = await self._unless_damaged(f"run {id!r}", emptying) or False
        owned = Taking(scope, keys.log_key(scope.space))
        for line in await owned.lines_of(user_id):
            self._beside += await self._unless_damaged(f"thread {line.id!r}", owned.line(line)) or 0
        self._beside += await self._unless_damaged("what adapters keep", owned.of_owner(user_id)) or 0
        return True

    async def _session(self, id: str) -> None:
        """Take a closed session away; of one whose document stays, all else."""
        scope, gone = self._scope, None
        await self._unless_damaged(f"what is noted of learning from {id!r}", _forget_learning(scope, id))
        if id not in self._kept:
            gone = await self._unless_damaged(f"the document of session {id!r}", remove(scope, id))
        if gone is not None:
            self._sessions += 1
        else:
            self._kept.add(id)
            aside = Taking(scope, scope.key(MESSAGE, id)).of_session(id)
            await self._unless_damaged(f"what an adapter keeps of session {id!r}", aside)
            gone = await self._unless_damaged(f"what was said in session {id!r}", erase_said(scope, id))
        self._messages += gone or 0

    async def _unless_damaged(self, what: str, erasing: Awaitable[T]) -> T | None:
        """Return how something was erased; None if it is damaged, which is told."""
        try:
            return await erasing
        except Damaged as problem:
            self._damaged[f"{what} was not erased: {problem}"] = None
            return None

    def told(self, at: int) -> ErasedPerson:
        memories = tuple(dict.fromkeys(id for one in self._cleared for id in one.memories))
        unread = dict.fromkeys(said for one in self._cleared for said in one.unread)
        return ErasedPerson(
            sessions=self._sessions,
            messages=self._messages,
            memories=memories,
            derived=tuple(dict.fromkeys(id for one in self._cleared for id in one.derived if id not in memories)),
            batches=sum(one.batches for one in self._cleared),
            runs=sum(self._emptied.values()),
            beside=self._beside,
            by=self._by,
            reason=self._reason,
            at=moment(at),
            pending=briefly([*self._damaged, *unread]),
        )


async def _sessions(scope: Scope, user_id: str) -> list[str]:
    """Return the sessions that say they are this user's, also those that cannot be read."""
    return await scope.ids(Scan(scope.space, SESSION, {OWNER: user_id}, limit=PAGE))


async def _without_session(scope: Scope, user_id: str) -> list[str]:
    """Return the sessions of this user that are gone but for what Pydantic AI knew them by."""
    records = await scope.ids(Scan(scope.space, CONVERSATION, {OWNER: user_id}, limit=PAGE))
    there = {*await _sessions(scope, user_id)}  # also those that cannot be read
    left = [id for id in records if id not in there]
    sessions = await scope.get_each([Get(scope.key(SESSION, id)) for id in left])
    return [id for id, session in zip(left, sessions, strict=True) if session is None]


async def _forget_learning(scope: Scope, session_id: str) -> None:
    """Delete the notes of what was learnt from a closed session."""
    places = Scan(scope.space, keys.LEARNT, {"session": keys.session_tag(session_id)}, limit=PAGE)

    async def attempt() -> Plan[None]:
        gone = [Delete(scope.key(keys.LEARNT, id)) for id in await scope.ids(places)]
        return Plan((), gone, lambda _: None)

    await erasing_step(scope, keys.log_key(scope.space), attempt)
