"""Group commit: who leads, who is told when, and that nobody is left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue

import pytest

from strongroom.backends.sqlite import group_commit as module
from strongroom.backends.sqlite.group_commit import GroupCommit, Ticket
from strongroom.codec import encode
from strongroom.store import Commit, Key, Put, Receipt

PATIENCE = 60


class Stage:
    """A group whose batches are settled when the test says so."""

    def __init__(self) -> None:
        self.begun: Queue[list[str]] = Queue()
        self.go: Queue[None] = Queue()
        self.group = GroupCommit(self)
        self.pool = ThreadPoolExecutor(8)

    def commit(self, id: str) -> Future[Receipt]:
        """Commit in a thread of its own; return once it is queued."""
        before = len(self.group._waiting)
        leads = not self.group._lead.locked()
        future = self.pool.submit(self.group.commit, commit(id))
        wait_for(lambda: len(self.group._waiting) > before or (leads and self.group._lead.locked()))
        return future

    def next_batch(self) -> list[str]:
        """Return what is being written now, at the moment it waits for the disk."""
        return self.begun.get(timeout=PATIENCE)

    def leave(self) -> None:
        pass

    def apply(self, batch: list[Ticket]) -> None:
        self.group.tell()
        self.begun.put([ticket.work.id for ticket in batch])
        self.go.get(timeout=PATIENCE)
        settle(batch)

    lags = False

    def index(self) -> None:
        raise AssertionError("nothing waits for a search")

    def begin(self, batch: list[Ticket]) -> bool:
        raise AssertionError("no loop is here")

    finish = apply


def settle(batch: list[Ticket]) -> None:
    for ticket in batch:
        ticket.answer, ticket.done = Receipt(ticket.work.id, (1,)), True


def commit(id: str) -> Commit:
    return Commit(id, (), (Put(Key("acme", "thing", id), encode(None)),))


def wait_for(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE * 1000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("waited in vain")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(module, "LOOK_AROUND_SECONDS", 1000)  # a lost wake-up must hang, not show as a delay
    return Stage()


def test_those_who_wait_become_the_next_batch(stage: Stage) -> None:
    futures = [stage.commit(id) for id in "abc"]
    assert stage.next_batch() == ["a"]
    stage.go.put(None)
    assert stage.next_batch() == ["b", "c"]
    stage.go.put(None)
    assert [future.result(PATIENCE).id for future in futures] == ["a", "b", "c"]


def test_the_settled_are_told_while_the_next_batch_waits_for_the_disk(stage: Stage) -> None:
    futures = [stage.commit(id) for id in "abc"]
    stage.next_batch()
    stage.go.put(None)
    stage.next_batch()
    last = stage.commit("d")
    stage.go.put(None)
    assert stage.next_batch() == ["d"]
    assert [future.result(PATIENCE).id for future in futures] == ["a", "b", "c"]
    assert not last.done()
    stage.go.put(None)
    assert last.result(PATIENCE).id == "d"


def test_an_interrupted_thread_leaves_nobody_behind(stage: Stage, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests may have it ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    first = stage.commit("a")
    stage.next_batch()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> Future[Receipt]:
        wait_for(lambda: len(stage.group._waiting) == 1)
        behind = stage.commit("c")
        signal.pthread_kill(main, signal.SIGINT)
        return behind

    interrupting = stage.pool.submit(interrupt)
    with pytest.raises(KeyboardInterrupt):
        stage.group.commit(commit("b"))
    stage.go.put(None)
    assert stage.next_batch() == ["b", "c"]
    stage.go.put(None)
    assert first.result(PATIENCE).id == "a"
    assert interrupting.result(PATIENCE).result(PATIENCE).id == "c"
