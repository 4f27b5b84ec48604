"""A log beside a file that is not its own: the file was deleted, or a backup put in its place. Nothing is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import ReadOnlyStore, SqliteStore, rekey
from strongroom.backends.sqlite import stray as module
from strongroom.encryption import Secret
from strongroom.errors import Damaged
from tests.crash.processes import apart, ended_well, forked
from tests.faults.checks import Checkpointing, check, check_file, step
from tests.faults.kill9 import sweep

KEY = b"k" * 32
NEW_KEY = b"n" * 32

_KILLED = """
import os, sys
from pathlib import Path
from strongroom.backends.sqlite import SqliteStore
from tests.faults.checks import step
path, what, key = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]) or None
store = SqliteStore(path, key=key)
for number in (1, 2, 3):
    store.commit(step(0, number))
if what == "backup":
    store.backup(path + ".copy")
    store.commit(step(0, 4))
if what == "deleted":
    os.remove(path)
if what == "emptied":
    os.truncate(path, 0)
if what == "left with a line feed":  # as `echo > agent.db` does
    open(path, "w").write("\\n")
os.kill(os.getpid(), 9)
"""


def killed(path: Path, what: str = "", key: bytes | None = None) -> Path:
    """Leave a log with acknowledged commits behind, as a process does that is killed; return the log."""
    program = [sys.executable, "-c", _KILLED, str(path), what, (key or b"").hex()]
    ended = subprocess.run(program, cwd=Path(__file__).parents[2], check=False)
    assert ended.returncode == -9
    log = Path(f"{path}-wal")
    assert log.stat().st_size > 4096
    return log


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


WAYS: dict[str, Callable[[Path], object]] = {
    "to write": SqliteStore,
    "to read": ReadOnlyStore,
    "with a key": lambda path: SqliteStore(path, key=KEY),
    "to be encrypted": lambda path: rekey(path, key=None, new_key=KEY),
}


def refused(path: Path, opening: Callable[[Path], object]) -> str:
    """Return what is told by whoever refuses to open a file; everything beside it must be left as it was."""
    before = _contents(path.parent)
    with pytest.raises(Damaged) as damaged:
        opening(path)
    assert damaged.value.reason == "replaced"
    assert _contents(path.parent) == before
    return str(damaged.value)


# ---- the file is gone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["deleted", "emptied", "left with a line feed"])
@pytest.mark.parametrize("way", WAYS)
def test_where_only_a_log_is_left_no_new_store_takes_its_place(path: Path, what: str, way: str) -> None:
    log = killed(path, what)
    told = refused(path, WAYS[way])
    assert f"{log.name} holds commits that were acknowledged" in told and "put that file back" in told


def test_a_file_that_is_put_back_has_everything_that_was_acknowledged(path: Path) -> None:
    killed(path)
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    refused(path, SqliteStore)
    elsewhere.rename(path)
    with SqliteStore(path) as store:
        check(store, [3])


def test_once_the_log_is_removed_a_new_store_is_made(path: Path) -> None:
    killed(path, "deleted").unlink()
    with SqliteStore(path) as store:
        check(store, [0])
    check_file(path)


def test_a_file_that_is_deleted_under_a_live_store_is_not_made_anew_by_another(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        path.unlink()
        refused(path, SqliteStore)


def test_a_backup_is_not_written_beside_a_log(path: Path) -> None:
    killed(path, "deleted")
    with SqliteStore(path.with_name("other.db")) as store:
        refused(path, store.backup)


def test_a_dangling_link_leads_to_the_log_beside_the_file_that_it_named(path: Path, tmp_path: Path) -> None:
    killed(path, "deleted")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    before = _contents(path.parent)
    with pytest.raises(Damaged):
        SqliteStore(link)
    assert _contents(path.parent) == before


@pytest.mark.parametrize("size", [0, 32, 100_000])
@pytest.mark.parametrize("there", [False, True])
def test_a_log_that_holds_nothing_keeps_nobody_from_making_a_store(path: Path, size: int, there: bool) -> None:
    log = killed(path, "deleted")
    # A log that is 32 bytes long has its header and no more; one of zeros was made longer, and never written to.
    log.write_bytes(log.read_bytes()[:32] if size == 32 else bytes(size))
    if there:
        path.touch()
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        check(store, [1])
    check_file(path)


# ---- another file is in its place -----------------------------------------------------------------------------------


def _restored(path: Path, key: bytes | None = None) -> Path:
    """Restore a backup as in a hurry: without removing the log of what it replaces. Return that."""
    log = killed(path, "backup", key)
    Path(f"{path}.copy").replace(path)
    return log


@pytest.mark.parametrize("way", ["to write", "to read", "to be encrypted"])
def test_a_backup_beside_the_log_of_what_it_replaced_is_not_opened(path: Path, way: str) -> None:
    log = _restored(path)
    told = refused(path, WAYS[way])
    assert f"remove {log.name} and {path.name}-shm" in told


@pytest.mark.parametrize(
    "opening",
    [
        lambda path: SqliteStore(path, key=KEY),
        lambda path: ReadOnlyStore(path, key=KEY),
        lambda path: rekey(path, key=KEY, new_key=NEW_KEY),
    ],
)
def test_nor_is_an_encrypted_one(path: Path, opening: Callable[[Path], object]) -> None:
    _restored(path, KEY)
    refused(path, opening)


def test_once_that_log_is_removed_the_backup_is_what_it_was(path: Path) -> None:
    _restored(path).unlink()
    with SqliteStore(path) as store:
        check(store, [3])
        store.commit(step(0, 4))
    check_file(path)


def _copied(path: Path, target: Path, **how: Secret | bool) -> None:
    with SqliteStore(path) as store:
        store.backup(target, **how)  # type: ignore[arg-type]


def _rekeyed(path: Path, target: Path) -> None:
    shutil.copyfile(path, target)
    rekey(target, key=None, new_key=NEW_KEY)


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (_copied, None),
        (lambda path, target: _copied(path, target, decrypt=True), None),
        (lambda path, target: _copied(path, target, new_key=NEW_KEY), NEW_KEY),
        (_rekeyed, NEW_KEY),
    ],
)
def test_whatever_is_written_whole_is_known_beside_another_log(
    path: Path, make: Callable[[Path, Path], None], key: bytes | None
) -> None:
    other = path.with_name("other.db")
    SqliteStore(path).close()
    make(path, other)
    log = Path(f"{other}-wal")
    shutil.copyfile(killed(path), log)
    before = other.read_bytes()
    with pytest.raises(Damaged):
        SqliteStore(other, key=key)
    assert other.read_bytes() == before
    log.unlink()
    SqliteStore(other, key=key).close()


def test_looking_at_a_backup_does_not_take_its_mark_away(path: Path) -> None:
    log = killed(path, "backup")
    copy = Path(f"{path}.copy")
    with ReadOnlyStore(copy) as store:
        assert store.check().ok
    shutil.copyfile(log, f"{copy}-wal")
    with pytest.raises(Damaged):
        SqliteStore(copy)


def test_a_reader_whose_file_is_exchanged_for_a_backup_beside_the_log_reads_no_mixture(path: Path) -> None:
    killed(path, "backup")
    with ReadOnlyStore(path) as store:
        Path(f"{path}.copy").replace(path)
        with pytest.raises(Damaged):
            store.read([])


# ---- what is still opened -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, KEY])
def test_a_log_of_its_own_is_recovered(path: Path, key: bytes | None) -> None:
    killed(path, "backup", key)
    with SqliteStore(path, key=key) as store:
        check(store, [4])
    check_file(path, key)


def test_a_backup_that_was_opened_and_killed_has_a_log_of_its_own(path: Path) -> None:
    killed(path, "backup")
    copy = Path(f"{path}.copy")
    killed(copy)  # repeats what it holds, and so recovers nothing; its log is its own all the same
    with SqliteStore(copy) as store:
        check(store, [3])
    check_file(copy)


def _backup_first(path: Path) -> Checkpointing:
    """Open a file that is a fresh backup, unless it was opened before."""
    if not path.exists():
        shutil.copyfile(path.with_name("backup.db"), path)
    return Checkpointing(path)


def test_a_backup_is_opened_after_a_kill_at_any_operation_of_its_first_opening(fast_folder: Path) -> None:
    SqliteStore(fast_folder / "agent.db").close()
    _copied(fast_folder / "agent.db", fast_folder / "backup.db")
    report = apart(sweep, fast_folder, make=_backup_first)
    assert report.kills > 100


def _exchange(path: Path, rounds: int) -> None:
    """Make a file over and over that is short, or says that it has no log, and give it one."""
    for _ in range(rounds):
        for suffix in ("-wal", "-shm", ""):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        con = apsw.Connection(str(path))
        con.execute("PRAGMA journal_mode = WAL; CREATE TABLE a (b); INSERT INTO a VALUES (1)").fetchall()
        con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        con.close()


def test_a_file_that_somebody_makes_just_now_is_never_taken_for_a_lost_one(path: Path) -> None:
    """Beside an own SQLite of theirs, which holds no lock that we would wait for."""
    pid = forked(_exchange, path, 500)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        module.refuse_stray_log(path)


def test_a_file_that_is_gone_for_a_moment_is_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(path)
    away = path.rename(path.with_name("away"))
    looked = []

    def put_back(seconds: float) -> None:
        looked.append(seconds)
        away.rename(path)

    monkeypatch.setattr(time, "sleep", put_back)
    module.refuse_stray_log(path)
    assert len(looked) == 1  # at the first look it was gone


def test_a_log_that_is_removed_between_two_looks_is_not_left_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = killed(path, "deleted")
    holds = module._holds_frames

    def then_removed(file: Path) -> bool:
        found = holds(file)
        log.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(module, "_holds_frames", then_removed)
    module.refuse_stray_log(path)


def _open_and_commit(path: Path, number: int) -> None:
    with closing(SqliteStore(path)) as store:
        store.commit(step(number, 1))


def test_several_who_open_a_backup_for_the_first_time_at_once_all_succeed(path: Path) -> None:
    SqliteStore(path).close()
    for turn in range(5):
        copy = path.with_name(f"copy-{turn}.db")
        _copied(path, copy)
        children = [forked(_open_and_commit, copy, number) for number in range(8)]
        assert sum([not ended_well(pid) for pid in children]) == 0
        with SqliteStore(copy) as store:
            check(store, [1] * 8)
