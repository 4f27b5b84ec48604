"""The commits of a worker that leases a thread, each an operation of its own: take it, keep it, note that a message
begins, put it off, conclude it, give the thread back.

Every one but the first expects the delivery's document to be as the worker knows it, so whoever has lost the thread is
refused (`LeaseLost`). Where a server makes them, it knows no more of a worker than what the worker says it holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from strongroom.codec import Json, encode, pack
from strongroom.dispatch.routes import Outgoing, Respond, Send
from strongroom.errors import Conflict, InvalidInput, StrongroomError, shown, storable
from strongroom.operations import Operation, Plan, perform
from strongroom.services.threads.deliveries import (
    DELIVERY,
    Delivery,
    DeliveryFailed,
    blocked_until,
    bury,
    due,
    failed,
    handed_back,
    handled,
    mail_key,
    noted,
    read_delivery,
    released,
    renewed,
    taken,
)
from strongroom.services.threads.payloads import CHAIN, Inert, seal, type_name, unseal
from strongroom.services.threads.plans import THREAD, Writes
from strongroom.services.threads.reading import read_slice
from strongroom.services.threads.registry import Step, call_key, chain_key, plan_call
from strongroom.services.threads.threads import AsyncThreads, limits_told
from strongroom.services.threads.values import Slot
from strongroom.store import Delete, Entry, Expect, Get, Put, Range, Receipt, Record, Write, require_name

MOST_TOLD = 2_000  # characters of an error that a dead letter and its sender are told
LONGEST_DELAY_SECONDS = 365 * 86_400.0

T = TypeVar("T")


class LeaseLost(Conflict):
    """Another worker has the thread now."""


class Lease(Struct, frozen=True):
    """What a worker knows of the thread it has."""

    state: Delivery
    version: int


class Dead(Struct, frozen=True):
    """Why a message is given up, and after how many attempts."""

    error: str
    attempts: int


class LeasedThread:
    """What one worker does to the delivery of one thread."""

    def __init__(self, threads: AsyncThreads, thread_id: str, owner: str) -> None:
        self._threads = threads
        self._scope = threads.scope
        self._thread = self._scope.key(THREAD, thread_id)
        self._owner = owner
        self.key = self._scope.key(DELIVERY, thread_id)

    async def take(self, lease_seconds: float, commit_id: str | None = None) -> int | Lease:
        """Take the thread. Return what is held then, or the time to come back at."""

        async def attempt() -> Plan[int | Lease]:
            document = await self._scope.get(Get(self.key))
            state, version = read_delivery(document), document.version if document else 0
            later = blocked_until(state, owner=self._owner, now=self._scope.clock())
            if later:
                return Plan((Expect(self.key, version),), (), lambda _: later, encode({"later": later}))
            mine = taken(state, owner=self._owner, until=self._until(lease_seconds))
            # Somebody who was quicker is seen by the next attempt.
            expects, writes = (Expect(self.key, version),), (Put(self.key, pack(mine)),)
            return Plan(expects, writes, lambda receipt: Lease(mine, receipt.versions[0]), pack({"state": mine}))

        async def replay(receipt: Receipt) -> int | Lease:
            assert receipt.answer is not None
            told = receipt.answer.load()
            if "later" in told:
                return int(told["later"])
            return Lease(msgspec.convert(told["state"], Delivery), receipt.versions[0])

        content = encode({"owner": self._owner, "lease_seconds": lease_seconds})
        operation = Operation("dispatch.take", self.key, content, commit_id)
        try:
            return await perform(self._scope, operation, attempt, replay)
        except Conflict as conflict:
            raise self._lost(conflict) or conflict from None

    async def renew(self, lease: Lease, lease_seconds: float, commit_id: str | None = None) -> Lease:
        """Keep the thread for longer."""
        state = renewed(lease.state, until=self._until(lease_seconds))
        return await self._move("renew", lease, state, {"lease_seconds": lease_seconds}, commit_id)

    async def note(self, lease: Lease, record: Record, lease_seconds: float, commit_id: str | None = None) -> Lease:
        """Note that a message begins, so that whoever takes the thread over knows what its worker was at."""
        state = noted(lease.state, record, until=self._until(lease_seconds))
        said = {"index": record.index, "lease_seconds": lease_seconds}
        return await self._move("note", lease, state, said, commit_id)

    async def hand_back(self, lease: Lease, commit_id: str | None = None) -> Lease:
        """Give the thread back although something may be due."""
        return await self._move("hand_back", lease, handed_back(lease.state), {}, commit_id)

    async def put_off(
        self, lease: Lease, record: Record, error: str, delay_seconds: float, commit_id: str | None = None
    ) -> int:
        """Leave a message that failed for later, and give the thread back. Return the time it is due again."""
        later = self._scope.clock() + int(min(LONGEST_DELAY_SECONDS, delay_seconds) * 1_000_000)
        state = failed(lease.state, record, error=storable(error, MOST_TOLD), not_before=later)
        said = {"index": record.index, "error": error, "delay_seconds": delay_seconds}
        await self._move("put_off", lease, state, said, commit_id)
        return later

    async def release(
        self, lease: Lease, receivers: Sequence[str], position: int, length: int, commit_id: str | None = None
    ) -> bool:
        """Give the thread back and take the receivers' flags down: nothing is due before `position`, where it ends.

        False if it is longer than `length` by now.
        """
        flags = [mail_key(self._scope.space, thread_id=self._thread.id, receiver=name) for name in receivers]
        state = released(lease.state, receivers=receivers, length=position)

        async def attempt() -> Plan[bool]:
            [here], raised = await self._scope.read_all([Range(self._thread, 0, 0)], [*map(Get, flags)])
            still = Expect(self._thread, here.length)
            if here.length != length:
                return Plan((still,), (), lambda _: False)
            down = tuple([Delete(flag.key) for flag in raised if flag is not None])
            # A message that comes meanwhile makes the thread longer: then the next attempt finds it.
            return self._plan(lease, state, lambda _: True, Writes((still,), down))

        async def replay(receipt: Receipt) -> bool:
            return bool(receipt.versions)

        said = {"receivers": list(receivers), "position": position, "length": length}
        return await self._perform("release", lease, encode(self._said(lease, said)), attempt, replay, commit_id)

    async def conclude(
        self,
        lease: Lease,
        record: Record,
        answers: Sequence[Outgoing],
        dead: Dead | None,
        lease_seconds: float,
        commit_id: str | None = None,
    ) -> Lease:
        """Commit everything that follows from a message, or nothing."""
        state = handled(lease.state, record, until=self._until(lease_seconds))
        chain = self._chain(record)
        letter: tuple[Write, ...] = ()
        if dead is not None:
            where, now, error = self._thread, self._scope.clock(), storable(dead.error, MOST_TOLD)
            letter = (
                bury(where.space, thread_id=where.id, record=record, error=error, attempts=dead.attempts, now=now),
            )

        def told(receipt: Receipt) -> Lease:
            return Lease(state, receipt.versions[0])

        async def attempt() -> Plan[Lease] | None:
            # A thread or a chain may begin meanwhile: then only this is planned again, the function need not run again.
            more = await self._answers(record, chain, answers)
            if more is None:
                return None
            return self._plan(lease, state, told, Writes(more.expects, (*more.writes, *letter)))

        async def replay(receipt: Receipt) -> Lease:
            return told(receipt)

        said = {"index": record.index, "answers": [_sealed(item) for item in answers], "dead": dead}
        content = pack(self._said(lease, said | {"lease_seconds": lease_seconds}))
        return await self._perform("conclude", lease, content, attempt, replay, commit_id)

    # ---- where somebody else's worker says what it holds ------------------------------------------------------------

    async def held(self, version: int) -> Lease:
        """Return what the worker holds, if it does."""
        document = await self._scope.get(Get(self.key))
        state = read_delivery(document)
        if document is None or document.version != version or state.owner != self._owner:
            raise self._gone()
        return Lease(state, version)

    async def message(self, lease: Lease, index: int) -> Record:
        """Return a message that is still to be handled."""
        here = await read_slice(self._scope, Range(self._thread, index, index + 1))
        for record in here.records:
            if record.receiver is not None and due(lease.state, (record,), {record.receiver}):
                return record
        raise InvalidInput(f"thread {self._thread.id!r} has no message {index} to be handled; nothing changed")

    # ---- what they are made of --------------------------------------------------------------------------------------

    async def _move(
        self, name: str, lease: Lease, state: Delivery, said: dict[str, Any], commit_id: str | None
    ) -> Lease:
        """Commit the delivery's next state, and nothing else."""

        def told(receipt: Receipt) -> Lease:
            return Lease(state, receipt.versions[0])

        async def attempt() -> Plan[Lease]:
            return self._plan(lease, state, told)

        async def replay(receipt: Receipt) -> Lease:
            return told(receipt)

        return await self._perform(name, lease, encode(self._said(lease, said)), attempt, replay, commit_id)

    def _said(self, lease: Lease, more: dict[str, Any]) -> dict[str, Any]:
        return {"owner": self._owner, "version": lease.version, **more}

    async def _perform(
        self,
        name: str,
        lease: Lease,
        content: Json,
        attempt: Callable[[], Awaitable[Plan[T] | None]],
        replay: Callable[[Receipt], Awaitable[T]],
        commit_id: str | None,
    ) -> T:
        limits, more_room = limits_told(self._threads) if name == "conclude" else (None, None)
        operation = Operation(f"dispatch.{name}", self.key, content, commit_id, limits)
        try:
            return await perform(self._scope, operation, attempt, replay, more_room)
        except LeaseLost:
            raise
        except Conflict as conflict:
            raise self._lost(conflict) or conflict from None

    def _plan(
        self, lease: Lease, state: Delivery, result: Callable[[Receipt], T], more: Writes = Writes((), ())
    ) -> Plan[T]:
        """Plan the delivery's next state with whatever belongs to it. `LeaseLost` if the thread is not ours now."""
        fence = Expect(self.key, lease.version)
        return Plan((fence, *more.expects), (Put(self.key, pack(state)), *more.writes), result, refusal=self._lost)

    def _lost(self, conflict: Conflict) -> LeaseLost | None:
        return self._gone() if conflict.key == self.key else None

    def _gone(self) -> LeaseLost:
        told = f"another worker has thread {self._thread.id!r} now; nothing changed"
        return LeaseLost(told, expected=0, actual=0, key=self.key)

    def _until(self, lease_seconds: float) -> int:
        return self._scope.clock() + int(lease_seconds * 1_000_000)

    # ---- the answers ------------------------------------------------------------------------------------------------

    def _chain(self, record: Record) -> tuple[str, ...]:
        slot = Slot(self._thread.id, record, self._threads.types)
        try:
            return slot.chain
        except StrongroomError:
            return slot.from_id, slot.to_id

    async def _answers(self, record: Record, chain: tuple[str, ...], answers: Sequence[Outgoing]) -> Writes | None:
        if not answers:
            return Writes((), ())
        thread_id, space, me = self._thread.id, self._scope.space, record.receiver or ""
        calls = {item.to: call_key(space, parent=thread_id, name=item.to) for item in answers if isinstance(item, Send)}
        link, *known = await self._scope.get_all([Get(chain_key(space, thread_id)), *map(Get, calls.values())])
        steps = {
            to: plan_call(key, document, parent=thread_id, names=(*chain, to))
            for (to, key), document in zip(calls.items(), known, strict=True)
        }
        home = (link.value.load()["parent"] if link is not None else None) or thread_id
        batches: dict[str, list[Entry]] = {}
        for item in answers:
            where, to, path = _address(item, chain, steps, home)
            metadata = None if path == (me, to) else {CHAIN: path}
            batches.setdefault(where, []).append(self._threads.entry(item.payload, metadata, from_id=me, to_id=to))
        plan = await self._threads.plan(batches)
        if plan is None:
            return None
        return Writes(
            (*plan.expects, *(expect for step in steps.values() for expect in step.expects)),
            (*plan.writes, *(write for step in steps.values() for write in step.writes)),
        )


