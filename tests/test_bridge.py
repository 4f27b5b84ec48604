"""One source for both: blocking calls that need no loop, and a store in memory that does not stop one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline, OnLoop, blocking, iterate, run
from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput
from strongroom.scope import Scope
from strongroom.store import Append, Commit, Entry, Expect, Get, Key, Put, new_id

LOG = Key("s", "log", "l")
THING = Key("s", "thing", "t")


def record(body: object = 1, key: Key = LOG) -> Commit:
    return Commit(new_id(), writes=(Append(key, (Entry("n", encode(body)),)),))


# ---- blocking calls -------------------------------------------------------------------------------------------------


class AsyncCounter:
    """A service: it awaits nothing but its store."""

    def __init__(self, store: Inline) -> None:
        self._store = store

    async def add(self, amount: int, *, times: int = 1) -> int:
        """Add, and return the sum."""
        for _ in range(times):
            found = await Scope(self._store).get(Get(THING))
            total = (found.value.load() if found else 0) + amount
            await self._store.commit(Commit(new_id(), writes=(Put(THING, encode(total)),)))
        return total

    async def fail(self) -> None:
        await self._store.commit(Commit(new_id(), (Expect(THING, 99),)))

    async def call(self, function: Callable[[], Awaitable[Any]]) -> Any:
        return await function()

    async def handle(self) -> AsyncCounter:
        return self

    async def steps(self, count: int) -> AsyncIterator[int]:
        for n in range(count):
            await self._store.read([])
            yield n


class Counter:
    def __init__(self, counter: AsyncCounter) -> None:
        self._async = counter

    add = blocking(AsyncCounter.add)
    fail = blocking(AsyncCounter.fail)
    call = blocking(AsyncCounter.call)

    def steps(self, count: int) -> Iterator[int]:
        return iterate(self._async.steps(count))


Counter.handle = blocking(AsyncCounter.handle, wrap=Counter)  # type: ignore[attr-defined]


@pytest.fixture
def counter() -> Counter:
    return Counter(AsyncCounter(Inline(MemoryStore())))


def test_a_blocking_call_returns_the_result(counter: Counter) -> None:
    assert counter.add(2, times=3) == 6


def test_a_blocking_call_keeps_name_signature_and_documentation() -> None:
    assert Counter.add.__name__ == "add"
    assert Counter.add.__doc__ == "Add, and return the sum."
    assert list(inspect.signature(Counter.add).parameters) == ["self", "amount", "times"]


def test_a_blocking_call_raises_what_the_service_raised(counter: Counter) -> None:
    with pytest.raises(Conflict):
        counter.fail()


def test_a_blocking_call_works_inside_a_running_loop(counter: Counter) -> None:
    async def main() -> int:
        return counter.add(1) + counter.add(1)

    assert asyncio.run(main()) == 3


def test_a_blocking_call_needs_no_loop(counter: Counter) -> None:
    counter.add(1)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_a_handle_comes_back_blocking(counter: Counter) -> None:
    handle = counter.handle()  # type: ignore[attr-defined]
    assert type(handle) is Counter
    assert handle.add(5) == 5


def test_awaiting_something_that_suspends_is_a_clear_error(counter: Counter) -> None:
    with pytest.raises(RuntimeError, match="plain functions"):
        counter.call(lambda: asyncio.sleep(0))


def test_a_coroutine_that_suspends_is_closed(counter: Counter) -> None:
    cleaned = []

    async def suspends() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            cleaned.append(True)

    with pytest.raises(RuntimeError, match="suspends"):
        run(suspends())
    assert cleaned


def test_a_coroutine_that_returns_at_once_is_run() -> None:
    async def quick() -> str:
        return "done"

    assert run(quick()) == "done"


def test_iterating_yields_what_the_async_iterator_yields(counter: Counter) -> None:
    assert list(counter.steps(4)) == [0, 1, 2, 3]


def test_iterating_may_stop_early(counter: Counter) -> None:
    steps = counter.steps(4)
    assert next(steps) == 0
    steps.close()  # type: ignore[attr-defined]


def test_iterating_raises_what_the_service_raised() -> None:
    async def broken() -> AsyncIterator[int]:
        yield 1
        raise InvalidInput("no more")

    seen = []
    with pytest.raises(InvalidInput, match="no more"):
        for item in iterate(broken()):
            seen.append(item)
    assert seen == [1]


def test_iterating_over_something_that_suspends_is_a_clear_error() -> None:
    async def slow() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        yield 1

    with pytest.raises(RuntimeError, match="suspends"):
        list(iterate(slow()))


def test_a_blocking_caller_never_reads_of_async_names(counter: Counter) -> None:
    handle: Any = Counter.handle  # type: ignore[attr-defined]
    assert str(inspect.signature(handle)) == "(self) -> 'Counter'"
    assert handle.__qualname__ == "Counter.handle"
    untyped: Any = counter
    lacking = r"^Counter\.add\(\): missing a required argument: 'amount'; it takes amount, times=$"
    with pytest.raises(TypeError, match=lacking):
        untyped.add()
    with pytest.raises(
        TypeError, match=r"unexpected keyword argument 'tims'; did you mean times\?; it takes amount, times=$"
    ):
        untyped.add(1, tims=2)


def test_a_word_that_is_not_taken_is_named_before_one_that_is_missing() -> None:
    with strongroom.open("memory://") as ctx, pytest.raises(TypeError) as refused:
        ctx.erase(user="ana")  # type: ignore[call-arg]
    assert "erase(): got an unexpected keyword argument 'user'; did you mean user_id?" in str(refused.value)


def test_of_many_names_the_nearest_are_told_and_where_the_rest_is() -> None:
    with strongroom.open("memory://") as ctx, pytest.raises(TypeError) as refused:
        ctx.memories.add("likes tea", user="ana")  # type: ignore[call-arg]
    told = "did you mean user_id?; it takes content, user_id=, project_id=, "
    assert told in str(refused.value) and "and 12 more, which `help` of it lists" in str(refused.value)


def test_a_type_error_of_a_callback_stays_what_it_is(counter: Counter) -> None:
    async def broken() -> None:
        raise TypeError("of mine")

    with pytest.raises(TypeError, match=r"^of mine$"):
        counter.call(lambda: broken())


# ---- a store in memory, on a loop -----------------------------------------------------------------------------------


def test_waiting_in_memory_does_not_stop_the_loop() -> None:
    """The task that appends runs on the loop that waits."""

    async def main() -> int:
        store = OnLoop(MemoryStore())
        waiting = asyncio.create_task(store.wait(LOG, 0, 600))
        await asyncio.sleep(0)
        await store.commit(record())
        async with asyncio.timeout(60):
            await waiting
        await store.close()
        return 1

    assert asyncio.run(main()) == 1


def test_closing_ends_the_waiting() -> None:
    async def main() -> None:
        store = OnLoop(MemoryStore())
        waiting = [asyncio.create_task(store.wait(LOG, 0, 600)) for _ in range(3)]
        await asyncio.sleep(0)
        await store.close()
        async with asyncio.timeout(60):
            await asyncio.gather(*waiting)

    asyncio.run(main())
