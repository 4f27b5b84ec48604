"""SQLite on an event loop: a commit is never half done behind a task's back, whatever happens to the task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from strongroom.backends.faces import AsyncFace
from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore
from strongroom.bridge import Inline, Pooled, Threaded
from strongroom.codec import encode
from strongroom.errors import Closed, CommitUnknown, Conflict, InvalidInput
from strongroom.scope import Scope
from strongroom.store import Commit, Expect, ExportItem, Get, Put, Range, Receipt, Store, ask, new_id
from tests.test_bridge import LOG, THING, record


def length(store: Store) -> int:
    return ask(store, Range(LOG, 0, 0)).length


class Gated(SqliteStore):
    """A store whose writer stops at a gate, so that a test decides when a commit lands."""

    def __init__(self, path: Path) -> None:
        self.gate = threading.Event()
        self.reached = threading.Event()
        self.sizes: list[int] = []
        super().__init__(path)
        committer: Any = self._committer
        committer.apply, committer.finish = self._gated(committer.apply), self._gated(committer.finish)
        committer.load = self._gated(committer.load)

    def _gated(self, settle: Callable[[Sequence[Any]], None]) -> Callable[[Sequence[Any]], None]:
        def gated(batch: Sequence[Any]) -> None:
            self.reached.set()
            assert self.gate.wait(20)
            self.sizes.append(len(batch))
            settle(batch)

        return gated


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    store = Gated(tmp_path / "agent.db")
    yield store
    store.gate.set()
    store.close()


async def reached(store: Gated) -> None:
    """Wait until the writer stands at the gate."""
    assert await asyncio.get_running_loop().run_in_executor(None, store.reached.wait, 60)


def open_soon(store: Gated) -> None:
    """Open the gate from the loop, after whatever is ready to run now has run."""
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: loop.call_soon(store.gate.set))


async def test_a_cancelled_commit_has_landed_when_its_task_ends(gated: Gated) -> None:
    store = Threaded(gated)
    task = asyncio.create_task(store.commit(record()))
    await reached(gated)
    task.cancel()
    open_soon(gated)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert length(gated) == 1


async def test_a_task_cancelled_again_and_again_still_waits_for_its_commit(gated: Gated) -> None:
    store = Threaded(gated)
    task = asyncio.create_task(store.commit(record()))
    await reached(gated)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    open_soon(gated)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert length(gated) == 1


def elsewhere() -> tuple[ExportItem, ...]:
    """The items of a store that holds one record."""
    other = MemoryStore()
    other.commit(record())
    return other.unload(None, 10).items


@pytest.mark.parametrize("adapter", [Threaded, Pooled])
async def test_a_cancelled_load_has_landed_when_its_task_ends(gated: Gated, adapter: Any) -> None:
    task = asyncio.create_task(adapter(gated).load(elsewhere()))
    await reached(gated)
    task.cancel()
    open_soon(gated)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert length(gated) == 1


async def test_a_cancelled_load_into_a_server_has_landed_when_its_task_ends() -> None:
    sent, arrived, landed = asyncio.Event(), asyncio.Event(), list[ExportItem]()

    class Distant:
        async def load(self, items: Sequence[ExportItem]) -> None:
            sent.set()
            await arrived.wait()
            landed.extend(items)

    face: AsyncFace[Any] = AsyncFace(Distant())
    task = asyncio.create_task(face.load(elsewhere()))
    await sent.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(arrived.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(landed) == 1


async def test_a_commit_has_landed_when_its_timeout_ends(gated: Gated) -> None:
    store = Threaded(gated)
    expired = asyncio.timeout(None)

    async def expire() -> None:
        await reached(gated)
        expired.reschedule(0)
        await asyncio.sleep(0)
        open_soon(gated)

    waiting = asyncio.create_task(expire())
    with pytest.raises(TimeoutError):
        async with expired:
            await store.commit(record())
    await waiting
    assert length(gated) == 1


async def test_wait_for_does_not_leave_a_commit_behind(gated: Gated) -> None:
    commit = asyncio.create_task(Threaded(gated).commit(record()))
    waiting = asyncio.create_task(asyncio.wait_for(commit, 0.001))
    await reached(gated)
    while not commit.cancelling():  # noqa: ASYNC110 - nothing tells when a task is asked to end
        await asyncio.sleep(0)
    assert not waiting.done()
    gated.gate.set()
    with pytest.raises(TimeoutError):
        await waiting
    assert length(gated) == 1


async def test_a_group_of_tasks_that_fails_leaves_nothing_under_way(gated: Gated) -> None:
    """A TaskGroup cancels the others when one fails; all their commits are settled when it ends."""
    store = Threaded(gated)

    async def fail() -> None:
        await reached(gated)
        open_soon(gated)
        raise KeyError("boom")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as tasks:
            for n in range(5):
                tasks.create_task(store.commit(record(n)))
            tasks.create_task(fail())
    before = length(gated)
    assert before == 5
    await store.commit(record("later"))
    assert length(gated) == before + 1


async def test_many_tasks_share_an_fsync(gated: Gated) -> None:
    """While one commit is written, those that come meanwhile become the next batch."""
    store = Threaded(gated)
    first = asyncio.create_task(store.commit(record("first")))
    await reached(gated)
    others = [asyncio.create_task(store.commit(record(n))) for n in range(200)]
    await asyncio.sleep(0)
    before = gated._committer.batches
    gated.gate.set()
    await asyncio.gather(first, *others)
    assert length(gated) == 201
    assert gated.sizes[0] + sum(gated.sizes[1:]) == 201
    assert gated._committer.batches - before <= 3


async def test_tasks_are_answered_in_the_order_they_asked(gated: Gated) -> None:
    store = Threaded(gated)
    gated.gate.set()
    receipts = await asyncio.gather(*[store.commit(record(n)) for n in range(50)])
    assert [receipt.versions[0] for receipt in receipts] == list(range(1, 51))
    bodies = [found.body and found.body.load() for found in ask(gated, Range(LOG)).records]
    assert bodies == list(range(50))


async def test_each_task_gets_its_own_error(gated: Gated) -> None:
    """A refused commit in the middle of a batch is its own task's problem and nobody else's."""
    store = Threaded(gated)

    def some(n: int) -> Commit:
        if n % 3 == 0:
            return Commit(new_id(), (Expect(THING, n + 1),), (Put(THING, encode(n)),))
        return record(n)

    tasks = [asyncio.create_task(store.commit(some(n))) for n in range(30)]
    await reached(gated)
    gated.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for n, outcome in enumerate(outcomes):
        if n % 3 == 0:
            assert isinstance(outcome, Conflict) and outcome.expected == n + 1
        else:
            assert isinstance(outcome, Receipt)
    assert length(gated) == 20


async def test_an_unexpected_error_reaches_its_task_and_the_next_commit_works(gated: Gated) -> None:
    """Not even a bug in the writer may leave a task waiting for ever."""
    gated.gate.set()
    store = Threaded(gated)
    await store.commit(record())
    committer: Any = gated._committer
    working = committer._make_durable

    def broken(writer: object) -> None:
        raise ZeroDivisionError("a bug")

    committer._make_durable = broken
    with pytest.raises(CommitUnknown):
        async with asyncio.timeout(60):
            await store.commit(record())
    committer._make_durable = working
    async with asyncio.timeout(60):
        await store.commit(record())
    assert length(gated) == 2


async def test_threads_and_tasks_share_one_order(gated: Gated) -> None:
    gated.gate.set()
    store = Threaded(gated)
    loop = asyncio.get_running_loop()
    blocking_calls = [loop.run_in_executor(None, gated.commit, record(n)) for n in range(40)]
    receipts = await asyncio.gather(*blocking_calls, *[store.commit(record(n)) for n in range(40)])
    assert sorted(receipt.versions[0] for receipt in receipts) == list(range(1, 81))


async def test_reads_do_not_wait_for_the_writer(gated: Gated) -> None:
    store = Threaded(gated)
    task = asyncio.create_task(store.commit(record()))
    await reached(gated)
    async with asyncio.timeout(60):
        assert (await Scope(store).get(Range(LOG))).length == 0
    gated.gate.set()
    await task


async def test_followers_do_not_use_up_the_readers(tmp_path: Path) -> None:
    store = Threaded(SqliteStore(tmp_path / "agent.db"))
    waiting = [asyncio.create_task(store.wait(LOG, 0, 600)) for _ in range(50)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert (await store.read([Get(THING)])) == [None]
        await store.commit(record())
        await asyncio.gather(*waiting)
    await store.close()


async def test_closing_settles_what_was_queued(gated: Gated) -> None:
    store = Threaded(gated)
    tasks = [asyncio.create_task(store.commit(record(n))) for n in range(5)]
    await reached(gated)
    closing = asyncio.create_task(store.close())
    open_soon(gated)
    await closing
    assert [(await task).versions[0] for task in tasks] == [1, 2, 3, 4, 5]


async def test_a_closed_store_refuses_both_verbs(tmp_path: Path) -> None:
    store = Threaded(SqliteStore(tmp_path / "agent.db"))
    await store.close()
    with pytest.raises(Closed):
        await store.commit(record())
    with pytest.raises(Closed):
        await store.read([Get(THING)])


def test_a_loop_that_ended_does_not_disturb_the_store(gated: Gated) -> None:
    """A commit whose loop is gone still lands, and the writer goes on for others."""
    loop = asyncio.new_event_loop()

    async def submit() -> None:
        gated.submit(record("orphan"), asyncio.get_running_loop())

    loop.run_until_complete(submit())
    assert gated.reached.wait(60)
    loop.close()
    gated.gate.set()
    assert gated.commit(record("later")).versions == (2,)

    async def another_loop() -> Receipt:
        return await Threaded(gated).commit(record("another loop"))

    assert asyncio.run(another_loop()).versions == (3,)


def test_one_store_serves_two_loops(gated: Gated) -> None:
    gated.gate.set()
    store = Threaded(gated)

    async def write() -> Sequence[Receipt]:
        return await asyncio.gather(*[store.commit(record(n)) for n in range(20)])

    threads = [threading.Thread(target=lambda: asyncio.run(write())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert length(gated) == 40


@pytest.mark.parametrize("mode", ["inline", "threaded"])
async def test_a_commit_too_large_is_refused_before_it_is_queued(mode: str, tmp_path: Path) -> None:
    store: Any = (
        Inline(MemoryStore(max_record_bytes=10))
        if mode == "inline"
        else Threaded(SqliteStore(tmp_path / "agent.db", max_record_bytes=10))
    )
    with pytest.raises(InvalidInput, match="limit of 10"):
        await store.commit(record("x" * 20))
    await store.close()
