"""Files deleted, exchanged, restored or linked under a live store, and fork: noticed before the next "done"."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, committer, identity
from strongroom.backends.sqlite import reading as module
from strongroom.errors import Damaged, Unavailable
from tests.crash.processes import apart, ended_well, forked
from tests.faults.checks import Broken, Lost, check, check_file, repeat, step
from tests.missing import not_here


@pytest.fixture(params=["events", "times"])
def watched_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stores watch their files in one of the two ways."""
    if request.param == "times":
        monkeypatch.setattr(identity, "_NOTIFYING", ())


@pytest.fixture
def store(path: Path, watched_by: None) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        for number in (1, 2, 3):
            store.commit(step(0, number))
        yield store


def _part(path: Path, part: str) -> Path:
    return path.with_name(path.name + part)


@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_a_deleted_file_is_noticed_before_the_next_acknowledgement(store: SqliteStore, path: Path, part: str) -> None:
    _part(path, part).unlink()
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, 4))
    assert damaged.value.reason == "replaced"


@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_a_file_moved_elsewhere_with_a_link_left_behind_is_noticed_before_the_next_acknowledgement(
    store: SqliteStore, path: Path, part: str
) -> None:
    file, elsewhere = _part(path, part), path.parent / "elsewhere"
    elsewhere.mkdir()
    file.rename(elsewhere / file.name)
    file.symlink_to(elsewhere / file.name)
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, 4))
    assert damaged.value.reason == "replaced"


def test_a_file_moved_away_from_its_log_is_not_opened_by_the_link_left_behind(store: SqliteStore, path: Path) -> None:
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    path.rename(elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)
    with pytest.raises(Damaged, match=r"move .*-wal there as well") as damaged:
        SqliteStore(path)
    assert damaged.value.reason == "replaced"


def test_a_file_is_opened_by_a_link_to_it_while_others_write(store: SqliteStore, path: Path) -> None:
    (path.parent / "link.db").symlink_to(path)
    with SqliteStore(path.parent / "link.db") as other:
        other.commit(step(1, 1))
        store.commit(step(0, 4))
        check(other, [4, 1])


def _mounted_alone(path: Path) -> str:
    """Open a file that is mounted alone in another folder, in a namespace of its own; tell what became of it."""
    SqliteStore(path).close()
    other = path.parent / "an other" / path.name
    other.parent.mkdir()
    other.touch()
    libc = ctypes.CDLL(None)
    bind, private = 4096, 1 << 18 | 1 << 14
    if libc.unshare(0x00020000) or libc.mount(b"none", b"/", None, private, None):
        return "cannot mount"
    if libc.mount(os.fsencode(path), os.fsencode(other), None, bind, None):
        return "cannot mount"
    SqliteStore(path).close()
    try:
        SqliteStore(other).close()
    except Unavailable as refused:
        return f"{refused.reason}: {refused}"
    return "opened"


def test_a_file_that_is_mounted_alone_is_refused(path: Path) -> None:
    told = apart(_mounted_alone, path)
    if told == "cannot mount":
        not_here("a mount", "this user may not mount anything")
    assert told.startswith("hard_link: ") and "Mount the folder that holds it instead" in told


@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_a_file_exchanged_for_a_copy_is_noticed_before_the_next_acknowledgement(
    store: SqliteStore, path: Path, part: str
) -> None:
    file, copy = _part(path, part), _part(path, ".copy")
    shutil.copyfile(file, copy)
    copy.replace(file)
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, 4))
    assert damaged.value.reason == "replaced"


def test_a_log_that_was_cut_to_nothing_is_noticed_before_the_next_acknowledgement(
    store: SqliteStore, path: Path
) -> None:
    os.truncate(_part(path, "-wal"), 0)
    for number in (4, 5):
        with pytest.raises(Damaged):
            store.commit(step(0, number))


def test_a_log_that_sqlite_emptied_is_not_taken_for_a_cut_one(store: SqliteStore, path: Path) -> None:
    other = apsw.Connection(str(path))
    for number in (4, 5):
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
        store.commit(step(0, number))
    other.close()


def test_a_renamed_folder_is_noticed_before_the_next_acknowledgement(store: SqliteStore, path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, 4))
    assert damaged.value.reason == "replaced"


def test_a_store_whose_files_were_exchanged_stays_stopped(store: SqliteStore, path: Path) -> None:
    _part(path, "-wal").unlink()
    for number in (4, 5):
        with pytest.raises(Damaged):
            store.commit(step(0, number))


