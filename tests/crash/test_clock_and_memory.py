"""A clock that jumps and memory that runs out: order and ids stay, and nothing is half done."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, committer
from strongroom.errors import CommitUnknown, Unavailable
from strongroom.store import Answer, AnyQuestion, Commit, Get, Receipt, Slice, ask
from tests.crash.broken import Careless
from tests.crash.processes import apart, forked
from tests.crash.scale import ALLOCATIONS
from tests.faults.checks import Broken, check, document, repeat, step

HOUR = 3600
DAY = 24 * HOUR
YEAR = 365 * DAY


class Clock:
    """What the store reads the time from, in seconds."""

    def __init__(self) -> None:
        self.offset = 0.0
        self.stopped_at: float | None = None

    def __call__(self) -> float:
        return (time.time() if self.stopped_at is None else self.stopped_at) + self.offset


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(committer, "SWEEP_EVERY", 8)
    return Clock()


def _in_order(store: SqliteStore, clock: Clock, jump: int) -> None:
    for number in range(1, 11):
        clock.offset = jump if number % 2 else 0
        store.commit(step(0, number))
    check(store, [10], in_flight=0)


@pytest.mark.parametrize("jump", [-3 * HOUR, -30 * YEAR, 10 * YEAR])
def test_order_is_by_index_whatever_the_clock_does(path: Path, clock: Clock, jump: int) -> None:
    with SqliteStore(path, clock=clock) as store:
        _in_order(store, clock, jump)


def test_a_thousand_commits_in_the_same_instant_keep_their_order(path: Path, clock: Clock) -> None:
    clock.stopped_at = time.time()
    with SqliteStore(path, durability="relaxed", clock=clock) as store:
        for number in range(1, 1001):
            repeat(store, 0, number)
        check(store, [1000], in_flight=0)


def test_the_check_sees_a_store_that_orders_by_the_clock(path: Path, clock: Clock) -> None:
    class ByTheClock(SqliteStore):
        times: list[float] = []

        def commit(self, commit: Commit) -> Receipt:
            self.times.append(clock())
            return super().commit(commit)

        def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
            return [self._sort(answer) for answer in super().read(questions)]

        def _sort(self, answer: Any) -> Any:
            if not isinstance(answer, Slice):
                return answer
            by_time = sorted(answer.records, key=lambda record: self.times[record.index])
            return Slice(answer.length, answer.first, tuple(by_time))

    with ByTheClock(path, clock=clock) as store, pytest.raises(Broken):
        _in_order(store, clock, -3 * HOUR)


@pytest.mark.parametrize("jump", [-3 * HOUR, 3 * HOUR, 29 * DAY])
def test_ids_are_kept_when_the_clock_jumps(path: Path, clock: Clock, jump: int) -> None:
    with SqliteStore(path, clock=clock) as store:
        repeat(store, 0, 1)
        clock.offset = jump
        for number in range(1, committer.SWEEP_EVERY * 2):  # far enough for old receipts to be swept
            repeat(store, 1, number)
        repeat(store, 0, 1)
        check(store, [1, committer.SWEEP_EVERY * 2 - 1], in_flight=0)


def test_the_check_sees_an_id_that_was_forgotten(path: Path, clock: Clock) -> None:
    # The negative control: ids are kept 30 days, so a clock that really moves on by 31 lets a repeat happen twice.
    with SqliteStore(path, clock=clock) as store:
        repeat(store, 0, 1)
        clock.offset = 31 * DAY
        for number in range(1, committer.SWEEP_EVERY * 2):
            repeat(store, 1, number)
        with pytest.raises(AssertionError):
            repeat(store, 0, 1)


# ---- memory ---------------------------------------------------------------------------------------------------------


def _python_runs_out(path: Path, last: int, make: type[SqliteStore] = SqliteStore) -> Counter[str]:
    """Let the nth allocation by Python fail, for each n, while committing; return what became of the attempts."""
    seen: Counter[str] = Counter()
    for nth in range(1, last):
        _, status = os.waitpid(forked(_commit_without_memory, path, nth, make), 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
            raise Broken(f"allocation {nth}: what was said is not true; see the error above")
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            raise Broken(f"allocation {nth}: the store hangs")
        # A library that does not expect this may crash the process. That must do no harm either.
        seen["crashed" if os.WIFSIGNALED(status) else OUTCOMES[os.WEXITSTATUS(status)]] += 1
        with SqliteStore(path) as store:
            check(store, [nth - 1, 0])
            repeat(store, 0, nth)
            check(store, [nth, 0])
    return seen


OUTCOMES = {0: "done", 2: "nothing changed", 3: "unknown", 4: "raised"}


def _commit_without_memory(path: Path, nth: int, make: type[SqliteStore]) -> None:
    testcapi = importlib.import_module("_testcapi")  # CPython's own means of testing this; not everywhere installed
    signal.alarm(60)
    store, commit = make(path), step(0, nth)
    store.commit(step(1, 1))  # a repeat after the first time: what is loaded lazily is loaded now
    told = 0
    testcapi.set_nomemory(nth, nth + 1)
    try:
        store.commit(commit)
    except Unavailable:
        told = 2
    except CommitUnknown:
        told = 3
    except MemoryError:
        told = 4
    finally:
        testcapi.remove_mem_hooks()
    found = ask(store, Get(document(0)))
    there = 0 if found is None else found.version
    if told == 0 and there != nth:
        raise Broken("said that it was done, but it is not")
    if told == 2 and there != nth - 1:
        raise Broken("said that nothing changed, but it has")
    repeat(store, 0, nth)  # the same store goes on
    os._exit(told)


def test_when_python_runs_out_of_memory_nothing_is_half_done_and_what_is_said_is_true(
    fast_folder: Path, record_property: Callable[[str, object], None]
) -> None:
    pytest.importorskip("_testcapi")
    seen = apart(_python_runs_out, fast_folder / "agent.db", ALLOCATIONS)
    for what, times in seen.items():
        record_property(what, times)
    assert seen["nothing changed"] > 0


def test_the_check_sees_a_store_that_says_done_without_memory(fast_folder: Path) -> None:
    pytest.importorskip("_testcapi")
    with pytest.raises(Broken, match="not true"):
        apart(_python_runs_out, fast_folder / "agent.db", ALLOCATIONS, Careless)


def _sqlite_runs_out(path: Path, make: type[SqliteStore] = SqliteStore) -> int:
    """Commit under a memory limit of SQLite's own that starts at nothing and grows."""
    failures = 0
    with make(path) as store:
        repeat(store, 0, 1)
        number = 1
        for room in range(0, 120_000, 1500):
            apsw.hard_heap_limit(apsw.memory_used() + room)
            told: type[BaseException] | None = None
            try:
                store.commit(step(0, number + 1))
            except (Unavailable, CommitUnknown) as error:
                told = type(error)
                failures += 1
            finally:
                apsw.hard_heap_limit(0)
            found = check(store, [number])[0]
            if told is Unavailable and found != number:
                raise Broken(f"{room} bytes: said that nothing changed, but it has")
            if told is None and found != number + 1:
                raise Broken(f"{room} bytes: said that it was done, but it is not")
            number += 1
            repeat(store, 0, number)
        check(store, [number], in_flight=0)
    return failures


def test_when_sqlite_runs_out_of_memory_nothing_is_half_done_and_the_store_goes_on(path: Path) -> None:
    assert apart(_sqlite_runs_out, path) > 0


def test_the_check_sees_a_store_that_says_done_when_sqlite_has_no_memory(path: Path) -> None:
    with pytest.raises(Broken, match="said that it was done"):
        apart(_sqlite_runs_out, path, Careless)
