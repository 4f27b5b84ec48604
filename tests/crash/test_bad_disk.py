"""A disk that fails, fills up, slows down or turns read-only: what is said is true, and the store heals."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, group_commit
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Unavailable
from strongroom.store import Append, Commit, Entry, Get, Key, Put, Range, ask
from tests.crash.broken import Careless, Hasty
from tests.crash.processes import apart, ended_well, forked
from tests.faults.checks import Broken, Checkpointing, Lost, check, document, repeat, step
from tests.faults.disk import Disk, Kind, Operation
from tests.missing import not_here

ALWAYS = float("inf")
BIG = Key("faults", "big", "1")


class Slow(Disk):
    """Each fsync takes until there is `enough` of what a test waits for: no clock, so the same on a busy machine."""

    enough: Callable[[], bool] | None = None

    def before(self, operation: Operation) -> int:
        if operation.kind == "sync":
            while self.enough is not None and not self.enough():
                time.sleep(0.001)
        return super().before(operation)


@pytest.fixture
def disk(path: Path) -> Iterator[Slow]:
    with Slow(path) as disk:
        yield disk


@pytest.fixture
def store(disk: Disk, path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        yield store


# ---- fsync fails ----------------------------------------------------------------------------------------------------


def test_a_failed_fsync_makes_the_outcome_unknown_and_says_so(store: SqliteStore, disk: Disk) -> None:
    disk.fail("sync", apsw.SQLITE_IOERR_FSYNC)
    with pytest.raises(CommitUnknown) as unknown:
        store.commit(step(0, 2))
    assert unknown.value.reason == "fsync"


def test_repeating_after_a_failed_fsync_has_exactly_one_effect(store: SqliteStore, disk: Disk) -> None:
    disk.fail("sync", apsw.SQLITE_IOERR_FSYNC)
    with pytest.raises(CommitUnknown):
        store.commit(step(0, 2))
    repeat(store, 0, 2)
    repeat(store, 0, 2)
    check(store, [2], in_flight=0)


def test_a_commit_after_a_failed_fsync_does_not_bring_the_failed_one_along(store: SqliteStore, disk: Disk) -> None:
    disk.fail("sync", apsw.SQLITE_IOERR_FSYNC)
    with pytest.raises(CommitUnknown):
        store.commit(step(0, 2))
    store.commit(step(1, 1))
    check(store, [1, 1], in_flight=0)


def test_while_every_fsync_fails_nothing_is_acknowledged_and_reads_work(store: SqliteStore, disk: Disk) -> None:
    disk.fail("sync", apsw.SQLITE_IOERR_FSYNC, times=ALWAYS)
    for _ in range(5):
        with pytest.raises(CommitUnknown):
            store.commit(step(0, 2))
        check(store, [1], in_flight=0)


def test_the_store_heals_without_being_reopened_once_fsync_works_again(store: SqliteStore, disk: Disk) -> None:
    disk.fail("sync", apsw.SQLITE_IOERR_FSYNC, times=ALWAYS)
    with pytest.raises(CommitUnknown):
        store.commit(step(0, 2))
    disk.heal()
    for number in range(2, 20):
        repeat(store, 0, number)
    check(store, [19], in_flight=0)


def test_everybody_who_shared_the_failed_fsync_is_told(store: SqliteStore, disk: Disk) -> None:
    disk.fail("sync", apsw.SQLITE_IOERR_FSYNC, times=ALWAYS)
    told: list[BaseException] = []

    def commit(writer: int) -> None:
        try:
            store.commit(step(writer, 1))
        except CommitUnknown as unknown:
            told.append(unknown)

    threads = [threading.Thread(target=commit, args=(writer,)) for writer in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 8
    assert len({id(error) for error in told}) == 8  # each its own: an exception raised in two threads mixes traces


def test_an_unknown_commit_says_which_one_it_was(store: SqliteStore, disk: Disk) -> None:
    disk.fail("sync", apsw.SQLITE_IOERR_FSYNC)
    with pytest.raises(CommitUnknown) as unknown:
        store.commit(step(0, 2))
    assert unknown.value.commit_id == step(0, 2).id


def _unknown_then_killed(path: Path) -> list[int]:
    """A commit fails in fsync and its process is killed; the frames are still in the page cache. Then repeat it."""

    def victim() -> None:
        with Disk(path) as disk:
            store = SqliteStore(path)
            store.commit(step(0, 1))
            disk.fail("sync", apsw.SQLITE_IOERR_FSYNC)
            try:
                store.commit(step(0, 2))
            except CommitUnknown:
                os._exit(0)

    assert ended_well(forked(victim))
    with SqliteStore(path) as store:
        came_back = check(store, [1])
        repeat(store, 0, 2)
        check(store, [2], in_flight=0)
    return came_back


def test_an_unknown_commit_that_comes_back_after_a_crash_is_reconciled_by_its_id(path: Path) -> None:
    # The negative control of promise 4: the failed commit really is there after the crash, so reporting it as
    # "nothing changed" would have been a lie.
    assert apart(_unknown_then_killed, path) == [2]


@pytest.mark.parametrize("kind", ["sync", "write", "truncate"])
def test_a_checkpoint_that_fails_loses_nothing(path: Path, kind: str) -> None:
    with Disk(path) as disk, Checkpointing(path) as store:
        store.commit(step(0, 1))
        disk.fail(kind, apsw.SQLITE_IOERR, part="", times=ALWAYS)  # type: ignore[arg-type]
        for number in range(2, 40):
            repeat(store, 0, number)
        check(store, [39], in_flight=0)
        disk.heal()
        repeat(store, 0, 40)
    with SqliteStore(path) as store:
        check(store, [40], in_flight=0)


@pytest.mark.parametrize("nth", range(1, 13))
@pytest.mark.parametrize("kind", ["write", "sync"])
def test_whichever_operation_fails_the_error_tells_the_truth(path: Path, kind: str, nth: int) -> None:
    with Disk(path) as disk, Checkpointing(path) as store:
        for number in (1, 2, 3):
            store.commit(step(0, number))
        disk.fail(kind, apsw.SQLITE_IOERR_WRITE if kind == "write" else apsw.SQLITE_IOERR_FSYNC, nth=nth)  # type: ignore[arg-type]
        number = 4
        while number < 10:
            try:
                repeat(store, 0, number)
                number += 1
            except Unavailable:
                check(store, [number - 1], in_flight=0)
            except CommitUnknown:
                check(store, [number - 1])
        check(store, [9], in_flight=0)


@pytest.mark.parametrize("nth", range(1, 32, 3))
def test_a_store_whose_creation_fails_can_be_created_afterwards(path: Path, nth: int) -> None:
    with Disk(path) as disk:
        disk.fail("write", apsw.SQLITE_FULL, nth=nth)
        try:
            SqliteStore(path).close()
        except Unavailable as error:
            assert error.reason == "disk_full"
    with SqliteStore(path) as store:
        repeat(store, 0, 1)


def _sixteen_at_once(store: SqliteStore, disk: Slow) -> int:
    """Let sixteen threads commit to a disk whose first fsync takes until all others wait; all must be there. Return how
    many fsyncs that took."""

    def others_wait() -> bool:
        if len(store._group._waiting) < 15:
            return False
        disk.enough = None  # from now on it is as fast as it is
        return True

    disk.enough = others_wait
    before = disk.count("sync")
    threads = [threading.Thread(target=store.commit, args=(step(writer, 1),)) for writer in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = disk.count("sync") - before
    check(store, [1] * 17, in_flight=0)
    return taken


def test_a_slow_disk_is_only_slow_and_those_who_wait_share_an_fsync(store: SqliteStore, disk: Slow) -> None:
    assert _sixteen_at_once(store, disk) < 16


def test_a_store_that_does_not_share_needs_an_fsync_for_each(
    store: SqliteStore, disk: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MAX_BATCH", 1)
    assert _sixteen_at_once(store, disk) >= 16


def test_the_check_sees_a_store_that_does_not_wait_for_a_slow_disk(disk: Slow, path: Path) -> None:
    with Hasty(path) as store:
        store.commit(step(0, 1))
        with pytest.raises(Broken):
            _sixteen_at_once(store, disk)


# ---- the disk is full, the file too large, everything read-only -----------------------------------------------------


def test_a_full_disk_is_reported_as_such_and_changes_nothing(store: SqliteStore, disk: Disk) -> None:
    disk.fail("write", apsw.SQLITE_FULL, times=ALWAYS)
    with pytest.raises(Unavailable) as full:
        store.commit(step(0, 2))
    assert full.value.reason == "disk_full"
    check(store, [1], in_flight=0)


def test_a_store_works_again_once_there_is_room_without_being_reopened(store: SqliteStore, disk: Disk) -> None:
    disk.fail("write", apsw.SQLITE_FULL, times=ALWAYS)
    with pytest.raises(Unavailable):
        store.commit(step(0, 2))
    disk.heal()
    repeat(store, 0, 2)
    check(store, [2], in_flight=0)


def _fill_a_small_disk(folder: Path) -> str:
    """Mount one megabyte of memory where only this process sees it, fill it, make room, and go on."""
    if not _mount(folder):
        return "cannot mount"
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(400_000))
    with SqliteStore(folder / "agent.db") as store:
        reason = _write_until_refused(store)
        acknowledged = ask(store, Range(BIG, 0, 0)).length
        ballast.unlink()
        _append(store, acknowledged)
        _intact(store, acknowledged + 1)
        assert store.check().ok
    return reason


def _mount(folder: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, new_users = 0x00020000, 0x10000000
    outside = (os.getuid(), os.getgid())
    if libc.unshare(new_mounts | (0 if outside[0] == 0 else new_users)):
        return False
    if outside[0]:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {outside[0]} 1")
        Path("/proc/self/gid_map").write_text(f"0 {outside[1]} 1")
    private = 1 << 18 | 1 << 14  # MS_PRIVATE | MS_REC: nobody outside sees what is mounted here
    if libc.mount(b"none", b"/", None, private, None):
        return False
    return not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=1m")


def _remount_read_only(folder: Path) -> str:
    if not _mount(folder):
        return "cannot mount"
    libc = ctypes.CDLL(None, use_errno=True)
    with SqliteStore(folder / "agent.db") as store:
        store.commit(step(0, 1))
        read_only, remount = 1, 32
        # A disk with files open for writing refuses to turn read-only, so it is closed meanwhile.
        store.close()
        assert not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", read_only | remount, b"size=1m")
    try:
        with SqliteStore(folder / "agent.db") as store:
            check(store, [1], in_flight=0)
            store.commit(step(0, 2))
    except Unavailable as error:
        reason = error.reason
    assert not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", remount, b"size=1m")
    with SqliteStore(folder / "agent.db") as store:
        check(store, [1], in_flight=0)
        repeat(store, 0, 2)
    return reason


def _append(store: SqliteStore, number: int) -> None:
    store.commit(Commit(f"big-{number}", (), (Append(BIG, (Entry("Big", encode("x" * 20_000)),)),)))


def _write_until_refused(store: SqliteStore) -> str:
    for number in range(1000):
        try:
            _append(store, number)
        except Unavailable as error:
            _intact(store, number)
            return error.reason
    return "never refused"


def _intact(store: SqliteStore, expected: int) -> None:
    records = ask(store, Range(BIG)).records
    assert len(records) == expected
    assert all(record.body == encode("x" * 20_000) for record in records)


def test_a_really_full_disk_is_reported_and_the_store_goes_on_once_there_is_room(tmp_path: Path) -> None:
    reason = apart(_fill_a_small_disk, tmp_path)
    if reason == "cannot mount":
        not_here("a disk of its own", "this user may not mount anything (the same is tested with an injected error)")
    assert reason == "disk_full"


def _outgrow_the_limit(path: Path) -> str:
    with SqliteStore(path) as store:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
        reason = _write_until_refused(store)
        acknowledged = ask(store, Range(BIG, 0, 0)).length
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        _append(store, acknowledged)
        _intact(store, acknowledged + 1)
        assert store.check().ok
    return reason


def test_a_file_over_the_size_limit_is_reported_and_the_store_goes_on_once_it_is_lifted(path: Path) -> None:
    assert apart(_outgrow_the_limit, path) == "file_too_large"


def test_a_read_only_disk_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    reason = apart(_remount_read_only, tmp_path)
    if reason == "cannot mount":
        not_here("a disk of its own", "this user may not mount anything (the same is tested with an injected error)")
    assert reason == "read_only"


def test_a_disk_that_turns_read_only_under_a_live_store_still_answers_reads(store: SqliteStore, disk: Disk) -> None:
    disk.fail("write", apsw.SQLITE_READONLY, times=ALWAYS)
    with pytest.raises(Unavailable) as refused:
        store.commit(step(0, 2))
    assert refused.value.reason == "read_only"
    check(store, [1], in_flight=0)
    disk.heal()
    repeat(store, 0, 2)


# ---- negative control -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code"),
    [("sync", apsw.SQLITE_IOERR_FSYNC), ("write", apsw.SQLITE_FULL), ("write", apsw.SQLITE_READONLY)],
)
def test_the_check_sees_a_store_that_acknowledges_in_spite_of_an_error(path: Path, kind: Kind, code: int) -> None:
    with Disk(path) as disk, Careless(path) as store:
        store.commit(step(0, 1))
        disk.fail(kind, code)
        store.commit(step(0, 2))
        with pytest.raises(Lost):
            check(store, [2])


def _outgrow_carelessly(path: Path) -> bool:
    with Careless(path) as store:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
        for number in range(50):
            _append(store, number)
        try:
            _intact(store, 50)
        except AssertionError:
            return True
    return False


def test_the_check_sees_a_store_that_acknowledges_beyond_the_size_limit(path: Path) -> None:
    assert apart(_outgrow_carelessly, path)


def test_reading_a_sound_store_never_raises(store: SqliteStore) -> None:
    store.commit(Commit("plain", (), (Put(document(5), encode(1)),)))
    found = ask(store, Get(document(5)))
    assert found is not None and found.value == encode(1)