def failure(record: Record, dead: Dead) -> Respond:
    """Return what a message's caller is told when it is given up."""
    assert record.receiver is not None
    return Respond(DeliveryFailed(record.receiver, record.index, dead.error, dead.attempts))


def answer_of(sealed: Sequence[Any]) -> Outgoing:
    """Return an answer that a worker sealed, or raise `InvalidInput`."""
    to, type, payload = sealed
    inert = Inert(require_name(type, "a payload's type"), encode(payload, depth=-1))
    return Respond(inert) if to is None else Send(require_name(to, "to_id"), inert)


def _sealed(item: Outgoing) -> list[Any]:
    to = item.to if isinstance(item, Send) else None
    if isinstance(item, Send) and not isinstance(to, str):
        raise InvalidInput(f"to_id must be text, not {shown(to)}; nothing changed")
    return [to, type_name(item.payload), Raw(unseal(seal(item.payload)).payload)]


def _address(
    item: Outgoing, chain: tuple[str, ...], steps: dict[str, Step], home: str
) -> tuple[str, str, tuple[str, ...]]:
    """Return the thread, the receiver and the chain of an answer."""
    if isinstance(item, Send):
        return steps[item.to].id, item.to, (*chain, item.to)
    caller = chain[-2] if len(chain) > 1 else chain[0]
    return home, caller, chain[:-1] or chain
