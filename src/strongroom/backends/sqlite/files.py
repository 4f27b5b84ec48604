"""What file systems do to databases: locks that do not work, second names, coarse times, unfair turns.

* A network file system breaks the locks that WAL needs: refused at open.
* SQLite's own waiting is unfair: a busy process re-takes the lock it just released while others sleep. `Queue` is a
  turnstile in front of it. Whoever wants to write first gets the queue, keeps it until the write lock is theirs, and
  only then lets the next one in; so nobody is overtaken by a process whose turn is over.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from strongroom.errors import Damaged, InvalidInput, Unavailable

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; SQLite's own locks keep it correct, if less fair
    fcntl = None  # type: ignore[assignment]

# Whether there are locks that belong to an open file and not to a process: nobody else's `close` drops them.
OPEN_FILE_LOCKS = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")

Stretch = tuple[int, int]  # where a lock begins in a file, and its length
_WRITING: Stretch = (0, 1)

# How long whoever got the write lock in line may write again before the next one. A process has to read again what
# others changed, and the next one has to wake up: each commit of another process than the last costs three of the same
# (8 processes are 0.67 of one this way, and 0.28 where every commit stands in line).
TURN_SECONDS = 0.002
_FIRST_PAUSE_SECONDS, _LEAST_PAUSE_SECONDS = 0.001, 0.0005

# Times of files may be coarse: what is written within that of another write may not show in them.
COARSE_NS = 50_000_000

_LONGEST_BESIDE = "-journal"  # of what SQLite and we put beside a file, under its name and more
_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.", "vboxsf", "prl_fs")


def refuse_folder(path: Path) -> None:
    """Raise `InvalidInput` if the path leads to a folder."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; name a file in it, such as {path / 'agent.db'} (nothing was opened)")


def resolved(path: Path, *, writing: bool = False) -> Path:
    """Return where a path leads, or raise `InvalidInput` if no store can be there: under a name that is too long, for
    what lies beside it while it is written too, behind links that lead in a circle, or in what is no ordinary file."""
    try:
        found = path.resolve()
        if writing:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                Path(f"{found}{_LONGEST_BESIDE}").stat()
        mode = found.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return found  # it may have to be made; whoever opens it is told
    except RuntimeError:
        raise _circle(path) from None
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise _circle(path) from None
        if problem.errno == errno.ENAMETOOLONG:
            raise InvalidInput(
                f"{str(path)!r:.80} is too long: a name in a path has at most 255 bytes, that of a store "
                f"{255 - len(_LONGEST_BESIDE)}, since files beside it are named after it (nothing was opened)"
            ) from None
        return found
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InvalidInput(
            f"{found} is no ordinary file, which a store is kept in, but a device, a pipe or a socket; name a file, "
            "such as agent.db (nothing was opened)"
        )
    return found


def _circle(path: Path) -> InvalidInput:
    return InvalidInput(f"{str(path)!r:.80} is a link that leads back to itself; name a file (nothing was opened)")


def refuse_network(path: Path) -> None:
    """Raise `Unavailable` if the path lies on a file system whose locks cannot be trusted."""
    kind = filesystem_of(str(path.parent.resolve()), _mounts())
    if kind.startswith(_NETWORK):
        raise Unavailable(
            f"{path} lies on a network file system ({kind}), where SQLite's locks do not work; "
            "put the file on a local disk, or use a postgresql:// store (nothing was opened)",
            reason="network_filesystem",
        )


def refuse_second_name(path: Path) -> None:
    """Raise `Unavailable` if the file has a second name: its log would have a second name too, and split in two."""
    if path.exists() and path.stat().st_nlink > 1:
        raise Unavailable(
            f"{path} has more than one name (hard links); two processes that open it under different names would "
            "destroy it. Remove the other names, or copy the file (nothing was opened)",
            reason="hard_link",
        )
    if is_mounted_alone(str(path), _mounts()):
        raise Unavailable(
            f"{path} is mounted alone, without the log that belongs beside it; what is written here would be lost to "
            "those who open it in its own folder, or with the container. Mount the folder that holds it instead "
            "(nothing was opened)",
            reason="hard_link",
        )


def refuse_log_beside_link(link: Path, path: Path) -> None:
    """Raise `Damaged` if a file was moved away from its log, and a link left in its place."""
    log = Path(f"{link}-wal")
    if link.is_symlink() and log.resolve() != Path(f"{path}-wal") and log.exists() and log.stat().st_size:
        raise Damaged(
            f"{log} holds commits of a file that was moved to {path} without it; move {log.name} there as well, or put "
            "the file back (nothing was opened)",
            reason="replaced",
        )


def rights_beside(database: os.stat_result) -> int:
    """Return the rights of a file that is made beside a database: those of the database, and its owner may write."""
    return stat.S_IMODE(database.st_mode) | stat.S_IRUSR | stat.S_IWUSR


