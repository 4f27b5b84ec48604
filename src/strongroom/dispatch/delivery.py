"""Delivering one thread: take it, handle what is due in order, give it back.

Theory of operation
-------------------
1. Taking a thread is a commit on its delivery document. From then on every commit expects that document's version.
2. A message is run, then one commit does everything that follows from it: the answers are appended, the threads they
   begin are registered, flags are raised for their receivers, and the message is marked as handled. A crash before it
   leaves no trace and the message is delivered again; a crash after it leaves nothing to do. A commit of unknown
   outcome is repeated under its id until it is known.
3. While a function runs, the lease is renewed. Whoever loses it anyway (paused, cut off) is refused at its next commit
   and stops. Its answers are dropped; the worker that took over gives the ones that count. A store that cannot be
   reached says nothing about who has the thread: the function goes on, and the lease is renewed, or lost, when the
   store is there again. To stop it when the time is up would be of no use where nobody can reach the store, and a plain
   function cannot be stopped: it would run beside itself.
   A worker that is told to stop at once waits for the commit that is under way, and knows what it holds before it is
   cancelled (`finish`): else it could not give it back.
4. A message that fails is put off, and with it the rest of its thread, so that order holds. When its attempts are used
   up it becomes a dead letter, and its caller is told, in the commit that moves on.
5. A message that kills the process raises nothing. So in a thread whose last worker vanished it is noted before a
   message is looked at that it begins, in a commit of its own; when enough workers in a row have done so and vanished,
   the message is given up in the same way. What the first of them was at nobody knows: it had no reason to say.
   Whoever kills a process kills what runs beside it, each time anew, since their leases run out together. So what
   several workers are known to have vanished at waits until it is the only one such in its process, and is noted only
   then: what is beside it has not begun, and one that ends is innocent. Nothing is given up that did not run alone.
   The first times it runs at once, or ordinary kills would line up all that a worker was at.
6. An executor that was given and takes no more messages takes its worker along. What it had is let go, as if the worker
   had vanished, but at once: whoever takes it over counts on. What never reached it is handed back, and nothing is held
   against it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from strongroom.bridge import finish
from strongroom.dispatch.leases import MOST_TOLD, Dead, Lease, LeasedThread, LeaseLost, failure
from strongroom.dispatch.pool import Given
from strongroom.dispatch.routes import ExecutorGone, Outgoing, Respond, Route, words_of
from strongroom.errors import (
    REFUSING,
    BudgetExceeded,
    CommitUnknown,
    Conflict,
    StrongroomError,
    Unavailable,
    said_by,
    storable,
)
from strongroom.services.threads.deliveries import (
    Delivery,
    DeliveryFailed,
    attempts,
    due,
    start,
    suspicious,
    vanished,
)
from strongroom.services.threads.plans import THREAD
from strongroom.services.threads.reading import read_slice
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Slot
from strongroom.store import Range, Record

PAGE = 64
PATIENCE = (0.01, 0.1, 0.5, 1.0, 2.0)
TOGETHER = 3  # workers that may vanish at a message before it runs alone; the last one allowed is always alone with it

logger = logging.getLogger("strongroom.dispatch")
T = TypeVar("T")
Run = Callable[[Route, Slot, int], Awaitable[list[Outgoing]]]


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
        suspects: asyncio.Lock | None = None,
        turn: Callable[[Route], asyncio.Semaphore | None] = lambda route: None,
        given: Given | None = None,
    ) -> None:
        self._threads = threads
        self._scope = threads.scope
        self._routes = routes
        self._thread_id = thread_id
        self._leased = LeasedThread(threads, thread_id, owner)
        self._lease_seconds = lease_seconds
        self._run = run
        self._stopping = stopping
        self._suspects = suspects or asyncio.Lock()  # the worker's: one at a time
        self._turn = turn
        self._given = given or Given()
        self._given.has.discard(thread_id)
        self._noted = False  # the message that is handled now, by us
        self._lease = Lease(Delivery(), 0)
        self._renewal: str | None = None  # the id of one that may have happened or not

    async def __call__(self) -> int:
        """Handle what is due. Return 0, or the time (in microseconds) to come back at."""
        try:
            return await self._finish(self._take()) or await self._handle_all()
        except LeaseLost:
            return 0
        except Conflict:
            await self._hand_back()
            return self._scope.clock()  # too much is going on just now
        except (asyncio.CancelledError, ExecutorGone):
            await self._hand_back()
            raise

    async def _take(self) -> int:
        """Take the thread. Return 0, or the time to come back at."""
        taken = await _known(lambda id: self._leased.take(self._lease_seconds, id))
        if not isinstance(taken, Lease):
            return taken
        self._lease = taken
        return 0

    async def _finish(self, act: Coroutine[Any, Any, T]) -> T:
        """Take an act to its end although this task is cancelled meanwhile, so that what is held then is known."""
        return await finish(act)

    async def _hand_back(self) -> None:
        if not self._lease.version:
            return  # it was never taken
        try:
            await self._settle()
            if self._is_held_against():
                await _known(lambda id: self._leased.renew(self._lease, 0, id))  # for no longer
            else:
                await _known(lambda id: self._leased.hand_back(self._lease, id))
        except StrongroomError:
            pass  # the lease runs out by itself

    def _is_held_against(self) -> bool:
        """Say whether a worker vanished at what we have: we, with our executor, or others before it began."""
        if self._given.gone is None:
            return False
        return self._thread_id in self._given.has or (suspicious(self._lease.state) and not self._noted)

    # ---- the messages -----------------------------------------------------------------------------------------------

    async def _handle_all(self) -> int:
        position = start(self._lease.state, self._routes)
        while records := await self._read_on(position):
            for record in due(self._lease.state, records, self._routes):
                later = await self._handle(record)
                self._noted = False
                if later:
                    return later
                if self._stopping():
                    await self._hand_back()
                    return 0
            position = records[-1].index + 1
        return 0

    async def _read_on(self, position: int) -> tuple[Record, ...]:
        """Return the next messages. Where there are none, give the thread back and take its flags down."""
        thread, names = self._scope.key(THREAD, self._thread_id), list(self._routes)
        while True:
            here = await read_slice(self._scope, Range(thread, position, None, PAGE))
            if here.records:
                return here.records
            if await _known(lambda id: self._leased.release(self._lease, names, position, here.length, id)):  # noqa: B023
                return ()

    async def _handle(self, record: Record) -> int:
        """Handle a message. Return 0, or the time to come back at."""
        state, route = self._lease.state, self._routes[record.receiver or ""]
        lost, most = vanished(state, record), route.retry.takeovers
        if lost >= most:
            who = "a worker" if lost == 1 else f"{lost} workers in a row"
            await self._give_up(
                record, f"{who} began it and vanished before it ended", attempts(state, record) - 1 + lost
            )
            return 0
        async with AsyncExitStack() as alone, AsyncExitStack() as turn:
            if suspicious(state) and lost >= min(TOGETHER, most - 1):
                await alone.enter_async_context(self._own(self._suspects))
                if self._stopping():
                    return 0  # it has not begun, and is handed back
            few = self._turn(route)
            if few is not None:
                await turn.enter_async_context(self._own(few))
            if self._given.gone is not None:
                raise self._given.gone  # whoever had the turn broke it
            if suspicious(state):
                await self._note(record)
            return await self._attempt(record, turn)

    @asynccontextmanager
    async def _own(self, turns: asyncio.Lock | asyncio.Semaphore) -> AsyncIterator[None]:
        """Wait for a turn before a message begins, and keep the lease meanwhile."""
        turn = asyncio.ensure_future(turns.acquire())
        try:
            await self._renew_until_done(turn)
            yield
        finally:
            if not turn.cancel():  # it was done: this one's turn
                turns.release()

    async def _note(self, record: Record) -> None:
        async def noted() -> None:
            self._lease = await _known(lambda id: self._leased.note(self._lease, record, self._lease_seconds, id))

        self._noted = True
        await self._finish(noted())

    async def _attempt(self, record: Record, turn: AsyncExitStack) -> int:
        slot = Slot(self._thread_id, record, self._threads.types)
        route = self._routes[slot.to_id]
        attempt = attempts(self._lease.state, record)
        try:
            payload, _ = slot.payload, slot.chain  # each says so if it cannot be read
        except Exception as unreadable:  # also what a class of somebody else's raises when it is made
            await self._give_up(
                record, str(unreadable) if isinstance(unreadable, StrongroomError) else said_by(unreadable), attempt
            )
            return 0
        if not route.takes(payload):
            await self._refuse(route, record, payload, attempt)
            return 0
        answers = await self._run_renewing(route, slot, attempt)
        await turn.aclose()  # the next one need not wait for what is committed now
        if isinstance(answers, BaseException):
            error = words_of(answers)
            if attempt < route.retry.attempts:
                delay = route.retry.delay_seconds(attempt)
                return await _known(lambda id: self._leased.put_off(self._lease, record, error, delay, id))
            await self._give_up(record, error, attempt)
            return 0
        try:
            await self._conclude(record, answers)
        except (Conflict, Unavailable, CommitUnknown):
            raise
        except StrongroomError as refused:
            await self._give_up(record, f"its answer was refused: {refused}", attempt)
        return 0

    async def _refuse(self, route: Route, record: Record, payload: Any, attempt: int) -> None:
        if isinstance(payload, DeliveryFailed):
            # Nobody here deals with failures, so the caller's caller hears of it.
            await self._conclude(record, [Respond(payload)])
            return
        wanted = " or ".join(cls.__name__ for cls in route.accepts)
        await self._give_up(record, f"{route.name} accepts {wanted}, not {record.type}", attempt)

    async def _give_up(self, record: Record, error: str, attempt: int) -> None:
        dead = Dead(storable(error, MOST_TOLD), attempt)
        try:
            await self._conclude(record, [failure(record, dead)], dead)
        except BudgetExceeded:
            await self._conclude(record, [], dead)  # the caller's thread is full; the dead letter still has to be kept

    async def _conclude(self, record: Record, answers: list[Outgoing], dead: Dead | None = None) -> None:
        async def concluded() -> None:
            self._lease = await _known(
                lambda id: self._leased.conclude(self._lease, record, answers, dead, self._lease_seconds, id)
            )

        await self._finish(concluded())

    async def _run_renewing(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing] | BaseException:
        """Run a function, and keep the lease. Return its answers or what it raised; raise what became of the lease."""
        running = asyncio.ensure_future(self._run(route, slot, attempt))
        try:
            await self._renew_until_done(running)
        finally:
            running.cancel()
        try:
            answers: list[Outgoing] | BaseException = running.result()
        except ExecutorGone:
            raise
        except (Exception, asyncio.CancelledError) as problem:  # cancelled by itself: this task is still wanted
            answers = problem
        self._given.has.discard(self._thread_id)
        return answers

    async def _renew_until_done(self, running: asyncio.Future[Any]) -> None:
        """Keep the lease for as long as a function runs, and know then what is held."""
        failed = 0
        while True:
            wait_seconds = self._lease_seconds / 3
            if failed:
                wait_seconds = min(wait_seconds, PATIENCE[min(failed, len(PATIENCE)) - 1])
            await asyncio.wait({running}, timeout=wait_seconds)
            if running.done():
                break
            try:
                await self._finish(self._renew())
                failed = 0
            except (CommitUnknown, Unavailable) as problem:
                if not failed:
                    logger.warning("the lease on thread %r is not renewed: %s; trying again", self._thread_id, problem)
                failed += 1
        await self._settle()

    async def _renew(self) -> None:
        try:
            self._lease = await self._leased.renew(self._lease, self._lease_seconds, self._renewal)
        except CommitUnknown as problem:
            self._renewal = problem.commit_id
            raise
        self._renewal = None

    async def _settle(self) -> None:
        """Find out whether the last renewal happened, if nobody knows: only then it is known what is held."""
        if self._renewal is not None:
            await _known(lambda _: self._renew())


async def _known(act: Callable[[str | None], Awaitable[T]]) -> T:
    """Act, and find out what happened if the store cannot say. What it refuses is not asked for again."""
    commit_id: str | None = None
    for wait_seconds in (*PATIENCE, None):
        try:
            return await act(commit_id)
        except (CommitUnknown, Unavailable) as problem:
            if wait_seconds is None or problem.reason in REFUSING:
                raise
            commit_id = problem.commit_id if isinstance(problem, CommitUnknown) else commit_id
            await asyncio.sleep(wait_seconds)
    raise AssertionError("the last one returns or raises")
