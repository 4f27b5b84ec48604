"""Group commit for event loops: who writes, who waits for the disk, and that no loop waits for either."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from strongroom.backends.sqlite import group_commit as module
from strongroom.backends.sqlite.group_commit import SHORT, GroupCommit, Ticket
from strongroom.codec import encode
from strongroom.store import Append, Commit, Delete, Entry, Key, Receipt
from tests.sqlite.test_group_commit import commit, settle, wait_for

LOG = Key("acme", "log", "a")
Told = tuple[str, list[str], bool]  # what was called, with which commits, and whether on the loop's own thread


class Stage:
    """A committer that tells what it is asked to do."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.main = threading.current_thread()
        self.free = True  # whether the write lock can be had at once
        self.during: Callable[[], object] = lambda: None  # while it writes
        self.seconds = 0.0  # that the disk takes
        self.group = GroupCommit(self)

    def submit(self, *commits: Commit) -> list[asyncio.Future[Receipt]]:
        return [self.group.submit(commit, asyncio.get_running_loop()) for commit in commits]

    async def quiet(self) -> None:
        """Wait until the thread has let go of the lead, which it does only after it has told everybody."""
        await asyncio.to_thread(wait_for, lambda: not self.group._lead.locked())

    def leave(self) -> None:
        pass

    def apply(self, batch: list[Ticket]) -> None:
        self._tell("apply", batch)
        settle(batch)

    lags = False

    def index(self) -> None:
        raise AssertionError("nothing waits for a search")

    def begin(self, batch: list[Ticket]) -> bool:
        self._tell("begin", batch)
        self.during()
        return self.free

    def finish(self, batch: list[Ticket]) -> None:
        time.sleep(self.seconds)
        self._tell("finish", batch)
        settle(batch)

    def _tell(self, verb: str, batch: list[Ticket]) -> None:
        self.told.append((verb, [ticket.work.id for ticket in batch], threading.current_thread() is self.main))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(module, "LOOK_AROUND_SECONDS", 1000)  # a lost wake-up must hang, not show as a delay
    monkeypatch.setattr(module, "SLOW_SECONDS", 30)  # a busy machine is not a slow disk
    return Stage()


async def all_of(futures: list[asyncio.Future[Receipt]]) -> list[str]:
    async with asyncio.timeout(60):
        return [receipt.id for receipt in await asyncio.gather(*futures)]


async def test_a_loop_writes_and_the_thread_waits_for_the_disk(stage: Stage) -> None:
    assert await all_of(stage.submit(commit("a"), commit("b"))) == ["a", "b"]
    assert stage.told == [("begin", ["a", "b"], True), ("finish", ["a", "b"], False)]


async def test_what_comes_while_the_thread_waits_is_the_next_batch(stage: Stage) -> None:
    late: list[asyncio.Future[Receipt]] = []

    def come() -> None:
        if not late:
            late.extend(stage.submit(commit("b"), commit("c")))

    stage.during = come
    assert await all_of(stage.submit(commit("a"))) == ["a"]
    assert await all_of(late) == ["b", "c"]
    assert [verb for verb, ids, _ in stage.told if ids == ["b", "c"]] == ["begin", "finish"]


async def test_when_somebody_else_has_the_lock_the_thread_waits_for_it(stage: Stage) -> None:
    stage.free = False
    assert await all_of(stage.submit(commit("a"))) == ["a"]
    assert stage.told[1:] == [("apply", ["a"], False)]


@pytest.mark.parametrize(
    "long",
    [
        Commit("long", (), (Append(LOG, (Entry("t", encode(0)),) * (SHORT + 1)),)),
        Commit("long", (), commit("a").writes * (SHORT + 1)),
        Commit("long", (), (Delete(LOG),)),
    ],
    ids=["many records", "many writes", "a removal"],
)
async def test_what_may_take_long_is_not_done_on_the_loop(stage: Stage, long: Commit) -> None:
    assert await all_of(stage.submit(long)) == ["long"]
    assert stage.told == [("apply", ["long"], False)]


async def test_a_thread_that_looks_around_does_not_wait_for_a_loop_that_waits_for_it(stage: Stage) -> None:
    await all_of(stage.submit(commit("a")))  # starts the thread

    def disturb() -> None:
        stage.during = lambda: None
        stage.submit(commit("c"))
        module._poke(stage.group._wanted)
        time.sleep(0.05)  # the thread finds a commit waiting and the lead taken

    stage.during = disturb
    assert await all_of(stage.submit(commit("b"))) == ["b"]


class Slow(GroupCommit):
    """A group that is interrupted at the worst moments, where a loop leaves a batch to the thread."""

    _left: list[Ticket] | None = None

    @property
    def _begun(self) -> list[Ticket] | None:
        found = self._left
        if found is None and threading.current_thread() is self._thread:
            time.sleep(0.05)  # a loop may leave one now
        return found

    @_begun.setter
    def _begun(self, batch: list[Ticket] | None) -> None:
        self._left = batch
        if batch is not None:
            module._poke(self._wanted)
            time.sleep(0.05)  # the thread may take it now


async def test_what_a_loop_leaves_to_the_thread_is_finished_once(stage: Stage) -> None:
    stage.group = Slow(stage)
    await all_of(stage.submit(commit("a")))
    stage.submit(commit("b"))
    module._poke(stage.group._wanted)  # the thread looks around just now
    assert await all_of(stage.submit(commit("c"))) == ["c"]
    assert [told for told in stage.told if told[0] != "begin"] == [
        ("finish", ["a"], False),
        ("finish", ["b", "c"], False),
    ]


async def test_a_group_that_is_stopped_finishes_what_a_loop_writes_just_now(stage: Stage) -> None:
    await all_of(stage.submit(commit("a")))
    stopping = threading.Thread(target=stage.group.stop)

    def stop() -> None:
        stopping.start()
        time.sleep(0.05)

    stage.during = stop
    assert await all_of(stage.submit(commit("b"))) == ["b"]
    await asyncio.to_thread(stopping.join)


async def test_what_came_too_late_for_the_thread_is_settled_without_it(stage: Stage) -> None:
    await all_of(stage.submit(commit("a")))
    stage.group.stop()
    assert await all_of(stage.submit(commit("b"))) == ["b"]


async def test_a_task_that_does_nothing_but_commit_lets_others_run(stage: Stage) -> None:
    ran = asyncio.Event()
    asyncio.get_running_loop().call_soon(ran.set)
    for n in range(16):
        await all_of_these(stage.submit(commit(str(n))))
    assert ran.is_set()


def test_a_loop_that_ended_before_it_wrote_keeps_no_other_from_writing(stage: Stage) -> None:
    async def leave() -> None:
        stage.submit(commit("a"))
        asyncio.get_running_loop().stop()

    first = asyncio.new_event_loop()
    first.call_soon(lambda: first.call_soon(first.stop))
    leaving = first.create_task(leave())
    first.run_forever()
    assert leaving.done()
    assert not stage.told

    async def come() -> list[str]:
        return await all_of(stage.submit(commit("b")))

    assert asyncio.run(come()) == ["b"]
    assert ("begin", ["a", "b"], True) in stage.told
    first.close()


async def all_of_these(futures: list[asyncio.Future[Receipt]]) -> None:
    """Await without a timeout, which would turn the loop round."""
    for future in futures:
        await future