def test_closing_a_stopped_store_does_not_touch_the_file_that_is_there_now(path: Path) -> None:
    newer = _part(path, ".newer")
    with SqliteStore(newer) as other:
        other.commit(step(1, 1))
    store = SqliteStore(path)
    store.commit(step(0, 1))
    newer.replace(path)
    content = path.read_bytes()
    with pytest.raises(Damaged):
        store.commit(step(0, 2))
    store.close()
    assert path.read_bytes() == content


def _restore_an_older_copy(store: SqliteStore, path: Path) -> None:
    """Let the store acknowledge step 4, and put a copy in its place that was made before."""
    old = _part(path, ".old")
    store.backup(old)
    store.commit(step(0, 4))
    source, target = apsw.Connection(str(old)), apsw.Connection(str(path))
    with target.backup("main", source, "main") as running:
        running.step(-1)
    source.close()
    target.close()


def test_an_older_backup_restored_into_the_live_file_is_noticed_before_the_next_acknowledgement(
    store: SqliteStore, path: Path
) -> None:
    _restore_an_older_copy(store, path)
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, 5))
    assert damaged.value.reason == "regressed"


def _overwrite_by_an_older_copy(path: Path) -> SqliteStore:
    """Return a store whose file was overwritten, in place, by a copy made before step 2 was acknowledged."""
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
    old = path.read_bytes()
    with SqliteStore(path) as store:
        store.commit(step(0, 2))
    store = SqliteStore(path)
    path.write_bytes(old)
    return store


@pytest.mark.usefixtures("watched_by")
def test_an_older_copy_written_over_the_live_file_is_noticed_before_the_next_acknowledgement(path: Path) -> None:
    with _overwrite_by_an_older_copy(path) as store, pytest.raises(Damaged) as damaged:
        store.commit(step(1, 1))
    assert damaged.value.reason == "regressed"


def test_a_copy_from_before_the_log_was_emptied_is_noticed_too(store: SqliteStore, path: Path) -> None:
    other, copies = apsw.Connection(str(path)), []
    for number in (4, 5, 6):
        store.commit(step(0, number))
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
        copies.append(path.read_bytes())
    other.close()
    path.write_bytes(copies[0])
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, 7))
    assert damaged.value.reason == "regressed"


def test_a_file_that_lost_its_tables_is_called_damaged(store: SqliteStore, path: Path) -> None:
    con = apsw.Connection(str(path))
    con.execute("DROP TABLE record")
    con.close()
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, 4))
    assert damaged.value.reason == "corrupt"


def test_a_file_with_a_second_name_is_not_opened(path: Path) -> None:
    SqliteStore(path).close()
    other = _part(path, ".other")
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(Unavailable) as refused:
            SqliteStore(name)
        assert refused.value.reason == "hard_link"


def test_a_symbolic_link_leads_to_the_same_store(store: SqliteStore, path: Path) -> None:
    link = _part(path, ".link")
    link.symlink_to(path)
    with SqliteStore(link) as same:
        same.commit(step(0, 4))
    store.commit(step(0, 5))
    check(store, [5], in_flight=0)


# ---- fork -----------------------------------------------------------------------------------------------------------


def _fork(path: Path) -> list[str]:
    """Use a store in a forked child, and open another there; return the reasons for which that was refused."""
    store = SqliteStore(path)
    store.commit(step(0, 1))
    reader, writer = os.pipe()

    def child() -> None:
        for attempt in (lambda: store.commit(step(0, 2)), lambda: store.read([]), lambda: SqliteStore(path)):
            try:
                attempt()
                os.write(writer, b"allowed ")
            except Unavailable as error:
                os.write(writer, error.reason.encode() + b" ")
        store.close()

    assert ended_well(forked(child))
    os.close(writer)
    reasons = os.read(reader, 1000).decode().split()
    os.close(reader)
    for number in (2, 3):
        repeat(store, 0, number)
    check(store, [3], in_flight=0)
    store.close()
    check_file(path)
    return reasons


def test_a_forked_child_is_refused_and_the_parent_is_unharmed(path: Path) -> None:
    assert apart(_fork, path) == ["forked"] * 3


