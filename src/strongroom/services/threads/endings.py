"""How threads end: deleted, expired, archived. Every end is one commit of its own, and leaves a tombstone."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from strongroom.codec import Json, encode
from strongroom.operations import NOTHING, Operation, Plan, Undecided, identify, nothing, perform
from strongroom.scope import Scope
from strongroom.services.threads.packs import pack_thread
from strongroom.services.threads.payloads import PayloadTypes
from strongroom.services.threads.plans import SWEEP, THREAD, count_key, plan_end, unchanged
from strongroom.services.threads.reading import AsyncThread, Used, by_use, look
from strongroom.services.threads.values import Limits, State
from strongroom.store import MAX_ANSWER, Append, Entry, Expect, Get, Key, Range, Receipt, Write


class Endings(Struct, frozen=True):
    """The ends of the threads of one space, under its limits."""

    scope: Scope
    limits: Limits
    types: PayloadTypes

    async def delete(self, thread_id: str, commit_id: str | None) -> bool:
        """End a thread. False if there was none."""
        operation = Operation("threads.delete", self.scope.key(THREAD, thread_id), NOTHING, commit_id)
        return await perform(self.scope, operation, lambda: self._end(thread_id, "deleted"), _ended)

    async def sweep(self, ttl_seconds: float, commit_id: str | None) -> tuple[str, ...]:
        """End the threads that have been unused for so long, and return their ids."""
        content = encode({"ttl_seconds": ttl_seconds})
        besides = None if self.limits.archive is None else encode({"ended": None})
        operation = Operation("threads.sweep", count_key(self.scope.space), content, commit_id, besides)
        # Under an id, what has ended is written down with each end: a repeat tells all of it, also after a crash.
        log = None if commit_id is None else self.scope.key(SWEEP, identify(operation)[0])

        gone: list[str] = []

        async def expired() -> list[str]:
            edge = self.scope.clock() - int(ttl_seconds * 1_000_000)
            due = [used for used in await by_use(self.scope) if used.at < edge]
            return [used.thread_id for used in due if await self._expire(used, log)]

        async def attempt() -> Plan[tuple[str, ...]]:
            # What is planned here only says that all ends were made; each is a commit of its own.
            ended = await expired()
            if log is None:
                return Plan((), (), lambda _: tuple(ended))
            told = await self._written_down(log)
            return Plan((Expect(log, len(told)),), (), lambda _: told, encode({"log": log.id, "length": len(told)}))

        async def replay(receipt: Receipt) -> tuple[str, ...]:
            assert receipt.answer is not None
            answer = receipt.answer.load()
            if "ended" in answer:  # too many to be told again, and this call knows
                return tuple(gone if answer["ended"] is None else answer["ended"])
            return await self._written_down(self.scope.key(SWEEP, answer["log"]), answer["length"])

        async def decide() -> Json:
            # The archive is here, so the threads end at our word, one by one.
            gone.extend(await expired())
            return encode({"ended": gone})

        return await perform(self.scope, operation, attempt, replay, decide if self.limits.archive else None)

    async def swept(self, ttl_seconds: float, ended: Sequence[str] | None, commit_id: str) -> None:
        """Note what a caller with an archive of its own has swept; None if it is still to do so."""

        async def attempt() -> Plan[None]:
            if ended is None:
                raise Undecided
            key = count_key(self.scope.space)
            counted = unchanged(key, await self.scope.get(Get(key)))
            answer = encode({"ended": list(ended)})
            return Plan(
                (counted,), (), lambda _: None, answer if len(answer) <= MAX_ANSWER else encode({"ended": None})
            )

        content = encode({"ttl_seconds": ttl_seconds})
        operation = Operation("threads.sweep", count_key(self.scope.space), content, commit_id)
        await perform(self.scope, operation, attempt, nothing)

    async def make_room(self, commit_id: str | None) -> str | None:
        """Archive the thread that has waited longest for a message, and return its id."""
        key = count_key(self.scope.space)

        async def attempt() -> Plan[str | None]:
            for used in await by_use(self.scope):
                if await self._archived(used):
                    end = await self._end(used.thread_id, "archived", used.length)
                    if end.writes:
                        return _room(end, used.thread_id)
            return await self._no_room()

        async def decide() -> Json:
            for used in await by_use(self.scope):
                if await self._archived(used):
                    return encode({"thread_id": used.thread_id, "length": used.length})
            return encode({"thread_id": None, "length": 0})

        async def replay(receipt: Receipt) -> str | None:
            assert receipt.answer is not None
            thread_id: str | None = receipt.answer.load()
            return thread_id

        operation = Operation("threads.make_room", key, NOTHING, commit_id)
        return await perform(self.scope, operation, attempt, replay, decide)

    async def made_room(self, archived: tuple[str | None, int] | None, commit_id: str) -> None:
        """End the thread that a caller has put into an archive of its own, if it still is what was put there."""

        async def attempt() -> Plan[str | None]:
            if archived is None:
                raise Undecided
            thread_id, length = archived
            if thread_id is None:
                return await self._no_room()
            end = await self._end(thread_id, "archived", length)
            if not end.writes:
                raise Undecided
            return _room(end, thread_id)

        operation = Operation("threads.make_room", count_key(self.scope.space), NOTHING, commit_id)
        await perform(self.scope, operation, attempt, nothing)

    async def _no_room(self) -> Plan[str | None]:
        key = count_key(self.scope.space)
        nothing = Plan((unchanged(key, await self.scope.get(Get(key))),), (), lambda _: False)
        return _room(nothing, None)

    async def _expire(self, used: Used, log: Key | None) -> bool:
        if not await self._archived(used):
            return False
        return await self.expire(used.thread_id, used.length, log=log)

    async def expire(
        self, thread_id: str, length: int, commit_id: str | None = None, *, log: Key | None = None
    ) -> bool:
        """End a thread that nobody has used, if it still is as long. False if it is not."""
        content = encode({"length": length})
        operation = Operation("threads.expire", self.scope.key(THREAD, thread_id), content, commit_id)
        return await perform(self.scope, operation, lambda: self._end(thread_id, "expired", length, log), _ended)

    async def _archived(self, used: Used) -> bool:
        """Put a thread into the archive, if there is one. False if it is not what it was any more."""
        if self.limits.archive is None:
            return True
        thread = AsyncThread(self.scope, self.types, self.scope.key(THREAD, used.thread_id))
        slots = [slot async for slot in thread]
        if not slots or slots[-1].index + 1 != used.length:
            return False
        self.limits.archive(used.thread_id, pack_thread(used.thread_id, slots))
        return True

    async def _end(self, thread_id: str, state: State, length: int | None = None, log: Key | None = None) -> Plan[bool]:
        """Plan a thread's end. If it should be of some length and is not, it stays."""
        key = self.scope.key(THREAD, thread_id)
        [thread], count = await look(self.scope, [key])
        if not thread.length or length not in (None, thread.length):
            return Plan((Expect(key, thread.length),), (), lambda _: False)
        now = self.scope.clock()
        end = plan_end(thread, count, state=state, now=now)
        written: list[Write] = [] if log is None else [Append(log, (Entry(state, encode(thread_id), at=now),))]
        return Plan(end.expects, (*end.writes, *written), lambda _: True)

    async def _written_down(self, log: Key, length: int | None = None) -> tuple[str, ...]:
        here = await self.scope.get(Range(log, 0, length))
        return tuple([record.body.load() for record in here.records if record.body is not None])


def _room(end: Plan[bool], thread_id: str | None) -> Plan[str | None]:
    return Plan(end.expects, end.writes, lambda _: thread_id, encode(thread_id))


async def _ended(receipt: Receipt) -> bool:
    return bool(receipt.versions)
