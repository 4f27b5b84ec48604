"""The log's file is kept longer than what is in it, and nobody who reads it is fooled by the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, log
from strongroom.backends.sqlite.raw import RawFile
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Key, Range, ask, new_id
from tests.faults.disk import Disk, Operation

LOG = Key("ana", "log", "one")


def append(store: SqliteStore, times: int) -> None:
    for _ in range(times):
        store.commit(Commit(new_id(), (), (Append(LOG, (Entry("Note", encode("x" * 300)),)),)))


def used_and_size(store: SqliteStore) -> tuple[int, int]:
    """Return the frames in the log, and how many its file has room for."""
    con = apsw.Connection(str(store.path))
    con.execute("SELECT * FROM head").fetchall()
    used = con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
    con.close()
    return used, Path(f"{store.path}-wal").stat().st_size // 4120


def test_the_file_of_the_log_reaches_beyond_what_is_in_it(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        append(store, 200)
        used, size = used_and_size(store)
    assert used < size <= 2 * used + 32


def test_a_store_that_is_hardly_used_keeps_a_short_log(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        append(store, 1)
        assert Path(f"{store.path}-wal").stat().st_size < 200_000


def test_most_commits_write_where_the_file_already_is(tmp_path: Path) -> None:
    grew = 0

    class Growing(Disk):
        def before(self, operation: Operation) -> int:
            nonlocal grew
            if (operation.kind, operation.part) == ("sync", "-wal"):
                size = Path(f"{tmp_path}/agent.db-wal").stat().st_size
                grew += size != self.size
                self.size = size
            return super().before(operation)

        size = 0

    with Growing(tmp_path / "agent.db"), SqliteStore(tmp_path / "agent.db") as store:
        append(store, 600)
    assert grew < 60


def test_a_copy_taken_in_the_middle_holds_everything(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        append(store, 300)
        (tmp_path / "copy").mkdir()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{store.path}{suffix}", tmp_path / "copy" / f"agent.db{suffix}")
    with SqliteStore(tmp_path / "copy" / "agent.db") as copy:
        assert ask(copy, Range(LOG, 0, 0)).length == 300
        assert copy.check().ok


def test_on_a_disk_that_is_nearly_full_nothing_is_taken_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_room", lambda con: 1_000_000)
    with SqliteStore(tmp_path / "agent.db") as store:
        append(store, 100)
        used, size = used_and_size(store)
    assert size == used


def test_a_disk_that_refuses_the_zeros_does_not_hinder_the_commit(tmp_path: Path) -> None:
    class Refusing(Disk):
        def before(self, operation: Operation) -> int:
            ahead = (operation.kind, operation.part) == ("write", "-wal") and operation.size > 4096
            return int(apsw.SQLITE_FULL) if ahead else super().before(operation)

    with Refusing(tmp_path / "agent.db"), SqliteStore(tmp_path / "agent.db") as store:
        append(store, 100)
        used, size = used_and_size(store)
        assert store.check().ok
    assert size == used


def test_a_log_that_was_emptied_meanwhile_is_left_alone(tmp_path: Path) -> None:
    # The power-cut campaign found this: emptying is not certain yet, and the old log must then be whole.
    ahead: list[int] = []

    class Noting(Disk):
        def before(self, operation: Operation) -> int:
            if (operation.kind, operation.part) == ("write", "-wal") and operation.size > 4096:
                ahead.append(operation.offset)
            return super().before(operation)

    path = tmp_path / "agent.db"
    with Noting(path), SqliteStore(path) as store, SqliteStore(path) as other:
        while not store._committer._log.wanted:
            append(store, 1)
        ahead.clear()
        other.compact()
        append(store, 1)
    assert ahead == []


def test_a_commit_that_empties_the_log_is_foreseen_and_few_others_are(tmp_path: Path) -> None:
    foreseen: list[bool] = []  # for each commit
    emptied: list[int] = []  # by which commit

    class Noting(Disk):
        def before(self, operation: Operation) -> int:
            if (operation.kind, operation.part) == ("write", "") and foreseen:
                emptied.append(len(foreseen) - 1)
            return super().before(operation)

    path = tmp_path / "agent.db"
    with Noting(path), SqliteStore(path, durability="relaxed") as store:
        while len(set(emptied)) < 3:
            foreseen.append(not store._committer.quick)
            append(store, 1)
        assert all(foreseen[commit] for commit in emptied)
    assert sum(foreseen) < len(foreseen) / 50


def test_a_file_that_is_not_open_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    con = apsw.Connection(str(tmp_path / "plain.db"))
    with pytest.raises(OSError, match="no such file"):
        RawFile(con, apsw.SQLITE_FCNTL_JOURNAL_POINTER)
    con.close()


def test_every_setting_of_a_connection_is_in_force(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        con = store._connect(writer=True)
        found = [
            con.pragma(name) for name in ("secure_delete", "journal_size_limit", "wal_autocheckpoint", "synchronous")
        ]
        assert found == [1, 67108864, 4000, 2]
        assert [con.pragma(name) for name in ("foreign_keys", "trusted_schema", "cell_size_check")] == [1, 0, 1]
        con.close()
