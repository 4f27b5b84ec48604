"""Erasing from the files: what is not done yet is on record in the file, said aloud, and done by whoever comes next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom.backends.sqlite import SqliteStore, erasure, files, gaps
from strongroom.codec import encode
from strongroom.store import Append, Commit, Delete, Entry, Erase, Key, Range, Receipt, Write, ask, new_id
from tests.faults.disk import Disk

CANARY = "canary-7f3a"
LOG = Key("s", "chat", "one")


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(erasure, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        fill(store)
        yield store


def fill(store: SqliteStore) -> None:
    for n in range(60):
        do(store, Append(LOG, (Entry("Note", encode({"x": f"{CANARY} {n}" * 9}), 1, n, text=CANARY),)))


def do(store: SqliteStore, *writes: Write) -> Receipt:
    return store.commit(Commit(new_id(), (), writes))


def canaries(path: Path) -> int:
    return sum(file.read_bytes().count(CANARY.encode()) for file in path.parent.iterdir())


class Reading:
    """Somebody else who reads from the log, for as long as it takes."""

    def __init__(self, path: Path) -> None:
        self._con = apsw.Connection(str(path))
        self._con.execute("BEGIN; SELECT count(*) FROM head").fetchall()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._con.close()


def cleanings(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each clearing and each rewriting of the file."""
    seen: list[str] = []
    clear = gaps.empty_log

    def note(_: object, sql: str, __: object) -> bool:
        if sql == "VACUUM":
            seen.append("rewritten")
        return True

    def note_clearing(path: Path, patience_seconds: float) -> bool:
        seen.append("cleared")
        return clear(path, patience_seconds)

    monkeypatch.setattr(erasure, "empty_log", note_clearing)
    do(store, Append(LOG, (Entry("Note", encode({}), 1, 0),)))
    for con in store._committer.connections:
        con.exec_trace = note
    return seen


def test_an_erasure_that_nobody_is_in_the_way_of_is_complete(store: SqliteStore, path: Path) -> None:
    assert do(store, Erase(LOG, 0, 60)).pending is None
    assert canaries(path) == 0
    assert store.check().pending is None


def test_an_erasure_beside_a_reader_says_that_it_is_not_complete(store: SqliteStore, path: Path) -> None:
    with Reading(path):
        told = do(store, Erase(LOG, 0, 60)).pending
        assert told is not None
        assert "reads" in told
        assert store.check().pending is not None
        assert store.check().ok


def test_it_is_completed_by_a_commit_after_the_reader_is_gone(store: SqliteStore, path: Path) -> None:
    with Reading(path):
        do(store, Erase(LOG, 0, 60))
        assert canaries(path) > 0
    do(store, Append(LOG, (Entry("Note", encode({}), 1, 0),)))
    assert canaries(path) == 0
    assert store.check().pending is None


def test_it_is_completed_by_compacting(store: SqliteStore, path: Path) -> None:
    with Reading(path):
        do(store, Erase(LOG, 0, 60))
    store.compact()
    assert canaries(path) == 0
    assert store.check().pending is None


def test_another_store_completes_it_when_it_is_opened(store: SqliteStore, path: Path) -> None:
    with Reading(path):
        do(store, Erase(LOG, 0, 60))
    with SqliteStore(path):
        assert canaries(path) == 0


def test_an_erasure_that_comes_while_another_is_completed_is_not_crossed_out(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "OPEN_FILE_LOCKS", False)  # with them nobody comes in between
    do(store, Append(LOG, (Entry("Note", encode({}), 1, 0),)))
    (con,) = store._committer.connections
    with SqliteStore(path) as other:

        def meanwhile(_: object, sql: str, __: object) -> bool:
            if sql.startswith("DELETE FROM duty"):
                con.exec_trace = None
                with Reading(path):
                    do(other, Erase(LOG, 30, 60))
            return True

        con.exec_trace = meanwhile
        assert do(store, Erase(LOG, 0, 30)).pending is not None


