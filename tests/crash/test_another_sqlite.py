"""Python's own `sqlite3` opens and closes the file in a process that has it open here, while threads read and write:
where locks can belong to an open file it neither cuts the index, nor removes the log, nor lets two processes write."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import ReadOnlyStore, SqliteStore, files, presence
from strongroom.errors import Unavailable
from strongroom.store import Commit, Erase, Range, Slice
from tests.crash.processes import apart, ended_well, forked
from tests.faults.checks import Checkpointing, check, check_file, glance, step, stream

KEYS = [None, b"k" * 32]
LOOKS = 150

pytestmark = pytest.mark.skipif(not files.OPEN_FILE_LOCKS, reason="no locks that belong to an open file")


def _look(path: Path) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute("SELECT count(*) FROM head").fetchall()


def _times_open(path: Path) -> int:
    """Return how often this process has the file open."""
    return presence._open_files().count((path.stat().st_dev, path.stat().st_ino))


def _beside(path: Path, opened: Sequence[SqliteStore]) -> None:
    """Let each store write and read, in threads, until the file was looked at often enough."""
    looked = threading.Event()
    acknowledged = [0] * len(opened)
    failures: list[BaseException] = []

    def noting(work: Callable[[int], None]) -> Callable[[int], None]:
        def done(writer: int) -> None:
            try:
                while not looked.is_set():
                    work(writer)
            except BaseException as failure:
                failures.append(failure)

        return done

    def write(writer: int) -> None:
        opened[writer].commit(step(writer, acknowledged[writer] + 1))
        acknowledged[writer] += 1

    def read(writer: int) -> None:
        glance(opened[writer], len(opened))

    works = [(noting(work), writer) for writer in range(len(opened)) for work in (write, read, read)]
    threads = [threading.Thread(target=work, args=(writer,)) for work, writer in works]
    for thread in threads:
        thread.start()
    for _ in range(LOOKS):
        _look(path)
    looked.set()
    for thread in threads:
        thread.join()
    assert failures == []
    for store in opened:
        check(store, acknowledged, in_flight=0)
        assert store.check().ok


def _with_stores(path: Path, number: int) -> None:
    opened = [Checkpointing(path) for _ in range(number)]
    log = Path(f"{path}-wal").stat().st_ino
    try:
        _beside(path, opened)
        assert Path(f"{path}-wal").stat().st_ino == log
    finally:
        for store in opened:
            store.close()
    assert not Path(f"{path}-wal").exists()
    check_file(path)


@pytest.mark.parametrize("number", [1, 2])
def test_threads_read_and_write_on_and_the_log_stays(path: Path, number: int) -> None:
    apart(_with_stores, path, number)


def _while_another_process_writes(path: Path) -> None:
    Checkpointing(path).close()
    told, tell = os.pipe()

    def write() -> None:
        os.close(tell)
        with Checkpointing(path) as store:
            number = 0
            os.set_blocking(told, False)
            while _is_silent(told):
                number += 1
                store.commit(step(1, number))
            assert glance(store, 2)[1] == number

    child = forked(write)
    with Checkpointing(path) as store:
        for number in range(1, LOOKS + 1):
            looker = threading.Thread(target=_look, args=(path,))
            looker.start()
            store.commit(step(0, number))
            looker.join()
        os.close(tell)
        assert ended_well(child)
        check(store, [LOOKS, glance(store, 2)[1]], in_flight=0)
        assert store.check().ok


def _is_silent(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return True


def test_what_two_processes_are_told_is_there(path: Path) -> None:
    apart(_while_another_process_writes, path)


def _commit(path: Path) -> bool:
    with SqliteStore(path, timeout_seconds=0.05) as store:
        try:
            store.commit(step(1, 1))
        except Unavailable:
            return False
    return True


def _when_its_locks_are_dropped(store: SqliteStore, path: Path) -> bool:
    """Commit, dropping SQLite's locks at the last moment; return whether another process could write then."""
    (con,) = store._committer.connections
    wrote = []

    def meanwhile(_: object, sql: str, __: object) -> bool:
        if sql == "COMMIT":
            con.exec_trace = None
            _look(path)
            wrote.append(apart(_commit, path))
        return True

    con.exec_trace = meanwhile
    store.commit(step(0, 2))
    return wrote == [True]


