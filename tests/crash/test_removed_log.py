"""Another copy of SQLite in the same process closes the file, and removes the log from under us, where no lock can keep
it from that (`test_another_sqlite.py`): nothing is lost, and the store goes on by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from traceback import walk_tb

import pytest

from strongroom.backends.sqlite import SqliteStore, files, identity, presence
from strongroom.errors import Damaged, Unavailable
from strongroom.store import Range, ask
from tests.crash.processes import apart
from tests.faults.checks import check, check_file, step, stream


@pytest.fixture(autouse=True)
def without_locks_of_an_open_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "OPEN_FILE_LOCKS", False)
    monkeypatch.setattr(files, "OPEN_FILE_LOCKS", False)


@pytest.fixture(params=["events", "times"])
def store(path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    if request.param == "times":
        monkeypatch.setattr(identity, "_NOTIFYING", ())
    with SqliteStore(path) as store:
        for number in (1, 2, 3):
            store.commit(step(0, number))
        yield store
    check_file(path)


def look_with_the_standard_module(path: Path) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute("SELECT count(*) FROM head").fetchall()
    assert not Path(f"{path}-wal").exists()


def commit_two(path: Path) -> None:
    with SqliteStore(path) as store:
        for number in (1, 2):
            store.commit(step(1, number))


def test_the_next_commit_is_kept(store: SqliteStore, path: Path) -> None:
    look_with_the_standard_module(path)
    store.commit(step(0, 4))
    check(store, [4], in_flight=0)
    assert Path(f"{path}-wal").stat().st_size > 0


def test_it_may_happen_again_and_again(store: SqliteStore, path: Path) -> None:
    for number in range(4, 9):
        look_with_the_standard_module(path)
        store.commit(step(0, number))
    check(store, [8], in_flight=0)


def test_a_commit_under_way_is_written_again(store: SqliteStore, path: Path) -> None:
    (con,) = store._committer.connections

    def meanwhile(_: object, sql: str, __: object) -> bool:
        if sql == "COMMIT":
            con.exec_trace = None
            look_with_the_standard_module(path)
        return True

    con.exec_trace = meanwhile
    store.commit(step(0, 4))
    store.commit(step(0, 5))
    check(store, [5], in_flight=0)


def test_what_another_process_writes_afterwards_is_read(store: SqliteStore, path: Path) -> None:
    look_with_the_standard_module(path)
    check(store, [3], in_flight=0)
    apart(commit_two, path)
    check(store, [3, 2], in_flight=0)


def test_a_store_that_was_never_written_by_us_goes_on_too(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
    with SqliteStore(path) as store:
        look_with_the_standard_module(path)
        store.require_usable()
        store.commit(step(0, 2))
        check(store, [2], in_flight=0)


def test_a_second_store_in_this_process_lets_go_with_its_next_call(path: Path) -> None:
    with SqliteStore(path, timeout_seconds=0.05) as store, SqliteStore(path) as other:
        store.commit(step(0, 1))
        other.commit(step(1, 1))
        look_with_the_standard_module(path)
        with pytest.raises(Unavailable, match="nothing is lost"):
            store.commit(step(0, 2))
        other.commit(step(1, 2))
        store.commit(step(0, 2))
        check(store, [2, 2], in_flight=0)


def test_a_store_that_has_stopped_says_so_for_ever_and_grows_no_trace(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        Path(f"{path}-wal").unlink()
        lengths = set()
        for _ in range(5):
            with pytest.raises(Damaged):
                store.commit(step(0, 2))
            assert store._committer.failed is not None
            lengths.add(len(list(walk_tb(store._committer.failed.__traceback__))))
        assert len(lengths) == 1


def test_a_log_that_was_deleted_with_what_it_held_stops_readers_and_writers(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        Path(f"{path}-wal").unlink()
        for _ in range(2):
            with pytest.raises(Damaged):
                ask(store, Range(stream(0)))
        with pytest.raises(Damaged):
            store.commit(step(0, 2))
