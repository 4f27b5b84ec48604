"""Being seen by another copy of SQLite in this process, such as Python's own `sqlite3`.

Theory of operation
-------------------
The locks of SQLite belong to a process, so a second copy of SQLite in it sees none of the first one's. Opening the
file it takes itself for the first, and cuts the index of the log (`-shm`): the kernel ends the process for a thread
that reads there meanwhile. Closing it, it takes itself for the last, and removes the log. And whatever it closes drops
the locks that this process has on it.

Locks that belong to an open file (Linux: F_OFD_SETLK) are seen by everybody and stay until they are given back. Two of
them, as shared as those that SQLite itself has for as long as a file is open: where SQLite looks for others before it
cuts the index, and where nobody may be for the log to be put away.

Rules
-----
* They are taken once a connection is open, and given back before the last one is closed: our own SQLite must find
  nobody, too, when it creates the file, puts the log away or changes the key.
* They are given back without closing the file, since that would drop every lock of this process on it. It is closed
  when nothing else in this process has it open; until then it waits, and is used again. Another thread that opens it
  between that look and the closing loses the locks that it has by then: nothing looks and closes at once.
* A forked child closes its copies: nothing of its parent's is dropped by that, and the locks do not outlive the parent.

Where there are no such locks, a log that was removed is noticed and replaced (`SqliteStore.reconnect`).
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from strongroom.backends.sqlite.files import OPEN_FILE_LOCKS, Stretch, lock_shared, unlock

_SHARED: Stretch = (0x40000002, 510)  # what SQLite locks in a database while it reads there
_OPEN: Stretch = (128, 1)  # what it locks in the index of a log for as long as it has that open

File = tuple[int, int]  # its device and its number there


class Presence:
    """Shows that one store has its files open."""

    def __init__(self, path: Path) -> None:
        self._places = ((str(path), _SHARED), (f"{path}-shm", _OPEN))
        self._shown: list[_Lock] = []

    def show(self) -> None:
        """Take the locks, on the files that are there now."""
        if not OPEN_FILE_LOCKS:
            return
        before, self._shown = self._shown, []
        with _changing, suppress(OSError):  # without them all is as it would be elsewhere
            for name, place in self._places:
                self._shown.append(_take(name, place))
        self._give_back(before)

    def hide(self) -> None:
        """Give the locks back, before the last connection is closed."""
        shown, self._shown = self._shown, []
        self._give_back(shown)

    __del__ = hide  # of a store that nobody closed

    @staticmethod
    def close_unneeded() -> None:
        """Close what nobody in this process needs any more, after the last connection was closed."""
        if _locks:
            with _changing:
                _close_unneeded()

    @staticmethod
    def _give_back(locks: list[_Lock]) -> None:
        with _changing:
            for lock in locks:
                lock.users -= 1
                if lock.users == 0:
                    with suppress(OSError):
                        unlock(lock.fd, lock.place)


class _Lock:
    """One open file of this process, and how many stores are shown by it."""

    def __init__(self, fd: int, place: Stretch) -> None:
        self.fd, self.place, self.users = fd, place, 0
        found = os.fstat(fd)
        self.file = (found.st_dev, found.st_ino)


_changing = threading.RLock()  # of what follows; again, if what nobody closed is collected meanwhile
_locks: list[_Lock] = []


def _take(name: str, place: Stretch) -> _Lock:
    there = Path(name).stat()
    file = (there.st_dev, there.st_ino)
    lock = next((lock for lock in _locks if lock.file == file), None)
    if lock is None:
        lock = _Lock(os.open(name, os.O_RDONLY | os.O_CLOEXEC), place)
        _locks.append(lock)
    lock.users += 1  # first: a store that is collected in between gives back what nobody uses
    try:
        lock_shared(lock.fd, place)
    except OSError:
        lock.users -= 1
        raise
    return lock


def _close_unneeded() -> None:
    unused = [lock for lock in _locks if lock.users == 0]
    opened = _open_files() if unused else []
    for lock in unused:
        if opened.count(lock.file) == 1:  # by us
            _locks.remove(lock)
            os.close(lock.fd)


def _open_files() -> list[File]:
    """Return every file that this process has open, as often as it has."""
    found = []
    with suppress(OSError):
        for opened in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # that of the folder itself is closed by now
                there = opened.stat()
                found.append((there.st_dev, there.st_ino))
    return found


def _close_in_child() -> None:
    global _changing
    _changing = threading.RLock()  # somebody else's thread may have held it
    for lock in _locks:
        with suppress(OSError):  # the rest must not stay open for that
            os.close(lock.fd)
        lock.users = -1  # an inherited store must not give back what has the number of its file by then
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
