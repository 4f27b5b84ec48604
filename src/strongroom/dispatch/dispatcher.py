"""The dispatcher: runs functions on the messages addressed to them, several threads at a time.

Order holds within a thread; threads are handled side by side. Any number of dispatchers, in any number of processes,
may serve the same store: see `delivery` for what keeps them apart.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from threading import Thread as OsThread
from typing import Any, TypeVar, overload

from strongroom.arguments import Count, checked, require_positive
from strongroom.blocking import Context
from strongroom.bridge import run
from strongroom.context import AsyncContext
from strongroom.dispatch.delivery import Round
from strongroom.dispatch.mail import Mail, flagged
from strongroom.dispatch.pool import Pool
from strongroom.dispatch.routes import ExecutorGone, Function, Route, Routes
from strongroom.dispatch.running import Runner
from strongroom.errors import REFUSING, Closed, InvalidInput, StrongroomError, Unavailable, said_by, shown
from strongroom.opening import Address
from strongroom.services.threads.deliveries import DeadLetter, DeliveryFailed, Retry
from strongroom.services.threads.payloads import PLAIN
from strongroom.services.threads.values import Slot
from strongroom.store import require_name
from strongroom.values import Listing

logger = logging.getLogger("strongroom.dispatch")
F = TypeVar("F", bound=Function)
T = TypeVar("T")

RECHECK_SECONDS = 1.0


@checked
class AsyncDispatcher:
    """Functions and the store whose messages they handle.

    Without a context it is a table of functions; `bind` gives it one, as a worker process does.

    >>> from strongroom.dispatch import AsyncDispatcher
    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         dispatcher = AsyncDispatcher(ctx)
    ...         @dispatcher.handler("planner")
    ...         async def plan(payload, call):
    ...             print(f"{call.from_id} asks for {payload['task']}")
    ...         await dispatcher.send("orders", {"task": "a refund"}, from_id="support", to_id="planner")
    ...         await dispatcher.drain()
    >>> asyncio.run(main())
    support asks for a refund
    """

    def __init__(
        self,
        ctx: AsyncContext | None = None,
        *,
        max_concurrent: int = 20,
        lease_seconds: float = 30.0,
        poll_seconds: float = 0.05,
        address: Address | None = None,
        executor: Executor | None = None,
        max_workers: int | None = None,
        max_tasks_per_child: int | None = None,
        routes: Routes | None = None,
    ) -> None:
        require_positive(
            max_concurrent=max_concurrent,
            lease_seconds=lease_seconds,
            poll_seconds=poll_seconds,
            max_workers=max_workers,
            max_tasks_per_child=max_tasks_per_child,
        )
        self._ctx = ctx
        self._routes = routes or Routes()
        self._max_concurrent = max_concurrent
        self._lease = lease_seconds
        self._poll = poll_seconds
        self._address = address
        self._executor = executor
        self._pool = Pool(executor, max_workers=max_workers, max_tasks_per_child=max_tasks_per_child)
        self._owner = _name()
        self._stop: str | None = None
        self._wake: Callable[[], object] | None = None

    def bind(self, ctx: AsyncContext, *, address: Address | None = None) -> AsyncDispatcher:
        """Return a dispatcher with the same functions and settings for a context."""
        return AsyncDispatcher(ctx, **self._settings(address))

    def _settings(self, address: Address | None) -> dict[str, Any]:
        return {
            "max_concurrent": self._max_concurrent,
            "lease_seconds": self._lease,
            "poll_seconds": self._poll,
            "address": address or self._address,
            "executor": self._executor,
            "max_workers": self._pool.max_workers,
            "max_tasks_per_child": self._pool.max_tasks_per_child,
            "routes": self._routes,
        }

    def handler(
        self,
        name: str,
        *,
        accepts: type | tuple[type, ...] = (),
        cpu_bound: bool = False,
        retry: Retry = Retry(),
        max_concurrent: int | None = None,
    ) -> Callable[[F], F]:
        """Let a function handle the messages to `name`.

        It is called with the payload and a `Call`, and may return nothing, a payload for the caller, `respond(...)`,
        `send(to, ...)`, or a list of these. `accepts` names the payload types it takes; anything else is refused.
        """

        require_name(name, "a handler's name")
        require_positive(max_concurrent=max_concurrent)

        def add(function: F) -> F:
            types = accepts if isinstance(accepts, tuple) else (accepts,)
            self._routes.add(Route(name, function, types, cpu_bound, retry, max_concurrent))
            return function

        return add

    async def send(
        self, thread_id: str | None, payload: Any, *, from_id: str, to_id: str, commit_id: str | None = None
    ) -> Slot:
        """Append a message and have it handled at once. Without a thread id, a new conversation begins."""
        threads = self._context.threads
        if thread_id is None:
            slot = await Mail(threads).begin(payload, from_id=from_id, to_id=to_id, commit_id=commit_id)
        else:
            slot = await threads.append(thread_id, payload, from_id=from_id, to_id=to_id, commit_id=commit_id)
        self._call()
        return slot

    async def dead_letters(
        self, *, handler: str | None = None, after: str | None = None, limit: Count = 50
    ) -> Listing[DeadLetter]:
        """Return messages nobody could handle, oldest first."""
        return await Mail(self._context.threads).dead(handler=handler, after=after, limit=limit)

    async def replay(self, letter_id: str, *, commit_id: str | None = None) -> Slot:
        """Send a dead letter again, as a new message at the end of its thread. The letter is gone, in one commit."""
        return await Mail(self._context.threads).replay(letter_id, commit_id)

    async def run(self) -> None:
        """Handle messages until `stop` is called."""
        await self._serve(self._context, until_idle=False)

    async def drain(self) -> None:
        """Handle messages until there is none left for these functions. Raise what keeps it from looking for more."""
        await self._serve(self._context, until_idle=True)

    def stop(self, *, drain: bool = True) -> None:
        """Make `run` return: after the messages being handled are done, or at once, handing them back.

        Safe to call from any thread and from a signal handler.
        """
        self._stop = "drain" if drain else "now"
        self._call()

    def _call(self) -> None:
        """Wake the loop that serves, if there is one. It may end, or be closed, while somebody calls it."""
        wake = self._wake
        if wake is not None:
            with suppress(RuntimeError):
                wake()

    async def close(self) -> None:
        """Let go of the processes that ran CPU-bound functions. The context stays its owner's."""
        await asyncio.get_running_loop().run_in_executor(None, self._pool.close)

    async def __aenter__(self) -> AsyncDispatcher:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- the loop ---------------------------------------------------------------------------------------------------

    @property
    def _context(self) -> AsyncContext:
        if self._ctx is None:
            raise InvalidInput("this dispatcher has no context yet; give it one, or bind() it")
        return self._ctx

    async def _serve(self, ctx: AsyncContext, *, until_idle: bool) -> None:
        """Handle the messages of a context, which must not stop the event loop: leases are renewed on it."""
        if not self._routes.by_name:
            raise InvalidInput("this dispatcher has no functions yet; add one with @dispatcher.handler(name)")
        threads = ctx.threads
        for cls in (DeliveryFailed, *(cls for route in self._routes.by_name.values() for cls in route.accepts)):
            if cls not in PLAIN:
                threads.register(cls)
        runner = Runner(threads, address=self._where(), pool=self._pool, max_threads=self._max_concurrent)
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(event.set)
        try:
            await _Turns(self, threads, runner, event).take(until_idle=until_idle)
        except ExecutorGone:
            self._owner = _name()  # it has vanished for what its executor had, also if it runs again with another
            raise
        finally:
            self._wake, self._stop = None, None
            runner.close()

    def _where(self) -> str | None:
        """Return the address another process can open, if there is one."""
        path = getattr(getattr(self._context.store, "blocking", None), "path", None)
        address = self._address if self._address is not None else path
        return None if address is None else os.fspath(address)


