"""Many at once: readers that stay, writers on one stream, processes on one file, everybody opening a fresh one."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import Turn
from strongroom.backends.sqlite import SqliteStore, schema
from strongroom.backends.sqlite.log import Log
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.store import Commit, Document, Expect, Get, Put, Range, ask
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import ROUNDS
from tests.faults.checks import SHARED, Broken, check, check_file, document, repeat, step


def _together(count: int, work: Callable[[int], None]) -> int:
    """Fork processes that start at the same moment; return how many failed."""
    gate, opener = os.pipe()

    def child(number: int) -> None:
        os.close(opener)
        os.read(gate, 1)
        work(number)

    children = [forked(child, number) for number in range(count)]
    os.close(gate)
    os.close(opener)
    return sum([not ended_well(pid) for pid in children])


# ---- readers --------------------------------------------------------------------------------------------------------


def _log_bytes(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


def test_a_reader_that_stays_does_not_stop_writers(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        stays = apsw.Connection(str(path))
        stays.execute("BEGIN; SELECT count(*) FROM head").fetchall()
        for number in range(2, 300):
            repeat(store, 0, number)
        check(store, [299], in_flight=0)
        stays.close()


@contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run something in a thread of its own for the time of a block; it is told when to stop."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_reading_all_the_time_keeps_the_log_bounded(path: Path) -> None:
    with SqliteStore(path, durability="relaxed") as store:
        store.commit(step(0, 1))

        def read(stop: threading.Event) -> None:
            while not stop.is_set():
                store.read([Range(SHARED, 0, 50)])

        with _beside(read):
            _overwrite(store, 6000)
        assert _log_bytes(path) < 20 * 1024 * 1024


@pytest.mark.parametrize("starts_over", [True, False])
def test_readers_who_take_turns_do_not_keep_the_log_from_starting_over(
    path: Path, starts_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is always somebody who reads, and nobody reads for long. Without our doing, that is enough to keep it."""
    if not starts_over:
        monkeypatch.setattr(Log, "_start_over", lambda *_: None)

    def take_turns(stop: threading.Event) -> None:
        readers = [apsw.Connection(str(path)) for _ in range(2)]
        readers[0].execute("BEGIN; SELECT count(*) FROM head").fetchall()
        while not stop.is_set():
            readers.reverse()
            readers[0].execute("BEGIN; SELECT count(*) FROM head").fetchall()
            readers[1].execute("ROLLBACK")
            stop.wait(0.001)
        for reader in readers:
            reader.close()

    with SqliteStore(path, durability="relaxed") as store:
        store.commit(step(0, 1))
        with _beside(take_turns):
            _overwrite(store, 6000)
        assert (_log_bytes(path) < 20 * 1024 * 1024) == starts_over


def test_the_log_is_not_bounded_while_a_snapshot_is_held_open(path: Path) -> None:
    # The negative control: this is what a read that did not materialise its answer would do.
    with SqliteStore(path, durability="relaxed") as store:
        store.commit(step(0, 1))
        held = apsw.Connection(str(path))
        held.execute("BEGIN; SELECT count(*) FROM head").fetchall()
        _overwrite(store, 6000)
        while_held = _log_bytes(path)
        held.close()
    with SqliteStore(path, durability="relaxed") as store:
        _overwrite(store, 6000, "again")
        assert _log_bytes(path) < while_held / 2


def _overwrite(store: SqliteStore, times: int, name: str = "once") -> None:
    for number in range(times):
        store.commit(Commit(f"{name}-{number}", (), (Put(document(0), encode("x" * 3000)),)))


# ---- writers --------------------------------------------------------------------------------------------------------


def test_sixteen_threads_appending_to_one_stream_all_succeed_without_a_gap(path: Path) -> None:
    with SqliteStore(path) as store:

        def write(writer: int) -> None:
            for number in range(1, 21):
                repeat(store, writer, number)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(store, [20] * 16, in_flight=0)


def _processes(path: Path, count: int, commits: int) -> tuple[int, float]:
    """Let processes commit to one file; return how many failed and the longest that one commit took."""
    reader, writer = os.pipe()

    def work(number: int) -> None:
        longest = 0.0
        with SqliteStore(path) as store:
            for commit in range(1, commits + 1):
                began = time.monotonic()
                repeat(store, number, commit)
                longest = max(longest, time.monotonic() - began)
        os.write(writer, f"{longest} ".encode())

    failed = _together(count, work)
    os.close(writer)
    waits = [float(text) for text in os.read(reader, 65536).split()]
    os.close(reader)
    with SqliteStore(path) as store:
        check(store, [commits] * count, in_flight=0)
    check_file(path)
    return failed, max(waits, default=0.0)


def test_eight_processes_on_one_file_all_succeed_without_a_gap(
    path: Path, record_property: Callable[[str, object], None]
) -> None:
    failed, longest = apart(_processes, path, 8, 300)
    record_property("longest_wait_seconds", longest)
    assert failed == 0


