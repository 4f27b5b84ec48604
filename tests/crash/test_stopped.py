"""A process stopped (SIGSTOP) while it holds the write lock: others are told in time, and woken it is still right."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from strongroom.backends.sqlite import SqliteStore, identity
from strongroom.errors import Damaged, Unavailable
from tests.crash.processes import apart, ended_well, forked
from tests.faults.checks import Broken, check, check_file, repeat, step
from tests.faults.disk import Disk, Operation


class Stopping(Disk):
    """Stops the process just before it writes to the log: the lock is taken, and nothing is written."""

    armed = False

    def before(self, operation: Operation) -> int:
        if self.armed and (operation.kind, operation.part) == ("write", "-wal"):
            self.armed = False
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().before(operation)


def _hold(path: Path) -> None:
    disk = Stopping(path)
    with disk, SqliteStore(path) as store:
        disk.armed = True
        repeat(store, 0, 1)
        repeat(store, 0, 2)


def _stopped_holder(path: Path) -> int:
    """Start a process and return once it is stopped in the middle of its first commit."""
    holder = forked(_hold, path)
    _, status = os.waitpid(holder, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return holder


def _try_meanwhile(path: Path) -> tuple[str, list[int]]:
    """Commit while the holder is stopped, then wake it and commit again; return what was said, and what is there."""
    SqliteStore(path).close()
    holder = _stopped_holder(path)
    with SqliteStore(path, timeout_seconds=0.3) as store:
        try:
            store.commit(step(1, 1))
            said = "done"
        except Unavailable as error:
            said = error.reason
        check(store, [0, 0], in_flight=0)  # readers do not wait
        os.kill(holder, signal.SIGCONT)
        assert ended_well(holder)
        repeat(store, 1, 1)
        found = check(store, [2, 1], in_flight=0)
    check_file(path)
    return said, found


def _kill_instead(path: Path) -> list[int]:
    """Kill the stopped holder; return what is there after the next commit."""
    SqliteStore(path).close()
    holder = _stopped_holder(path)
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    with SqliteStore(path) as store:
        repeat(store, 1, 1)
        return check(store, [0, 1], in_flight=0)


def test_others_are_told_that_a_stopped_process_holds_the_lock_and_its_commit_is_right_once_it_is_woken(
    path: Path,
) -> None:
    assert apart(_try_meanwhile, path) == ("locked", [2, 1])


def test_the_lock_of_a_stopped_process_that_is_killed_is_free_at_once(path: Path) -> None:
    assert apart(_kill_instead, path) == [0, 1]


# ---- negative control -----------------------------------------------------------------------------------------------


def _take_the_lock_away(path: Path) -> bool:
    """Write past the stopped holder's lock, wake it, and tell whether harm was done."""
    identity.Identity.check = lambda self: False  # type: ignore[method-assign]
    SqliteStore(path).close()
    holder = _stopped_holder(path)
    for suffix in ("-shm", "-queue"):
        path.with_name(f"{path.name}{suffix}").unlink()  # where the locks live: the next process makes new ones

    def other() -> None:
        store = SqliteStore(path)
        repeat(store, 1, 1)
        os._exit(0)

    assert ended_well(forked(other))
    os.kill(holder, signal.SIGCONT)
    ended_well(holder)
    try:
        with SqliteStore(path) as store:
            check(store, [2, 1], in_flight=0)
    except (Broken, Damaged):
        return True
    return False


def test_without_the_lock_the_woken_process_would_overwrite_what_others_committed(path: Path) -> None:
    assert apart(_take_the_lock_away, path)