class _Turns:
    """Starts rounds for threads that have mail, and keeps count of them."""

    def __init__(self, dispatcher: AsyncDispatcher, threads: Any, runner: Runner, event: asyncio.Event) -> None:
        self._it = dispatcher
        self._threads = threads
        self._runner = runner
        self._event = event
        self._routes = dispatcher._routes.by_name
        self._turn = 0  # counts looks: each begins with the next name
        self._places: dict[str, str] = {}
        self._scope = threads.scope
        self._active: dict[str, asyncio.Task[int]] = {}
        self._later: dict[str, float] = {}
        self._suspects = asyncio.Lock()
        self._away = False

    async def take(self, *, until_idle: bool) -> None:
        try:
            while self._it._stop is None:
                self._event.clear()
                room = self._it._max_concurrent - len(self._active)
                try:
                    if room:
                        for thread_id in await self._look(room, skip=self._busy()):
                            self._start(thread_id)
                        self._turn += 1
                    idle = until_idle and not self._active and not self._later
                    if idle and not await self._look(1):
                        return
                except Unavailable as problem:
                    if until_idle and not self._active:
                        raise  # whoever waits for an end hears why there is none
                    self._wait_for(problem)
                    await self._pause(RECHECK_SECONDS)
                else:
                    self._away = False
                    await self._pause(self._it._poll)
        finally:
            await self._end(now=self._it._stop != "drain")

    async def _look(self, limit: int, skip: Collection[str] = ()) -> list[str]:
        names = list(self._routes)
        first = self._turn % len(names)
        turns = names[first:] + names[:first]
        return await flagged(self._scope, turns, skip=skip, limit=limit, places=self._places)

    def _wait_for(self, problem: Unavailable) -> None:
        """Go on although nobody can look for messages. To end would cancel what runs, which needs no store now."""
        if problem.reason in REFUSING:
            raise problem
        if not self._away:
            logger.warning("nobody can look for messages: %s; trying again", problem)
        self._away = True

    def _busy(self) -> set[str]:
        now = time.monotonic()
        self._later = {thread_id: when for thread_id, when in self._later.items() if when > now}
        return {*self._active, *self._later}

    def _start(self, thread_id: str) -> None:
        round = Round(
            self._threads,
            self._routes,
            thread_id,
            owner=self._it._owner,
            lease_seconds=self._it._lease,
            run=self._runner,
            stopping=lambda: self._it._stop is not None,
            suspects=self._suspects,
            turn=self._runner.turn,
            given=self._runner.given,
        )
        self._active[thread_id] = asyncio.create_task(round())

    async def _pause(self, seconds: float) -> None:
        """Wait until a round ends, somebody calls, or it is time to look again."""
        called = asyncio.create_task(self._event.wait())
        await asyncio.wait({called, *self._active.values()}, timeout=seconds, return_when="FIRST_COMPLETED")
        called.cancel()
        for thread_id, task in list(self._active.items()):
            if task.done():
                del self._active[thread_id]
                self._note(thread_id, task)

    def _note(self, thread_id: str, task: asyncio.Task[int]) -> None:
        problem = task.exception()
        if problem is not None:
            _bear(thread_id, problem)
            self._later[thread_id] = time.monotonic() + RECHECK_SECONDS
        elif task.result():
            wait = task.result() / 1_000_000 - self._threads.scope.clock() / 1_000_000
            # A lease may be given back before it ends, so look in on it now and then.
            self._later[thread_id] = time.monotonic() + min(max(wait, 0), RECHECK_SECONDS)

    async def _end(self, *, now: bool) -> None:
        if now:
            for task in self._active.values():
                task.cancel()
        results = await asyncio.gather(*self._active.values(), return_exceptions=True)
        for thread_id, result in zip(self._active, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                _bear(thread_id, result)


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(6)}"


