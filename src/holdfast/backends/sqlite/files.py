"""What the file system can do to a live database, and how we notice.

* A network file system breaks the locks that WAL needs: refused at open.
* A file deleted, replaced or restored under a live store would swallow commits: `Identity` compares inodes after
  every commit, before it is acknowledged.
* SQLite's own waiting is unfair: a busy process re-takes the lock it just released while others sleep. `Queue` is a
  turnstile in front of it. Whoever wants to write first gets the queue, keeps it until the write lock is theirs, and
  only then lets the next one in; so nobody is overtaken by a process that has just written.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import Damaged, Unavailable

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; SQLite's own locks keep it correct, if less fair
    fcntl = None  # type: ignore[assignment]

_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.", "vboxsf", "prl_fs")
# Where every change of a name passes through this kernel, so that its events tell of all of them.
_NOTIFYING = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay", "zfs", "bcachefs")
_NAMES_CHANGE = 0xFC0  # moved from or to, created, deleted; the folder itself deleted or moved
_COARSE_NS = 50_000_000
_SIDECARS = ("", "-wal", "-shm")


def refuse_network(path: Path) -> None:
    """Raise `Unavailable` if the path lies on a file system whose locks can not be trusted."""
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return  # not Linux: no cheap way to tell
    kind = filesystem_of(str(path.parent.resolve()), mounts)
    if kind.startswith(_NETWORK):
        raise Unavailable(
            f"{path} lies on a network file system ({kind}), where SQLite's locks do not work; "
            "put the file on a local disk, or use a postgresql:// store (nothing was changed)",
            reason="network_filesystem",
        )


def refuse_hard_link(path: Path) -> None:
    """Raise `Unavailable` if the file has a second name: its log would have a second name too, and split in two."""
    if path.exists() and path.stat().st_nlink > 1:
        raise Unavailable(
            f"{path} has more than one name (hard links); two processes that open it under different names would "
            "destroy it. Remove the other names, or copy the file (nothing was changed)",
            reason="hard_link",
        )


def filesystem_of(folder: str, mounts: str) -> str:
    """Return the type of the file system a folder is on, given the text of /proc/self/mounts."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), fields[2]
    return kind


class Identity:
    """Which files a store opened, so that it can tell when they are no longer the ones at its path.

    Deleting, replacing or renaming a file changes its folder, so one look at the folder stands for all of them. The
    files themselves are asked only when it has changed: asking Linux (6.13 and later) for a file's times makes the
    next write stamp it afresh, and the next fdatasync then costs a journal commit more (measured: 60 us, half of a
    whole commit).
    """

    def __init__(self, path: Path) -> None:
        self._folder = _folder_of(path.parent)
        self._names = [f"{path}{suffix}" for suffix in _SIDECARS]
        self._ids = [_inode(name) for name in self._names]

    def check(self) -> None:
        """Raise `Damaged` if the database or a sidecar was deleted or exchanged."""
        if self._folder.changed():
            self._compare()

    def close(self) -> None:
        self._folder.close()

    def _compare(self) -> None:
        for name, known in zip(self._names, self._ids, strict=True):
            found = _inode(name)
            if found != known:
                happened = "deleted" if found is None else "replaced"
                raise Damaged(
                    f"{name} was {happened} while the store was open; it has stopped writing, so that what is "
                    "there now is not damaged further. Commits acknowledged before this may be missing from the "
                    "file. Stop every process that uses it, restore a backup, and open it again",
                    reason="replaced",
                )


def _inode(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _folder_of(path: Path) -> NotifiedFolder | PlainFolder:
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace")
        if filesystem_of(str(path), mounts) in _NOTIFYING:
            return NotifiedFolder(str(path))
    except OSError:
        pass  # not Linux, or this user watches too much already
    return PlainFolder(str(path))


class NotifiedFolder:
    """Asks the kernel's own queue of events (inotify) whether names in a folder changed: half the price of a stat."""

    def __init__(self, folder: str) -> None:
        import ctypes  # here, because it takes milliseconds that a user of another store need not spend

        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        if libc.inotify_add_watch(self._fd, os.fsencode(folder), _NAMES_CHANGE) < 0:
            os.close(self._fd)
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        news = select.poll()
        news.register(self._fd, select.POLLIN)
        self._poll = news.poll

    def changed(self) -> bool:
        if not self._poll(0):
            return False
        while self._poll(0):
            os.read(self._fd, 65536)
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    __del__ = close  # a user may watch 128 folders: a store that nobody closed must not keep one


class PlainFolder:
    """Compares a folder's own time, where there are no events."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: tuple[int, int] | None = None

    def changed(self) -> bool:
        try:
            found = os.stat(self._folder)
        except OSError:
            return True
        seen, self._seen = self._seen, (found.st_ino, found.st_mtime_ns)
        # A folder's time may be coarse: one that changed a moment ago may change again without showing it.
        return seen != self._seen or time.time_ns() - found.st_mtime_ns < _COARSE_NS

    def close(self) -> None:
        pass


class Queue:
    """A fair turn among processes, by a lock on a small file beside the database.

    Its one byte, shared by mmap, tells whether somebody is in the queue, so that a lone writer spends no system call
    on it. A byte left set by a killed process costs the next ones a turn, no more.

    A separate file, because closing any other descriptor of the database itself would drop SQLite's POSIX locks.
    Losing this file costs fairness, never correctness.
    """

    def __init__(self, path: Path) -> None:
        self._name = f"{path}-queue"
        self._fd = -1
        self._flag: mmap.mmap | None = None

    @property
    def empty(self) -> bool:
        """Whether nobody is waiting, as far as can be told without asking the kernel."""
        if self._flag is None:
            self._open()
        return self._flag is None or self._flag[0] == 0

    @contextmanager
    def turn(self, deadline: float) -> Iterator[None]:
        """Wait in line; raise `Unavailable` at the deadline (of time.monotonic)."""
        if self._fd < 0:
            self._open()
        self._enter(deadline)
        try:
            if self._flag is not None:
                self._flag[0] = 1
            yield
        finally:
            if self._flag is not None:
                self._flag[0] = 0
            if fcntl is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._flag is not None:
            self._flag.close()
            self._flag = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _enter(self, deadline: float) -> None:
        if fcntl is None:  # pragma: no cover
            return
        pause = 0.0002
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "other processes kept the database busy the whole time; nothing changed", reason="locked"
                    ) from None
            # Polling with a steady pause, not a blocking call: it can time out, and a stopped process can not hang us.
            time.sleep(pause)
            pause = min(pause * 1.5, 0.002)

    def _open(self) -> None:
        try:
            self._fd = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if os.fstat(self._fd).st_size == 0:
                os.write(self._fd, b"\0")
            self._flag = mmap.mmap(self._fd, 1)
        except OSError as problem:
            reason = {errno.EROFS: "read_only", errno.ENOSPC: "disk_full"}.get(problem.errno or 0, "permission")
            raise Unavailable(
                f"{self._name} can not be opened ({problem.strerror}); nothing changed", reason=reason
            ) from None
