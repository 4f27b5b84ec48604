"""Running one function on one message: in the event loop, in a thread, or in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from typing import Any, TypeVar

from strongroom.blocking.threads import Thread
from strongroom.dispatch.pool import Given, Pool, answers, call, elsewhere, reference
from strongroom.dispatch.routes import ExecutorGone, Failures, Outgoing, Route, outgoing, ran
from strongroom.errors import InvalidInput
from strongroom.scope import Scope
from strongroom.services.threads.plans import THREAD
from strongroom.services.threads.reading import AsyncThread
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Slot
from strongroom.store import AnyQuestion, AsyncStore, Commit, Durability, Key, Receipt

T = TypeVar("T")


class FromThread:
    """An event loop's store, for a function that runs in a thread beside the loop. It never suspends."""

    def __init__(self, store: AsyncStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store: Any = store
        self._loop = loop

    @property
    def durability(self) -> Durability:
        return self._store.durability  # type: ignore[no-any-return]

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Any]:
        return self._ask(self._store.read(questions))

    async def commit(self, commit: Commit) -> Receipt:
        receipt: Receipt = self._ask(self._store.commit(commit))
        return receipt

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        self._ask(self._store.wait(key, length, timeout_seconds))

    async def close(self) -> None:
        """Do nothing: the store belongs to the loop."""

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()


class Runner:
    """Runs functions: async ones in the loop, plain ones in a thread beside it, CPU-bound ones in the pool."""

    def __init__(self, threads: AsyncThreads, *, address: str | None, pool: Pool, max_threads: int) -> None:
        self._threads = threads
        self._address = address
        self._pool = pool
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._alone = asyncio.Lock()
        self.given = Given()
        self._beside = ThreadPoolExecutor(max_threads, thread_name_prefix="strongroom-handler")

    async def __call__(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        """Run a message's function and return its answers, or raise what it raised."""
        if route.cpu_bound:
            return await self._elsewhere(route, slot, attempt)
        if route.is_async:
            told = call(slot, name=route.name, attempt=attempt, thread=self._threads.thread(slot.thread_id))
            with Failures():
                return outgoing(await route.function(slot.payload, told))
        loop = asyncio.get_running_loop()
        told = call(slot, name=route.name, attempt=attempt, thread=self._blocking_thread(slot, loop))
        return await loop.run_in_executor(self._beside, ran, route.function, slot.payload, told)

    def turn(self, route: Route) -> asyncio.Semaphore | None:
        """Return what a message waits for before its function is run, if few may run at a time."""
        if route.max_concurrent is None:
            return None
        return self._turns.setdefault(route.name, asyncio.Semaphore(route.max_concurrent))

    async def _elsewhere(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        if self._address is None:
            raise InvalidInput(
                f"{route.name} is cpu_bound, but other processes cannot open this store; use one that they can, and "
                "say where it is with Dispatcher(ctx, address=...)"
            )
        function, accepts, name = reference(route)
        scope, options = self._threads.scope, elsewhere(self._threads.scope.store)
        key = options.pop("key", None)
        opened = (self._address, scope.space, tuple(sorted(options.items())))
        words = (*opened, function, accepts, name, slot.thread_id, slot.index, attempt)
        try:
            future = self._pool.submit(*words, key=key)
            if self._pool.is_given:
                self.given.has.add(slot.thread_id)
            try:
                return answers(await asyncio.wrap_future(future))
            except BrokenExecutor:
                # One at a time: where memory ran out, several side by side would be killed again.
                async with self._alone:
                    with self._pool.alone(*words, key=key) as future:
                        return answers(await asyncio.wrap_future(future))
        except ExecutorGone as problem:
            self.given.gone = problem
            raise

    def _blocking_thread(self, slot: Slot, loop: asyncio.AbstractEventLoop) -> Thread:
        scope = self._threads.scope
        beside = Scope(FromThread(scope.store, loop), scope.space, scope.clock, scope.tokenizer)
        return Thread(AsyncThread(beside, self._threads.types, scope.key(THREAD, slot.thread_id)))

    def close(self) -> None:
        """Let go of the threads. One that still runs ends by itself; nobody waits for its answer."""
        self._beside.shutdown(wait=False, cancel_futures=True)
