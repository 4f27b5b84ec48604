"""Encrypting, decrypting and changing a key: all of it or nothing, whatever happens in between."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.backends.sqlite import ReadOnlyStore, SqliteStore, rekey, rekeying
from strongroom.encryption import Secret
from strongroom.errors import Damaged, InvalidInput, SchemaMismatch, Unavailable
from strongroom.store import Find
from tests.crash.conftest import fast_folder as fast_folder
from tests.crash.processes import apart, ended_well, forked
from tests.faults.checks import check, step
from tests.faults.disk import Disk
from tests.sqlite.test_encryption import canaries, fill

ONE, TWO = b"1" * 32, b"2" * 32
CHANGES = {"encrypt": (None, ONE), "decrypt": (ONE, None), "rekey": (ONE, TWO)}
Change = tuple[Secret | None, Secret | None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def make(path: Path, key: Secret | None, steps: int = 3) -> None:
    with SqliteStore(path, key=key) as store:
        for number in range(1, steps + 1):
            store.commit(step(0, number))


def opens(path: Path, key: Secret | None) -> bool:
    """Tell whether a key opens the store; with it, everything must be there."""
    try:
        with SqliteStore(path, key=key) as store:
            check(store, [3], in_flight=0)
            assert store.check().ok
        return True
    except SchemaMismatch:
        return False


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_afterwards_the_new_key_opens_it_and_the_old_one_does_not(path: Path, change: Change) -> None:
    make(path, change[0])
    rekey(path, key=change[0], new_key=change[1])
    assert (opens(path, change[0]), opens(path, change[1])) == (False, True)
    assert sorted(file.name for file in path.parent.iterdir()) == ["agent.db", "agent.db-queue"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_new_file_has_the_owner_and_the_rights_of_the_old_one(path: Path, change: Change) -> None:
    make(path, change[0])
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    before = path.stat()
    rekey(path, key=change[0], new_key=change[1])
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.parametrize("decrypt", [False, True])
def test_a_backup_can_be_read_by_nobody_who_could_not_read_the_store(path: Path, decrypt: bool) -> None:
    make(path, ONE)
    path.chmod(0o600)
    with SqliteStore(path, key=ONE) as store:
        store.backup(path.with_name("copy.db"), decrypt=decrypt)
    assert path.with_name("copy.db").stat().st_mode == path.stat().st_mode


def test_a_backup_of_a_file_that_cannot_be_written_can_be(path: Path) -> None:
    make(path, None)
    path.chmod(0o444)
    with ReadOnlyStore(path) as store:
        store.backup(path.with_name("copy.db"))
    assert path.with_name("copy.db").stat().st_mode & 0o777 == 0o644


def test_who_may_not_read_a_store_may_not_stand_in_its_queue(path: Path) -> None:
    make(path, None)
    path.chmod(0o600)
    with SqliteStore(path) as store:
        store.commit(step(0, 4))
    assert path.with_name("agent.db-queue").stat().st_mode == path.stat().st_mode


def test_what_a_killed_change_left_goes_when_the_store_is_opened(path: Path) -> None:
    make(path, ONE)
    left = rekeying.unfinished(path)
    left.write_bytes(b"in the clear")
    assert opens(path, ONE)
    assert not left.exists()


def test_what_a_killed_backup_left_goes_with_the_next_one(path: Path) -> None:
    make(path, None)
    left, running = (path.with_name(f".copy.db.{pid}.partial") for pid in (apart(os.getpid), os.getppid()))
    left.write_bytes(b"in the clear")
    running.write_bytes(b"of somebody who is not done")
    with SqliteStore(path) as store:
        store.backup(path.with_name("copy.db"))
    assert (left.exists(), running.exists()) == (False, True)


def test_what_is_encrypted_is_nowhere_in_the_clear(path: Path) -> None:
    with SqliteStore(path) as store:
        fill(store)
        found = store.search(Find("s", "chat", ("canary",)))
    assert canaries(path.parent) > 0
    rekey(path, key=None, new_key="a passphrase")
    assert canaries(path.parent) == 0
    with SqliteStore(path, key="a passphrase") as store:
        assert store.search(Find("s", "chat", ("canary",))) == found


@pytest.mark.parametrize("change", [(TWO, None), (None, TWO), (TWO, ONE)])
def test_a_wrong_key_changes_nothing(path: Path, change: Change) -> None:
    make(path, ONE)
    before = path.read_bytes()
    with pytest.raises((SchemaMismatch, InvalidInput), match=r"nothing (was )?changed"):
        rekey(path, key=change[0], new_key=change[1])
    assert path.read_bytes() == before


def test_a_store_that_somebody_has_open_is_left_alone(path: Path) -> None:
    make(path, None)
    with SqliteStore(path) as store:
        with pytest.raises(Unavailable, match="has the store open"):
            apart(_impatient, path)
        store.commit(step(0, 4))
    assert apart(_impatient, path) is None


def _impatient(path: Path) -> None:
    rekey(path, key=None, new_key=ONE, timeout_seconds=0.2)


def test_whoever_has_the_store_open_writes_on_while_a_change_waits_for_its_end(path: Path) -> None:
    make(path, None)
    begun = path.with_name("begun")
    with ThreadPoolExecutor(1) as pool:
        with SqliteStore(path, timeout_seconds=20) as store:
            waiting = pool.submit(apart, _patient, path, begun)
            while not begun.exists():
                time.sleep(0.001)
            for number in range(4, 54):
                store.commit(step(0, number))
                time.sleep(0.005)  # lets it try in between; if it does not, nothing is proved and nothing fails
        waiting.result(120)
    with SqliteStore(path, key=ONE) as store:
        check(store, [53], in_flight=0)


def _patient(path: Path, begun: Path) -> None:
    begun.touch()
    rekey(path, key=None, new_key=ONE, timeout_seconds=100)


def test_what_is_no_store_is_left_alone(path: Path) -> None:
    with pytest.raises(InvalidInput, match="no store"):
        rekey(path, key=None, new_key=ONE)
    con = apsw.Connection(str(path))
    con.execute("CREATE TABLE other (x)")
    con.close()
    with pytest.raises(SchemaMismatch, match="no store"):
        rekey(path, key=None, new_key=ONE)


def test_progress_is_told_up_to_the_end(path: Path) -> None:
    make(path, None, 200)
    told: list[tuple[int, int]] = []
    rekey(path, key=None, new_key=ONE, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_copy_that_is_not_the_same_never_takes_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(path, None)
    monkeypatch.setattr(rekeying, "digest", lambda con: id(con))
    with pytest.raises(Damaged, match="stays as it is"):
        rekey(path, key=None, new_key=ONE)
    assert opens(path, None)
    assert not path.with_name(".agent.db.rekeyed").exists()


def test_a_full_disk_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(path, None)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 9, 1, 1, 0, 0, 0, 0, 255)))
    with pytest.raises(Unavailable, match="nothing changed"):
        rekey(path, key=None, new_key=ONE)
    assert opens(path, None)


# ---- killed at every write ------------------------------------------------------------------------------------------


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.rekeyed")


def _die_at(path: Path, change: Change, nth: int) -> None:
    """Change the key, and be killed at the nth operation on a file, SQLite's or our own."""
    left = nth

    def count(*_: object) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    class Counting(Disk):
        def before(self, operation: Any) -> int:
            return super().before(operation) or count()

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            count()
            return work(*args, **more)

        return call

    os.fsync = counted(os.fsync)
    os.rename, os.replace, os.unlink = counted(os.rename), counted(os.replace), counted(os.unlink)
    with Counting(path), Counting(_partial(path)):
        rekey(path, key=change[0], new_key=change[1])


def _sweep(folder: Path, change: Change) -> dict[str, int]:
    """Kill at every operation; count how often the old key and how often the new one opens what is left."""
    source = folder / "source.db"
    make(source, change[0])
    image = source.read_bytes()
    seen = {"old": 0, "new": 0}
    for nth in range(1, 1000):
        path = folder / f"{nth}" / "agent.db"
        path.parent.mkdir()
        path.write_bytes(image)
        survived = ended_well(forked(_die_at, path, change, nth))
        old, new = opens(path, change[0]), opens(path, change[1])
        assert old != new, f"after a kill at operation {nth}: old key {old}, new key {new}"
        seen["new" if new else "old"] += 1
        if not new:  # and the next attempt gets through, over what the first has left
            rekey(path, key=change[0], new_key=change[1])
            assert opens(path, change[1])
        assert not _partial(path).exists()
        if survived:
            assert new
            return seen
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_killed_at_any_write_exactly_one_of_the_two_keys_opens_it(fast_folder: Path, change: Change) -> None:
    seen = apart(_sweep, fast_folder, change)
    assert seen["old"] > 20
    assert seen["new"] >= 2  # killed after it has its name, and not killed at all
