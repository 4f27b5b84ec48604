"""Pools that break: what broke one is found out, nobody else pays, and what a function raised is told as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.dispatch import Dispatcher, Retry, pool
from strongroom.dispatch.delivery import TOGETHER
from strongroom.services.threads.deliveries import DELIVERY, Delivery, read_delivery, suspicious
from strongroom.store import Get
from tests.dispatch import program

THREAD = 6  # where the thread's id stands in what an executor is given


class Processes(Executor):
    """A pool whose messages end when a test says so: each has a future, by its thread. What is alone ends at once."""

    made: list[Processes]
    submitted: Callable[[Processes], object]

    def __init__(self, max_workers: int | None = None, **_: Any) -> None:
        self.alone = max_workers == 1
        self.broken = self.shut = False
        self.futures: dict[str, Future[Any]] = {}
        self._work: dict[str, Callable[[], Any]] = {}
        self.made.append(self)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.broken:
            raise BrokenExecutor("broken before")
        name, future = args[THREAD], Future[Any]()
        self.futures[name], self._work[name] = future, lambda: fn(*args, **kwargs)
        if self.alone and name == "poison":
            self.broken = True
            self.tell(name)
        elif self.alone:
            self.end(name)
        type(self).submitted(self)
        return future

    def end(self, name: str) -> None:
        """Let a message be computed."""
        if not self.futures[name].done():
            self.futures[name].set_result(self._work[name]())

    def tell(self, *names: str) -> None:
        """Let these messages hear that the pool is broken."""
        self.broken = True
        for name in names:
            self.futures[name].set_exception(BrokenExecutor("a process died"))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.shut = True
        for future in self.futures.values():
            future.cancel()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> type[Processes]:
    class Ours(Processes):
        made: list[Processes] = []

    monkeypatch.setattr(pool, "ProcessPoolExecutor", Ours)
    return Ours


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[Any]:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        yield ctx


def served(ctx: Any, attempts: int = 1, takeovers: int = 20, few: int | None = None, **options: Any) -> Dispatcher:
    dispatcher = Dispatcher(ctx, poll_seconds=0.001, **options)
    retry = Retry(attempts=attempts, first_seconds=0.001, takeovers=takeovers)
    dispatcher.handler("spin", cpu_bound=True, retry=retry, max_concurrent=few)(program.spinning)
    return dispatcher


def send(ctx: Any, *names: str) -> None:
    for name in names:
        ctx.threads.append(name, 10, from_id="user", to_id="spin")


def dead(dispatcher: Dispatcher) -> list[tuple[str, int]]:
    return [(letter.thread_id, letter.attempts) for letter in dispatcher.dead_letters()]


def answered(ctx: Any, *names: str) -> list[int]:
    return [len(ctx.threads.get(name).sent_by("spin")) for name in names]


def test_only_what_breaks_a_pool_of_its_own_has_failed(ctx: Any, processes: type[Processes]) -> None:
    def submitted(made: Processes) -> None:
        there = {"poison", "one", "two"} if made is processes.made[0] else {"poison"}
        if not made.alone and made.futures.keys() >= there:
            made.tell(*made.futures)

    processes.submitted = staticmethod(submitted)
    send(ctx, "one", "poison", "two")
    dispatcher = served(ctx, attempts=2)
    dispatcher.drain()
    assert (dead(dispatcher), answered(ctx, "one", "two")) == ([("poison", 2)], [1, 1])


def test_those_who_hear_late_of_a_broken_pool_leave_the_next_one_alone(ctx: Any, processes: type[Processes]) -> None:
    def submitted(made: Processes) -> None:
        first, *later = [each for each in processes.made if not each.alone]
        if made is first and len(made.futures) == 2:
            made.tell("poison")
        elif "late" in made.futures:
            first.tell("one")
        elif made.alone and "one" in made.futures:
            later[0].end("late")

    processes.submitted = staticmethod(submitted)
    send(ctx, "poison", "one", "late")
    dispatcher = served(ctx, max_concurrent=2)
    dispatcher.drain()
    assert (dead(dispatcher), answered(ctx, "one", "late")) == ([("poison", 1)], [1, 1])


class Mended(Executor):
    """Somebody else's executor that breaks under some messages and goes on."""

    def __init__(self, *breaks: bool) -> None:
        self._breaks = iter(breaks)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        if next(self._breaks, False):
            future.set_exception(BrokenExecutor("a machine is gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_a_message_whose_executor_broke_is_given_to_it_once_more(ctx: Any) -> None:
    send(ctx, "one")
    dispatcher = served(ctx, executor=Mended(True))
    dispatcher.drain()
    assert (dead(dispatcher), answered(ctx, "one")) == ([], [1])


def test_a_message_under_which_an_executor_breaks_twice_has_failed(ctx: Any) -> None:
    send(ctx, "one")
    dispatcher = served(ctx, executor=Mended(True, True))
    dispatcher.drain()
    assert dead(dispatcher) == [("one", 1)]


class Gone(Executor):
    """Somebody else's executor that is broken for good."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise BrokenExecutor("all processes are gone")


def test_an_executor_that_is_broken_for_good_is_told_to_its_owner(ctx: Any) -> None:
    send(ctx, "one")
    with pytest.raises(BrokenExecutor, match="all processes are gone"):
        served(ctx, executor=Gone()).drain()


def test_an_executor_that_is_broken_for_good_is_no_message_s_failure(ctx: Any) -> None:
    send(ctx, "one")
    with pytest.raises(BrokenExecutor):
        served(ctx, executor=Gone()).drain()
    state = delivery(ctx, "one")
    assert (state.owner, state.put_off, dead(served(ctx))) == (None, {}, [])


class Dying(Executor):
    """Somebody else's executor: at one message, as soon as it has so many, it breaks for good, with all it has."""

    def __init__(self, together: int = 1) -> None:
        self._together = together
        self._broken = False
        self._work: dict[str, tuple[Future[Any], Callable[[], Any]]] = {}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._broken:
            raise BrokenExecutor("broken before")
        future = Future[Any]()
        self._work[args[THREAD]] = future, lambda: fn(*args, **kwargs)
        if len(self._work) >= self._together:
            self._broken = any(name.startswith("poison") for name in self._work)
            for waiting, work in self._work.values():
                if self._broken:
                    waiting.set_exception(BrokenExecutor("a process died"))
                else:
                    waiting.set_result(work())
            self._work.clear()
        return future


def drained(dispatcher: Dispatcher) -> bool:
    """Let a dispatcher handle what there is. Return whether its executor lived to see the end."""
    try:
        dispatcher.drain()
    except BrokenExecutor:
        return False
    return True


def restarted(ctx: Any, together: list[int], **options: Any) -> list[bool]:
    """Start a dispatcher with an executor of its own again and again. Return of each whether that lived to the end."""
    return [drained(served(ctx, executor=Dying(number), **options)) for number in together]


def delivery(ctx: Any, name: str) -> Delivery:
    return read_delivery(ctx.store.read([Get(ctx._async.scope.key(DELIVERY, name))])[0])


def test_a_message_that_breaks_each_executor_for_good_is_given_up_after_as_many_as_takeovers_says(ctx: Any) -> None:
    send(ctx, "poison")
    assert restarted(ctx, [1] * 4, takeovers=2) == [False] * 3 + [True]
    assert dead(served(ctx)) == [("poison", 2)]


def test_a_dispatcher_that_runs_again_with_another_executor_counts_on(ctx: Any) -> None:
    class Renewed(Executor):
        now = Dying()

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            return self.now.submit(fn, *args, **kwargs)

    send(ctx, "poison")
    executor = Renewed()
    dispatcher = served(ctx, executor=executor, takeovers=2)
    for _ in range(3):
        assert not drained(dispatcher)
        executor.now = Dying()
    assert (drained(dispatcher), dead(dispatcher)) == (True, [("poison", 2)])


def test_what_an_executor_takes_along_is_not_given_up(ctx: Any) -> None:
    send(ctx, "poison", "one")
    together = [2] * (1 + TOGETHER) + [1] * 3  # from then on each runs alone
    assert restarted(ctx, together, takeovers=TOGETHER + 2)[-1]
    assert (dead(served(ctx)), answered(ctx, "one")) == ([("poison", TOGETHER + 2)], [1])


def test_what_never_reached_an_executor_that_broke_is_held_against_nobody(ctx: Any) -> None:
    send(ctx, "poison", "one")
    assert restarted(ctx, [1], few=1) == [False]
    state = delivery(ctx, "one")
    assert (state.owner, suspicious(state)) == (None, False)


def test_what_never_reached_an_executor_keeps_what_was_held_against_it(ctx: Any) -> None:
    names = ["poison", "poison too", "poison as well"]
    send(ctx, *names)
    restarts = [1] * (len(names) * (1 + 2) + 1)  # each time one of them is a step nearer to its end
    assert restarted(ctx, restarts, few=1, takeovers=2)[-1]
    assert sorted(dead(served(ctx))) == sorted((name, 2) for name in names)


CLUMSY = [
    ("raise", "Two: no luck"),
    ("answer", "InvalidInput: to_id must be text, not Two('no luck'); nothing changed"),
]


@pytest.mark.parametrize(("way", "error"), CLUMSY, ids=[way for way, _ in CLUMSY])
def test_what_cannot_be_carried_to_another_process_is_told_and_breaks_nothing(ctx: Any, way: str, error: str) -> None:
    with Dispatcher(ctx, max_workers=1, poll_seconds=0.01) as dispatcher:
        dispatcher.handler("clumsy", cpu_bound=True, retry=Retry(attempts=1))(program.clumsy)
        ctx.threads.append("t", way, from_id="user", to_id="clumsy")
        dispatcher.drain()
        [letter] = dispatcher.dead_letters()
    assert letter.error == error
