"""Delivering one thread: take it, handle what is due in order, give it back.

Theory of operation
-------------------
1. Taking a thread is a commit on its delivery document. From then on every commit expects that document's version.
2. A message is run, then one commit does everything that follows from it: the answers are appended, the threads they
   begin are registered, flags are raised for their receivers, and the message is marked as handled. A crash before it
   leaves no trace and the message is delivered again; a crash after it leaves nothing to do.
3. While a function runs, the lease is renewed. Whoever loses it anyway (paused, cut off) is refused at its next commit
   and stops. Its answers are dropped; the worker that took over gives the ones that count.
4. A message that fails is put off, and with it the rest of its thread, so that order holds. When its attempts are used
   up it becomes a dead letter, and its caller is told, in the commit that moves on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from strongroom.codec import pack
from strongroom.dispatch.routes import Outgoing, Respond, Route, Send
from strongroom.errors import BudgetExceeded, CommitUnknown, Conflict, StrongroomError, Unavailable
from strongroom.services.threads.deliveries import (
    DELIVERY,
    Delivery,
    DeliveryFailed,
    attempts,
    blocked_until,
    bury,
    due,
    failed,
    handled,
    mail_key,
    raise_flag,
    read_delivery,
    released,
    start,
    taken,
    unchanged,
)
from strongroom.services.threads.payloads import NO_META, Meta
from strongroom.services.threads.plans import count_key, found, plan_appends, questions
from strongroom.services.threads.registry import CHAIN, Step, call_key, plan_call
from strongroom.services.threads.thread import read_slice
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Slot
from strongroom.store import (
    AsyncStore,
    Commit,
    Delete,
    Document,
    Entry,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    Record,
    Slice,
    Write,
    new_id,
)

PAGE = 64
PATIENCE = (0.01, 0.1, 0.5, 1.0, 2.0)

Run = Callable[[Route, Slot, int], Awaitable[list[Outgoing]]]


class Lost(Exception):
    """Another worker has the thread now."""


class Ending(Struct, frozen=True):
    """What came of a message: answers, and perhaps a place among the dead letters."""

    answers: list[Outgoing]
    extra: tuple[Write, ...] = ()


class Round:
    """One worker's turn at one thread."""

    def __init__(
        self,
        threads: AsyncThreads,
        routes: dict[str, Route],
        thread_id: str,
        *,
        owner: str,
        lease_seconds: float,
        run: Run,
        stopping: Callable[[], bool],
    ) -> None:
        self._threads = threads
        self._scope = threads.scope
        self._store = threads.scope.store
        self._routes = routes
        self._thread_id = thread_id
        self._owner = owner
        self._lease = lease_seconds
        self._run = run
        self._stopping = stopping
        self._key = self._scope.key(DELIVERY, thread_id)
        self._version = 0
        self._state = Delivery()

    async def __call__(self) -> int:
        """Handle what is due. Return 0, or the time (in microseconds) to come back at."""
        later = await self._take()
        if later:
            return later
        try:
            return await self._handle_all()
        except Lost:
            return 0
        except asyncio.CancelledError:
            await self._hand_back()
            raise

    # ---- the lease --------------------------------------------------------------------------------------------------

    async def _take(self) -> int:
        [document] = await self._store.read([Get(self._key)])
        state = read_delivery(document)
        now = self._scope.clock()
        later = blocked_until(state, owner=self._owner, now=now)
        if later:
            return later
        self._version, self._state = document.version if document else 0, state
        try:
            await self._write(taken(state, owner=self._owner, until=self._until()))
        except Lost:
            return now  # somebody was quicker; whether anything is left to do shows the next time round
        return 0

    async def _renew(self) -> None:
        await self._write(taken(self._state, owner=self._owner, until=self._until()))

    async def _hand_back(self) -> None:
        try:
            await self._write(released(self._state))
        except (Lost, StrongroomError):
            pass  # the lease runs out by itself

    def _until(self) -> int:
        return self._scope.clock() + int(self._lease * 1_000_000)

    async def _write(self, state: Delivery, expects: Sequence[Expect] = (), writes: Sequence[Write] = ()) -> None:
        """Commit the delivery's next state with whatever belongs to it. `Lost` if the thread is not ours any more."""
        fence = Expect(self._key, self._version)
        commit = Commit(new_id(), (fence, *expects), (Put(self._key, pack(state)), *writes))
        try:
            receipt = await settle(self._store, commit)
        except Conflict as conflict:
            if conflict.key == self._key:
                raise Lost from None
            raise
        self._version, self._state = receipt.versions[0], state

    # ---- the messages -----------------------------------------------------------------------------------------------

    async def _handle_all(self) -> int:
        position = start(self._state, self._routes)
        while True:
            here, flags = await self._look(position)
            for record in due(self._state, here.records, self._routes):
                later = await self._handle(record)
                if later:
                    return later
                if self._stopping():
                    await self._hand_back()
                    return 0
            if here.records:
                position = here.records[-1].index + 1
            if len(here.records) == PAGE:
                continue
            try:
                await self._finish(position, flags)
                return 0
            except Conflict:
                continue  # a flag was raised meanwhile: look again

    async def _look(self, position: int) -> tuple[Slice, dict[Key, Document]]:
        keys = [mail_key(self._scope.space, thread_id=self._thread_id, receiver=name) for name in self._routes]
        # The flags are read first, so that one raised after the thread was read is never taken for an older one.
        flags = await self._store.read([Get(key) for key in keys])
        here = await read_slice(self._store, Range(self._threads.key(self._thread_id), position, None, PAGE))
        return here, {key: flag for key, flag in zip(keys, flags, strict=True) if flag is not None}

    async def _finish(self, position: int, flags: dict[Key, Document]) -> None:
        await self._write(
            released(self._state, receivers=self._routes, length=position),
            [unchanged(key, flag) for key, flag in flags.items()],
            [Delete(key) for key in flags],
        )

    async def _handle(self, record: Record) -> int:
        slot = Slot(self._thread_id, record, self._threads.types)
        route = self._routes[slot.to_id]
        attempt = attempts(self._state, record)
        try:
            payload = slot.payload
            chain = slot.metadata.chain
        except StrongroomError as unreadable:
            await self._conclude(record, (slot.from_id, slot.to_id), self._dead(record, str(unreadable), attempt))
            return 0
        if not route.takes(payload):
            ending = self._refuse(route, record, payload, attempt)
            await self._conclude(record, chain, ending)
            return 0
        try:
            answers = await self._run_renewing(route, slot, attempt)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"[:2000]
            if attempt < route.retry.attempts:
                return await self._put_off(record, route, error, attempt)
            await self._conclude(record, chain, self._dead(record, error, attempt))
            return 0
        try:
            await self._conclude(record, chain, Ending(answers))
        except StrongroomError as refused:
            if isinstance(refused, Unavailable | CommitUnknown):
                raise
            await self._conclude(record, chain, self._dead(record, f"its answer was refused: {refused}", attempt))
        return 0

    def _refuse(self, route: Route, record: Record, payload: Any, attempt: int) -> Ending:
        if isinstance(payload, DeliveryFailed):
            return Ending([Respond(payload)])  # nobody here deals with failures, so the caller's caller hears of it
        wanted = " or ".join(cls.__name__ for cls in route.accepts)
        return self._dead(record, f"{route.name} accepts {wanted}, not {record.type}", attempt)

    def _dead(self, record: Record, error: str, attempt: int) -> Ending:
        letter = bury(
            self._scope.space,
            thread_id=self._thread_id,
            record=record,
            error=error,
            attempts=attempt,
            now=self._scope.clock(),
        )
        assert record.receiver is not None
        return Ending([Respond(DeliveryFailed(record.receiver, record.index, error, attempt))], (letter,))

    async def _put_off(self, record: Record, route: Route, error: str, attempt: int) -> int:
        later = self._scope.clock() + int(route.retry.delay_seconds(attempt) * 1_000_000)
        await self._write(failed(self._state, record, error=error, not_before=later))
        return later

    async def _run_renewing(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        running = asyncio.ensure_future(self._run(route, slot, attempt))
        try:
            while True:
                done, _ = await asyncio.wait({running}, timeout=self._lease / 3)
                if done:
                    return running.result()
                await self._renew()
        finally:
            running.cancel()

    # ---- the answers ------------------------------------------------------------------------------------------------

    async def _conclude(self, record: Record, chain: tuple[str, ...], ending: Ending) -> None:
        """Commit everything that follows from a message, or nothing."""
        telling = True
        while True:
            try:
                answers = ending.answers if telling else []
                expects, writes = await self._plan(record, chain, answers)
                await self._write(handled(self._state, record, until=self._until()), expects, (*writes, *ending.extra))
                return
            except Conflict:
                continue  # a thread or a chain began meanwhile: plan again, the function need not run again
            except BudgetExceeded:
                if self._threads.limits.archive is not None and await self._threads.make_room():
                    continue
                if not (ending.extra and telling):
                    raise
                telling = False  # the caller's thread is full; the dead letter still has to be kept

    async def _plan(
        self, record: Record, chain: tuple[str, ...], answers: list[Outgoing]
    ) -> tuple[list[Expect], list[Write]]:
        if not answers:
            return [], []
        space, me = self._scope.space, record.receiver or ""
        calls = {
            item.to: call_key(space, parent=self._thread_id, name=item.to) for item in answers if isinstance(item, Send)
        }
        link, *known = await self._store.read([Get(Key(space, CHAIN, self._thread_id)), *map(Get, calls.values())])
        steps = {
            to: plan_call(key, document, parent=self._thread_id, names=(*chain, to))
            for (to, key), document in zip(calls.items(), known, strict=True)
        }
        home = (link.value.load()["parent"] if link is not None else None) or self._thread_id
        batches: dict[str, list[Entry]] = {}
        flags: dict[Key, Put] = {}
        for item in answers:
            thread_id, to, path = self._address(item, chain, steps, home)
            meta = NO_META if path == (me, to) else Meta(chain=path)
            batches.setdefault(thread_id, []).append(self._threads.entry(item.payload, meta, from_id=me, to_id=to))
            # Who started it all is usually no route anywhere: a flag for them would wave for ever.
            if len(path) > 1 or to in self._routes:
                flag = raise_flag(space, thread_id=thread_id, receiver=to)
                flags[flag.key] = flag
        keys = [self._threads.key(thread_id) for thread_id in batches]
        *answered, count = await self._store.read([*questions(keys), Get(count_key(space))])
        threads = found(keys, answered)
        plan = plan_appends(
            list(zip(threads, batches.values(), strict=True)),
            count,
            limits=self._threads.limits,
            now=self._scope.clock(),
        )
        taken_steps = [step for step in steps.values() if step.writes]
        expects = [*plan.expects, *(expect for step in taken_steps for expect in step.expects)]
        writes = [*plan.writes, *(write for step in taken_steps for write in step.writes), *flags.values()]
        return expects, writes

    def _address(
        self, item: Outgoing, chain: tuple[str, ...], steps: dict[str, Step], home: str
    ) -> tuple[str, str, tuple[str, ...]]:
        """Return the thread, the receiver and the chain of an answer."""
        if isinstance(item, Send):
            return steps[item.to].id, item.to, (*chain, item.to)
        caller = chain[-2] if len(chain) > 1 else chain[0]
        return home, caller, chain[:-1] or chain


async def settle(store: AsyncStore, commit: Commit) -> Receipt:
    """Commit, and find out what happened if the store can not say: the same id is applied at most once."""
    for wait_seconds in PATIENCE:
        try:
            return await store.commit(commit)
        except (CommitUnknown, Unavailable):
            await asyncio.sleep(wait_seconds)
    return await store.commit(commit)
