"""The log: short in a store that is hardly used, seldom made longer, whole in a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from strongroom.backends.sqlite import SqliteStore
from strongroom.backends.sqlite.log import FULL
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Key, Range, ask, new_id

LOG = Key("ana", "log", "one")


def append(store: SqliteStore, times: int) -> set[int]:
    """Append so many records; return how long the log was after each of them."""
    lengths = set()
    for _ in range(times):
        store.commit(Commit(new_id(), (), (Append(LOG, (Entry("Note", encode("x" * 300)),)),)))
        lengths.add(Path(f"{store.path}-wal").stat().st_size)
    return lengths


def test_a_store_that_is_hardly_used_keeps_a_short_log(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        append(store, 1)
        assert Path(f"{store.path}-wal").stat().st_size < 200_000


def test_a_log_that_is_synced_at_each_commit_grows_by_many_frames_at_once(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        assert len(append(store, 100)) < 10


def test_no_zeros_are_written_where_no_commit_waits_for_the_disk(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db", durability="relaxed") as store:
        assert len(append(store, 100)) == 100


def test_a_log_that_begins_anew_is_not_made_longer(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        long = Commit(new_id(), (), (Append(LOG, tuple([Entry("Note", encode("x" * 4096))] * FULL)),))
        store.commit(long)
        assert len(append(store, 100)) == 1


def test_a_copy_taken_in_the_middle_holds_everything(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        append(store, 300)
        (tmp_path / "copy").mkdir()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{store.path}{suffix}", tmp_path / "copy" / f"agent.db{suffix}")
    with SqliteStore(tmp_path / "copy" / "agent.db") as copy:
        assert ask(copy, Range(LOG, 0, 0)).length == 300
        assert copy.check().ok


def test_every_setting_of_a_connection_is_in_force(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        con = store._connect(writer=True)
        found = [
            con.pragma(name) for name in ("secure_delete", "journal_size_limit", "wal_autocheckpoint", "synchronous")
        ]
        assert found == [1, 67108864, 4000, 2]
        assert [con.pragma(name) for name in ("foreign_keys", "trusted_schema", "cell_size_check")] == [1, 0, 1]
        con.close()