def lock_shared(fd: int, place: Stretch) -> None:
    """Hold a place in an open file with others who share it, or raise `OSError`."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _packed(place, fcntl.F_RDLCK))


def lock_alone(fd: int, place: Stretch) -> None:
    """Hold a place in an open file alone, or raise `OSError`."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _packed(place, fcntl.F_WRLCK))


def unlock(fd: int, place: Stretch) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _packed(place, fcntl.F_UNLCK))


@cache
def _packed(place: Stretch, kind: int) -> bytes:
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, *place, 0)


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return ""  # not Linux: no cheap way to tell


def _points(mounts: str) -> Iterator[tuple[str, str]]:
    """Give where something is mounted, and its type, given the text of /proc/self/mounts."""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) >= 3:
            yield re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[1]), fields[2]


def filesystem_of(folder: str, mounts: str) -> str:
    """Return the type of the file system a folder is on, given the text of /proc/self/mounts."""
    best, kind = -1, ""
    for point, its_kind in _points(mounts):
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), its_kind
    return kind


def is_mounted_alone(file: str, mounts: str) -> bool:
    """Tell whether a file itself is mounted, and not the folder that it is in."""
    return any(point == file for point, _ in _points(mounts))


def facts_of(name: str | Path) -> tuple[int, ...] | None:
    """Return what tells that a file is another one, or may hold something else: its place, its size and its times."""
    try:
        found = Path(name).lstat()  # paths are resolved: a link there now leads to a file whose log is elsewhere
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def inode_of(name: str | Path) -> tuple[int, ...] | None:
    """Return what tells that a file is another one."""
    facts = facts_of(name)
    return None if facts is None else facts[:2]


class Queue:
    """A fair turn among processes, by a lock on a small file beside the database.

    Its one byte, shared by mmap, tells whether somebody is in the queue, so that a lone writer spends no system call
    on it. A byte left set by a killed process costs the next ones a turn, no more.

    A separate file, because closing any other descriptor of the database itself would drop SQLite's POSIX locks.
    Losing this file costs fairness, never correctness.

    Whoever writes holds a lock on it besides SQLite's own, which another copy of SQLite in this process drops whenever
    it closes the file (see `presence`): else two processes could write at once.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._name = path, f"{path}-queue"
        self._fd = -1
        self._flag: mmap.mmap | None = None
        self._held = False
        self._turn_ends = 0.0

    @property
    def is_ours(self) -> bool:
        """Whether we may write without waiting in line: our turn is not over, or nobody waits, as far as can be told
        without asking the kernel."""
        if self._flag is None:
            self._open()
        return self._flag is None or self._flag[0] == 0 or time.monotonic() < self._turn_ends

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
            self._turn_ends = time.monotonic() + TURN_SECONDS
        finally:
            if self._flag is not None:
                self._flag[0] = 0
            if fcntl is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def hold(self) -> bool:
        """Be the only one who writes, unless somebody else is; tell whether it is so. Holding it twice is fine."""
        if self._fd < 0:
            self._open()
        if OPEN_FILE_LOCKS and not self._held:
            self._held = True  # before it is so: whoever is interrupted then lets go of it
            try:
                lock_alone(self._fd, _WRITING)
            except BlockingIOError:
                self._held = False
                return False
            except OSError:
                pass  # a file system without such locks: SQLite's own have to do
        return True

    def let_go(self) -> None:
        """Let others write."""
        if self._held:
            with suppress(OSError):
                unlock(self._fd, _WRITING)
            self._held = False

    def close(self) -> None:
        self._held = False
        if self._flag is not None:
            self._flag.close()
            self._flag = None
        fd, self._fd = self._fd, -1  # first: an interrupt in between must not have it closed twice, as somebody else's
        if fd >= 0:
            os.close(fd)

    def _enter(self, deadline: float) -> None:
        if fcntl is None:  # pragma: no cover
            return
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "other processes kept the database busy the whole time; nothing changed", reason="locked"
                    ) from None
            # Polling, not a blocking call: it can time out, and a stopped process cannot hang us. Whoever has waited
            # longer looks more often, and so is more likely to be next.
            time.sleep(pause)
            pause = max(pause * 0.9, _LEAST_PAUSE_SECONDS)

    def _open(self) -> None:
        try:
            self._fd = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            with suppress(OSError):  # whoever may not read the database may not stand in its queue, and the reverse
                os.fchmod(self._fd, rights_beside(self._path.stat()))
            if os.fstat(self._fd).st_size == 0:
                os.write(self._fd, b"\0")
            self._flag = mmap.mmap(self._fd, 1)
        except OSError as problem:
            reason = {errno.EROFS: "read_only", errno.ENOSPC: "disk_full"}.get(problem.errno or 0, "permission")
            raise Unavailable(
                f"{self._name} cannot be opened ({problem.strerror}); nothing changed", reason=reason
            ) from None