def _child_leaves_in_the_ordinary_way(path: Path) -> bool:
    """Let a forked child end its interpreter, with everything that is finalised then, while the parent writes on."""
    program = """
import os, sys
from strongroom.backends.sqlite import SqliteStore
from tests.faults.checks import check, step
store = SqliteStore(sys.argv[1])
store.commit(step(0, 1))
if os.fork() == 0:
    sys.exit(0)
assert os.wait()[1] == 0
store.commit(step(0, 2))
check(store, [2], in_flight=0)
assert os.path.exists(sys.argv[1] + "-wal")
store.close()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(path)], capture_output=True, text=True)
    return done.returncode == 0 or pytest.fail(done.stderr)


def test_a_forked_child_that_ends_its_interpreter_does_not_take_the_files_along(path: Path) -> None:
    assert _child_leaves_in_the_ordinary_way(path)


def _turn_of_the_dead(path: Path) -> list[int]:
    """A parent forks while it has the turn to write, and is killed; its child lives on. Others must get their turn."""
    ready, told = os.pipe()

    def parent() -> None:
        store = SqliteStore(path)
        store.commit(step(0, 1))
        with store._queue.turn(float("inf")):
            child = os.fork()
            if child == 0:
                os.close(ready)
                signal.pause()
            os.write(told, f"{child} ".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    assert not ended_well(forked(parent))
    orphan = int(os.read(ready, 100))
    try:
        with SqliteStore(path, timeout_seconds=20) as store:
            with store._queue.turn(time.monotonic() + 20):
                pass
            repeat(store, 1, 1)
            return check(store, [1, 1], in_flight=0)
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_a_child_does_not_keep_the_turn_of_its_killed_parent(path: Path) -> None:
    assert apart(_turn_of_the_dead, path) == [1, 1]


# ---- negative controls ----------------------------------------------------------------------------------------------


def test_without_looking_at_the_files_an_acknowledged_commit_would_be_lost(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
    assert apart(_lose_a_commit, path)


def _lose_a_commit(path: Path) -> bool:
    """Acknowledge a commit into a deleted log, end without closing, and tell whether it is gone afterwards."""

    def careless() -> None:
        identity.Identity.check = lambda self: False  # type: ignore[method-assign]
        store = SqliteStore(path)
        store.commit(step(0, 2))
        _part(path, "-wal").unlink()
        store.commit(step(0, 3))
        os._exit(0)

    assert ended_well(forked(careless))
    with SqliteStore(path) as store:
        try:
            check(store, [3])
        except Lost:
            return True
    return False


def test_without_asking_for_the_last_receipt_an_older_copy_would_be_written_to(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer.Committer, "_check_not_older", lambda *_: None)
    _restore_an_older_copy(store, path)
    store.commit(step(1, 1))
    with pytest.raises(Lost):
        check(store, [4, 1])


def test_without_looking_at_the_stamp_an_older_copy_would_be_written_to(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity.Identity, "check", lambda self: False)
    with _overwrite_by_an_older_copy(path) as store:
        store.commit(step(1, 1))
        with pytest.raises(Lost):
            check(store, [2, 1])


def _write_under_two_names(path: Path) -> bool:
    """Commit under one name and end without closing, commit under the other; tell whether harm was done."""
    module.refuse_second_name = lambda path: None  # type: ignore[attr-defined]
    other = _part(path, ".other")
    SqliteStore(path).close()
    os.link(path, other)

    def write(name: Path, writer: int, leave: bool) -> None:
        store = SqliteStore(name)
        for number in range(1, 6):
            store.commit(step(writer, number))
        if leave:
            os._exit(0)
        store.close()

    assert ended_well(forked(write, path, 0, True))
    assert ended_well(forked(write, other, 1, False))
    try:
        with SqliteStore(path) as store:
            check(store, [5, 5], in_flight=0)
    except (Broken, Damaged):
        return True
    return False


def test_without_refusing_hard_links_acknowledged_commits_would_be_lost(path: Path) -> None:
    assert apart(_write_under_two_names, path)


def _fork_unguarded(path: Path) -> list[str]:
    SqliteStore._check_usable = lambda self, **_: None  # type: ignore[method-assign]
    module._inherited = _Nothing()
    return _fork(path)


class _Nothing(set[Path]):
    def add(self, _: Path) -> None:
        pass


def test_the_check_sees_a_store_that_lets_a_forked_child_in(path: Path) -> None:
    assert "allowed" in apart(_fork_unguarded, path)


def _commit_in_a_childs_copy_of_the_transaction(path: Path) -> bool:
    """Fork while a transaction is open, and let both go on with it; tell whether harm was done."""
    store = SqliteStore(path)
    store.commit(step(0, 1))
    owner = store._committer

    def child() -> None:
        writer.apply(step(1, 1))
        owner._make_durable(writer)
        os._exit(0)  # it was told that step 1 of writer 1 is done

    with owner._transaction() as writer:
        assert ended_well(forked(child))
        writer.apply(step(0, 2))
        owner._make_durable(writer)
    try:
        check(store, [2, 1], in_flight=0)
    except (Broken, Damaged):
        return True
    return False


def test_without_the_refusal_what_a_forked_child_commits_would_be_lost(path: Path) -> None:
    assert apart(_commit_in_a_childs_copy_of_the_transaction, path)