def test_nobody_writes_beside_a_commit_whose_locks_were_dropped(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        assert not _when_its_locks_are_dropped(store, path)
        assert apart(_commit, path)
        check(store, [2, 1], in_flight=0)


def test_without_the_lock_of_whoever_writes_somebody_would(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "OPEN_FILE_LOCKS", False)
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        assert _when_its_locks_are_dropped(store, path)


def _rewrite(path: Path) -> None:
    """Write a lot, and erase: the log is put into the file and begun anew."""
    with SqliteStore(path) as store:
        for number in range(1, 201):
            store.commit(step(1, number))
        store.commit(Commit("erased", (), (Erase(stream(1), 0, 100),)))
        for number in range(201, 211):
            store.commit(step(1, number))


@pytest.fixture
def torn(path: Path) -> Iterator[SqliteStore]:
    """A store whose next snapshot loses its mark when it has begun, while another process writes."""
    with SqliteStore(path) as store:
        for number in range(1, 201):
            store.commit(step(0, number))
        glance(store, 1)
        (con,) = store._readers

        def meanwhile(_: object, sql: str, __: object) -> bool:
            if sql != "BEGIN":
                con.exec_trace = None
                con.execute("SELECT count(*) FROM head").fetchall()
                _look(path)
                apart(_rewrite, path)
                con.execute("PRAGMA shrink_memory").fetchall()  # or it would remember what it has read
            return True

        con.exec_trace = meanwhile
        yield store


def test_a_read_that_looks_damaged_because_it_was_torn_is_asked_again(torn: SqliteStore) -> None:
    (con,) = torn._readers
    both = torn.look([Range(stream(0)), Range(stream(1))])
    assert [part.length for part in both if isinstance(part, Slice)] == [200, 210]
    assert con not in torn._readers


def test_a_check_that_looks_damaged_because_it_was_torn_is_asked_again(torn: SqliteStore) -> None:
    assert torn.check().ok


@pytest.mark.parametrize("key", KEYS, ids=["plain", "encrypted"])
def test_the_log_is_put_away_by_whoever_of_us_closes_last(path: Path, key: bytes | None) -> None:
    with SqliteStore(path, key=key) as store, SqliteStore(path, key=key) as other:
        other.commit(step(0, 1))
        store.close()
        assert Path(f"{path}-wal").exists()
    assert not Path(f"{path}-wal").exists()


def test_whoever_only_reads_is_seen_too(path: Path) -> None:
    apart(_only_read, path)


def _only_read(path: Path) -> None:
    store = SqliteStore(path)
    store.commit(step(0, 1))
    with ReadOnlyStore(path) as reader:
        glance(reader, 1)
        store.close()
        _look(path)
        assert Path(f"{path}-wal").exists()
        assert glance(reader, 1) == [1]


@pytest.fixture
def con(path: Path) -> Iterator[apsw.Connection]:
    """A connection of the program's own, to the SQLite that is ours."""
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
    con = apsw.Connection(str(path))
    con.execute("SELECT count(*) FROM head").fetchall()
    yield con
    con.close()


def test_a_connection_of_the_program_keeps_its_locks_when_a_store_is_closed(con: apsw.Connection, path: Path) -> None:
    con.execute("BEGIN IMMEDIATE")
    SqliteStore(path).close()
    assert not apart(_commit, path)
    con.execute("ROLLBACK")
    assert apart(_commit, path)


def test_nothing_stays_open_once_nobody_needs_it(con: apsw.Connection, path: Path) -> None:
    for _ in range(3):
        SqliteStore(path).close()
    assert _times_open(path) > 1  # by the connection, and by what waits for it
    con.close()
    SqliteStore(path).close()
    assert _times_open(path) == 0


def test_what_nobody_closed_is_not_shown_for_ever(path: Path) -> None:
    SqliteStore(path).close()
    shown = presence.Presence(path)
    shown.show()
    with path.open("r+b") as file:
        with pytest.raises(BlockingIOError):
            files.lock_alone(file.fileno(), presence._SHARED)
        del shown
        files.lock_alone(file.fileno(), presence._SHARED)


def test_what_was_just_taken_is_not_given_back_with_a_store_that_is_collected(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(path).close()
    collected, shown = presence.Presence(path), presence.Presence(path)
    collected.show()

    def lock_shared(fd: int, place: files.Stretch) -> None:
        files.lock_shared(fd, place)
        collected.hide()

    monkeypatch.setattr(presence, "lock_shared", lock_shared)
    shown.show()
    with path.open("r+b") as file, pytest.raises(BlockingIOError):
        files.lock_alone(file.fileno(), presence._SHARED)


def test_a_child_closes_the_rest_if_one_is_closed_already(path: Path) -> None:
    apart(_forking_after_a_close, path)


def _forking_after_a_close(path: Path) -> None:
    with SqliteStore(path):
        closed, rest = (lock.fd for lock in presence._locks)
        os.close(closed)
        assert ended_well(forked(_require_closed, rest))


def _require_closed(fd: int) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_child_does_not_keep_the_locks_of_its_parent(path: Path) -> None:
    apart(_forking, path)


def _forking(path: Path) -> None:
    told, tell = os.pipe()
    store = SqliteStore(path)
    store.commit(step(0, 1))
    child = forked(_wait_for_the_end_of, told, tell)
    store.close()
    assert not Path(f"{path}-wal").exists()
    os.close(tell)
    assert ended_well(child)


def _wait_for_the_end_of(told: int, tell: int) -> None:
    os.close(tell)
    os.read(told, 1)