def test_sixteen_processes_appending_to_one_stream_all_succeed_without_a_gap(path: Path) -> None:
    assert apart(_processes, path, 16, 20)[0] == 0


def _count(path: Path, processes: int, times: int, careful: bool) -> int:
    """Let processes add to one number, each by reading it and writing it back; return where it ends.

    Nobody writes before all have read, once: however few of them a busy machine lets run at a time, they race.
    """
    counter = document(0)
    all_have_read = multiprocessing.get_context("fork").Barrier(processes)

    def work(number: int) -> None:
        with SqliteStore(path) as store:
            first = ask(store, Get(counter))
            all_have_read.wait(300)
            added = _write(store, f"count-{number}-0", first)
            for time in range(added, times):
                while not _write(store, f"count-{number}-{time}", ask(store, Get(counter))):
                    pass

    def _write(store: SqliteStore, id: str, found: Document | None) -> bool:
        version, value = (0, 0) if found is None else (found.version, found.value.load())
        expects = (Expect(counter, version),) if careful else ()
        try:
            store.commit(Commit(id, expects, (Put(counter, encode(value + 1)),)))
        except Conflict:
            return False
        return True

    if _together(processes, work):
        raise Broken("a process failed")
    with SqliteStore(path) as store:
        found = ask(store, Get(counter))
        assert found is not None
        return int(found.value.load())


def test_a_stale_writer_among_processes_is_refused_so_no_update_is_lost(path: Path) -> None:
    assert apart(_count, path, 4, 50, True) == 200


def test_the_check_sees_updates_lost_by_writers_that_expect_nothing(path: Path) -> None:
    assert apart(_count, path, 4, 50, False) < 200


# ---- opening --------------------------------------------------------------------------------------------------------


def _open_at_once(folder: Path, count: int, rounds: int) -> int:
    """Let processes open one fresh file at the same moment and commit to it; return how many failed."""
    failed = 0
    for number in range(rounds):
        path = folder / f"fresh {number}.db"

        def work(writer: int, path: Path = path) -> None:
            with SqliteStore(path, timeout_seconds=120) as store:
                store.commit(step(writer, 1))

        failed += _together(count, work)
        with SqliteStore(path) as store:
            check(store, [1] * count, in_flight=0)
    return failed


def test_a_hundred_processes_opening_a_fresh_file_at_once_all_succeed(tmp_path: Path) -> None:
    assert apart(_open_at_once, tmp_path, 100, ROUNDS) == 0


@pytest.fixture
def looked_at(path: Path) -> Iterator[apsw.Connection]:
    """A fresh file that somebody else is looking at, as all who open it at once do."""
    looking = apsw.Connection(str(path))
    looking.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
    yield looking
    looking.close()


def test_a_fresh_file_that_is_being_looked_at_is_created_once_that_ends(path: Path, looked_at: apsw.Connection) -> None:
    con = apsw.Connection(str(path))
    creating = threading.Thread(target=schema.bring_up_to_date, args=(con, time.monotonic() + 60))
    creating.start()
    looked_at.close()
    creating.join()
    assert schema.is_current(con)
    con.close()


def test_without_waiting_a_fresh_file_that_is_being_looked_at_cannot_be_created(
    path: Path, looked_at: apsw.Connection
) -> None:
    # The negative control: the deadline has passed, so there is no second try.
    con = apsw.Connection(str(path))
    with pytest.raises(apsw.BusyError):
        schema.bring_up_to_date(con, time.monotonic() - 1)
    con.close()


def _count_in_state(path: Path, processes: int, times: int) -> tuple[int, int]:
    """Let processes add to a number in a run's own state; return where it ends, and how many messages tell of it."""
    with strongroom.open(path) as ctx:
        ctx.runs.create(objective="o", run_id="r", state={"n": 0})
        ctx.sessions.open("s")

    def work(number: int) -> None:
        with strongroom.open(path) as ctx:
            run, session = ctx.runs.get("r"), ctx.sessions.get("s")

            def decide(turn: Turn) -> None:
                turn.update(run, state={"n": run.refresh().state["n"] + 1})  # type: ignore[index]
                turn.append(session, {"role": "user", "content": f"{number}"})

            for time in range(times):
                if time % 2:
                    ctx.turn_with(decide)
                else:
                    run.update_with(lambda ws: {"state": {"n": ws.state["n"] + 1}})  # type: ignore[index, arg-type, return-value]

    if _together(processes, work):
        raise Broken("a process failed")
    with strongroom.open(path) as ctx:
        run = ctx.runs.get("r")
        assert run.verify().ok and run.seq == processes * times
        return run.state["n"], len(ctx.sessions.get("s"))


def test_two_processes_that_decide_from_the_state_keep_every_update(path: Path) -> None:
    assert apart(_count_in_state, path, 2, 100) == (200, 100)