def test_erasing_nothing_does_nothing(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = cleanings(store, monkeypatch)
    do(store, Erase(LOG, 0, 0))
    do(store, Erase(Key("s", "chat", "none"), 0, 9))
    assert seen == []
    do(store, Erase(LOG, 0, 60))
    assert seen == ["cleared"]
    do(store, Erase(LOG, 0, 60))
    assert seen == ["cleared"]


def written_by_an_erasure(path: Path, messages: int) -> int:
    """Return how many writes an erasure of one message takes, after one that cleared what there was."""
    with Disk(path) as disk, SqliteStore(path) as store:
        do(store, Append(LOG, tuple(Entry("Note", encode({"x": "y" * 500}), 1, n) for n in range(messages))))
        assert do(store, Erase(LOG, 0, 1)).pending is None
        before = disk.count("write")
        assert do(store, Erase(LOG, 1, 2)).pending is None
        return disk.count("write") - before


def test_what_an_erasure_writes_does_not_grow_with_the_file(tmp_path: Path) -> None:
    small, large = (written_by_an_erasure(tmp_path / f"{messages}.db", messages) for messages in (20, 4000))
    assert (tmp_path / "4000.db").stat().st_size > 400 * 4096
    assert large <= small + 8  # a page or two more on the way to a leaf of a higher tree


def test_what_is_deleted_in_a_commit_that_erases_leaves_the_files_too(store: SqliteStore, path: Path) -> None:
    do(store, Delete(LOG), Erase(Key("s", "chat", "other"), 0, 0))
    assert canaries(path) == 0


def test_a_step_of_an_erasure_owes_and_its_last_commit_pays(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "PAUSE_SECONDS", 100.0)
    seen = cleanings(store, monkeypatch)
    for start in range(0, 60, 20):
        step = store.commit(Commit(new_id(), (), (Erase(LOG, start, start + 20),), owes=True))
        assert step.pending is not None
    assert (seen, store.check().pending is not None) == ([], True)
    assert do(store, Erase(LOG, 0, 0)).pending is None
    assert (seen, store.check().pending, canaries(path)) == (["cleared"], None, 0)


def test_what_is_owed_is_paid_by_whoever_writes_next_if_the_last_commit_never_comes(
    store: SqliteStore, path: Path
) -> None:
    store.commit(Commit(new_id(), (), (Erase(LOG, 0, 60),), owes=True))
    do(store, Append(LOG, (Entry("Note", encode({}), 1, 0),)))
    assert (store.check().pending, canaries(path)) == (None, 0)


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_a_large_file_rests_between_two_cleanings(
    path: Path, key: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "CLEARED_BYTES_A_SECOND", 1)
    monkeypatch.setattr(erasure, "REWRITTEN_BYTES_A_SECOND", 1)
    with SqliteStore(path, key=key) as store:
        fill(store)
        seen = cleanings(store, monkeypatch)
        assert do(store, Erase(LOG, 0, 1)).pending is None
        for n in range(1, 60):
            told = do(store, Erase(LOG, n, n + 1)).pending
            assert told is not None
            assert "rest" in told
        assert seen == ["cleared" if key is None else "rewritten"]
        store.compact()
        assert canaries(path) == 0


def test_a_file_too_large_to_be_cleared_is_rewritten(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "MOST_PAGES", 2)
    seen = cleanings(store, monkeypatch)
    assert do(store, Erase(LOG, 0, 60)).pending is None
    assert seen == ["rewritten"]
    assert canaries(path) == 0


def test_a_disk_that_fails_while_it_is_cleared_leaves_the_duty(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[tuple[int, int]]:
        raise apsw.IOError("a bad sector")

    with monkeypatch.context() as patch:
        patch.setattr(gaps, "unclean", fail)
        told = do(store, Erase(LOG, 0, 60)).pending
        assert told is not None
        assert "bad sector" in told
    do(store, Append(LOG, (Entry("Note", encode({}), 1, 0),)))
    assert canaries(path) == 0
    assert store.check().pending is None


def test_a_run_that_is_erased_beside_a_reader_says_so_until_it_is_repeated(path: Path) -> None:
    with strongroom.open(path) as ctx:
        ctx.runs.create(objective=CANARY, run_id="r")
        with Reading(path):
            told: Any = ctx.runs.erase("r", reason="asked to", commit_id="one")
            assert (told.complete, "reads" in str(told.pending)) == (False, True)
        told = ctx.runs.erase("r", reason="asked to", commit_id="one")
        assert (told.complete, told.pending) == (True, None)
        assert canaries(path) == 0


KILLED = """
import os, signal, sys
from strongroom.backends.sqlite import SqliteStore
from tests.sqlite.test_erasing import LOG, do, fill
from strongroom.store import Erase
store = SqliteStore(sys.argv[1])
fill(store)
left = int(sys.argv[2])
def count(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
for con in store._committer.connections:
    con.exec_trace = count
do(store, Erase(LOG, 0, 2))
do(store, Erase(LOG, 2, 60))
os._exit(0)
"""


@pytest.mark.parametrize("after", [*range(0, 60, 7), 1000])
def test_a_kill_anywhere_leaves_the_content_the_duty_or_the_cleaned_file(path: Path, after: int) -> None:
    folder = str(Path(__file__).parents[2])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(after)], cwd=folder, env={**os.environ}, check=False
    )
    assert killed.returncode == (0 if after == 1000 else -signal.SIGKILL)
    with SqliteStore(path) as store:  # finishes what is owed
        assert store.check().problems == ()
        assert store.check().pending is None
        found = ask(store, Range(LOG))
        if all(record.body is None for record in found.records):
            assert canaries(path) == 0
        else:
            assert do(store, Erase(LOG, 0, 60)).pending is None
            assert canaries(path) == 0