def _bear(thread_id: str, problem: BaseException) -> None:
    """Go on with other threads, whatever went wrong in one. What is everybody's, or no mistake, ends the worker."""
    if isinstance(problem, Closed | ExecutorGone) or not isinstance(problem, Exception):
        raise problem
    told = None if isinstance(problem, StrongroomError) else problem
    logger.warning("thread %r could not be handled: %s; trying again", thread_id, said_by(problem), exc_info=told)


class Dispatcher:
    """Functions and the store whose messages they handle. `run` and `drain` return when they are done.

    Without a context it is a table of functions; `bind` gives it one. Functions may be `async def` too: each call of
    `run` or `drain` has an event loop of its own.

    >>> from strongroom.dispatch import Dispatcher
    >>> ctx = strongroom.open("memory://")
    >>> dispatcher = Dispatcher(ctx)
    >>> @dispatcher.handler("planner")
    ... def plan(payload, call):
    ...     print(f"{call.from_id} asks for {payload['task']}")
    >>> _ = dispatcher.send("orders", {"task": "a refund"}, from_id="support", to_id="planner")
    >>> dispatcher.drain()
    support asks for a refund
    """

    @checked
    def __init__(
        self,
        ctx: Context | None = None,
        *,
        max_concurrent: int = 20,
        lease_seconds: float = 30.0,
        poll_seconds: float = 0.05,
        address: Address | None = None,
        executor: Executor | None = None,
        max_workers: int | None = None,
        max_tasks_per_child: int | None = None,
        routes: Routes | None = None,
    ) -> None:
        self._ctx = ctx
        self._async = AsyncDispatcher(
            None if ctx is None else ctx._async,
            max_concurrent=max_concurrent,
            lease_seconds=lease_seconds,
            poll_seconds=poll_seconds,
            address=address,
            executor=executor,
            max_workers=max_workers,
            max_tasks_per_child=max_tasks_per_child,
            routes=routes,
        )

    @checked
    def handler(
        self,
        name: str,
        *,
        accepts: type | tuple[type, ...] = (),
        cpu_bound: bool = False,
        retry: Retry = Retry(),
        max_concurrent: int | None = None,
    ) -> Callable[[F], F]:
        """Let a function handle the messages to `name`: `@dispatcher.handler("router", accepts=Text)`.

        It is called with the payload and a `Call`, and may return nothing, a payload for the caller, `respond(...)`,
        `send(to, ...)`, or a list of these. `accepts` names the payload types it takes; anything else is refused.
        """
        return self._async.handler(
            name, accepts=accepts, cpu_bound=cpu_bound, retry=retry, max_concurrent=max_concurrent
        )

    @overload
    def bind(self, ctx: Context, *, address: Address | None = None) -> Dispatcher: ...
    @overload
    def bind(self, ctx: AsyncContext, *, address: Address | None = None) -> AsyncDispatcher: ...
    def bind(self, ctx: Any, *, address: Address | None = None) -> Any:
        """Return a dispatcher with the same functions and settings for a context: an async one for one that is."""
        if isinstance(ctx, AsyncContext):
            return self._async.bind(ctx, address=address)
        if not isinstance(ctx, Context):
            raise InvalidInput(f"ctx must be a Context, not {shown(ctx)}")
        return Dispatcher(ctx, **self._async._settings(address))

    def send(
        self, thread_id: str | None, payload: Any, *, from_id: str, to_id: str, commit_id: str | None = None
    ) -> Slot:
        """Append a message and have it handled at once. Without a thread id, a new conversation begins."""
        return run(self._async.send(thread_id, payload, from_id=from_id, to_id=to_id, commit_id=commit_id))

    def dead_letters(
        self, *, handler: str | None = None, after: str | None = None, limit: int = 50
    ) -> Listing[DeadLetter]:
        """Return messages nobody could handle, oldest first."""
        return run(self._async.dead_letters(handler=handler, after=after, limit=limit))

    def replay(self, letter_id: str, *, commit_id: str | None = None) -> Slot:
        """Send a dead letter again, as a new message at the end of its thread. The letter is gone, in one commit."""
        return run(self._async.replay(letter_id, commit_id=commit_id))

    def run(self) -> None:
        """Handle messages until `stop` is called."""
        self._serve(until_idle=False)

    def drain(self) -> None:
        """Handle messages until there is none left for these functions. Raise what keeps it from looking for more."""
        self._serve(until_idle=True)

    def stop(self, *, drain: bool = True) -> None:
        """Make `run` return: after the messages being handled are done, or at once, handing them back.

        Safe to call from any thread and from a signal handler.
        """
        self._async.stop(drain=drain)

    def close(self) -> None:
        """Let go of the processes that ran CPU-bound functions. The context stays its owner's."""
        self._async._pool.close()

    def __enter__(self) -> Dispatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, *, until_idle: bool) -> None:
        # Not over `ctx._async`: its calls run to their end wherever they are made, and here that is the event loop.
        served = self._async._context if self._ctx is None else self._ctx.awaitable
        _wait(self._async._serve(served, until_idle=until_idle))


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, inside a running event loop too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[T] = []
    problem: list[BaseException] = []

    def beside() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:
            problem.append(error)

    thread = OsThread(target=beside, name="strongroom-dispatch")
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return outcome[0]
