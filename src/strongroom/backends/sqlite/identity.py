"""Whether the files of an open store are still the ones it opened, asked after every commit before it is acknowledged.

* A file that was deleted, exchanged or renamed would swallow commits. That changes its folder, so one look at the
  folder stands for all files, which are asked only when it has changed: asking Linux (6.13 and later) for a file's
  times makes the next write stamp it afresh, and the next fdatasync then costs a journal commit more (measured: 60 us,
  half of a whole commit).
* A log that went away without the file need not have taken anything along: see `SqliteStore.reconnect`.
* An older copy written over the database in place keeps the file and loses what is in it. Every state that reaches
  the file itself carries a greater stamp than those before (`schema.stamp`), so a smaller one tells.
"""

from __future__ import annotations

import ctypes
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

from strongroom.backends.sqlite.files import COARSE_NS, filesystem_of, inode_of
from strongroom.errors import Damaged

# Where every change passes through this kernel, so that its events tell of all of them.
_NOTIFYING = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay", "zfs", "bcachefs")
_NAMES_CHANGE = 0xFC0  # inotify: moved from or to, created, deleted; the folder itself deleted or moved
_WRITTEN_TO = 0x2
_SIDECARS = ("", "-wal", "-shm")


class LogRemovedError(Exception):
    """The log is gone, or another one; the file is the one that was opened. Whether anything is lost is not known."""


class Identity:
    """Which files a store opened. `read_stamp` reads the stamp in the file itself, past the log."""

    def __init__(self, path: Path, read_stamp: Callable[[], int]) -> None:
        self._path = path
        self._read_stamp = read_stamp
        self._watch = _watch(path)
        self._lock = threading.Lock()  # nobody may act on news that somebody else has taken, and not looked at yet
        self._names = [f"{path}{suffix}" for suffix in _SIDECARS]
        self._stamp = -1
        self._news = False
        self._removed = False
        self.renew()

    def renew(self) -> None:
        """Take the files that are there now for ours."""
        self._ids = [inode_of(name) for name in self._names]
        self._removed = False
        self._stamp = max(self._stamp, self._read_stamp())

    def check(self) -> bool:
        """Raise `Damaged` or `LogRemovedError` if the files are not ours any more; tell whether they may have been
        written to since this was asked last."""
        with self._lock:
            if not self._watch.changed() and not self._news:
                return False
            self._news = True
            self._stamp = self.look()
            self._news = False
            return True

    def is_log_removed(self) -> bool:
        """Tell those who read whether the log they read from is the one that others write to."""
        with self._lock:
            if self._watch.changed() or self._removed:
                self._news = True  # for `check`
                self._removed = self._changed_name() in self._names[1:]
            return self._removed

    def look(self) -> int:
        """Raise as `check` does; return the stamp in the file. Takes nobody's news away."""
        name = self._changed_name()
        if name == self._names[0]:
            raise self.replaced(name)
        if name is not None:
            raise LogRemovedError(name)
        stamp = self._read_stamp()
        if stamp < self._stamp:
            raise Damaged(
                f"{self._path} was overwritten by an older copy while the store was open; it has stopped writing. Stop "
                "every process that uses it, restore a backup, and open it again",
                reason="regressed",
            )
        return stamp

    def replaced(self, name: str, *, rescued: bool = False) -> Damaged:
        """Return what to tell of a file that is not ours any more; `rescued`: and nothing of what it held is lost."""
        happened = "replaced" if Path(name).exists() else "deleted"
        found = "missing from the file. Stop every process that uses it, restore a backup, and open it again"
        return Damaged(
            f"{name} was {happened} while the store was open; it has stopped writing, so that what is "
            "there now is not damaged further. "
            + (
                "What it held is in the database; open it again"
                if rescued
                else f"Commits acknowledged before this may be {found}"
            ),
            reason="replaced",
        )

    def close(self) -> None:
        with self._lock:  # a reader may be asking
            self._watch.close()

    def _changed_name(self) -> str | None:
        """Return the name that no longer leads to our file, if there is one."""
        for name, known in zip(self._names, self._ids, strict=True):
            if inode_of(name) != known:
                return name
        return None


# ---- two ways to watch ----------------------------------------------------------------------------------------------


def _watch(path: Path) -> Events | Times:
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace")
        if filesystem_of(str(path.parent), mounts) in _NOTIFYING:
            return Events(path)
    except OSError:
        pass  # not Linux, or this user watches too much already
    return Times(path)


class Events:
    """Asks the kernel's queue of events (inotify): half the price of a look at the folder."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        for name, events in ((path.parent, _NAMES_CHANGE), (path, _WRITTEN_TO)):
            if libc.inotify_add_watch(self._fd, os.fsencode(name), events) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch")
        news = select.poll()
        news.register(self._fd, select.POLLIN)
        self._poll = news.poll

    def changed(self) -> bool:
        if self._fd < 0 or not self._poll(0):
            return False
        while self._poll(0):
            os.read(self._fd, 65536)
        return True

    def close(self) -> None:
        fd, self._fd = self._fd, -1  # first: an interrupt in between must not have it closed twice, as somebody else's
        if fd >= 0:
            os.close(fd)

    __del__ = close  # a user may have 128 such queues: a store that nobody closed must not keep one


class Times:
    """Compares times and sizes, where there are no events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None

    def changed(self) -> bool:
        try:
            folder, file = self._path.parent.stat(), self._path.stat()
        except OSError:
            return True
        seen = self._seen
        self._seen = (folder.st_ino, folder.st_mtime_ns, file.st_ino, file.st_mtime_ns, file.st_size)
        # Times may be coarse: what changed a moment ago may change again without showing it.
        recent = time.time_ns() - max(folder.st_mtime_ns, file.st_mtime_ns) < COARSE_NS
        return recent or seen != self._seen

    def close(self) -> None:
        pass
