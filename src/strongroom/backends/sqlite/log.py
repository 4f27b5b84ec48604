"""The write-ahead log: is it whole, is it kept from growing without end, and is there room in it?

SQLite starts over at the log's beginning only while nobody reads from it, so somebody has to see to it that there is
such a moment.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import apsw

# Emptying the log costs two fsyncs and a write for each page that changed, however often: four times less often than
# SQLite would, at 16 MB instead of 4, which a crash makes the next opening read. (A commit beside a bare one: 0.81
# instead of 0.78.)
FULL = 4000  # frames

# A file that grows is dearer to sync: its length is written, too. So a log is made longer by many frames at once.
_ROOM = 16  # frames, which is more than most commits need
_LEAST, _MOST = 32, 256  # frames of zeros; as many as are there, in between
_ZEROS = memoryview(bytes(_MOST * (4096 + 24)))  # made once: a page and its header, so many times

_TOO_LONG = FULL + FULL // 8
_PATIENCE_MILLISECONDS = 100
_LOOKS = 3
HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # how a log begins that holds something


def frames(con: apsw.Connection) -> tuple[int, int]:
    """Return how many frames the log holds, and how many of them are in the file already. Not inside a transaction."""
    return con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)


class Log:
    """The log of an open store, as its one writer sees it after each commit."""

    def __init__(self, path: Path, *, synced: bool) -> None:
        self._path, self._name = path, f"{path}-wal"
        self._synced = synced  # whether each commit waits for the disk
        self._fd = -1  # SQLite holds no locks on the log, so it may be opened and closed
        self._too_long = _TOO_LONG
        self._before = 0  # how many frames it held before the transaction that is under way, or was last
        self._frame_bytes = 0

    def measure(self, con: apsw.Connection) -> None:
        """Know how much the log holds before a transaction, when others may have written."""
        self._before = frames(con)[0]
        if not self._frame_bytes:
            self._frame_bytes = _FRAME_HEADER_BYTES + int(con.pragma("page_size"))

    def is_in_file(self, con: apsw.Connection) -> bool:
        """Tell whether the file itself has everything that was in the log before the transaction that is under way."""
        total, copied = frames(con)
        return copied >= self._before or total < self._before  # it starts over only once all of it is copied

    def look(self, con: apsw.Connection) -> None:
        """After a commit: start over if the log has become too long."""
        try:
            used = frames(con)[0]
        except apsw.Error:
            return  # the commit stands; whatever is wrong, the next one meets it
        self._before = used
        if used > self._too_long:
            self._start_over(con, used)

    def _start_over(self, con: apsw.Connection, used: int) -> None:
        """Wait for those who read from the log just now. Left alone, readers who take turns can keep SQLite from ever
        writing at its beginning again; those who come from here on read from the file itself."""
        con.set_busy_timeout(_PATIENCE_MILLISECONDS)
        try:
            con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            self._too_long = _TOO_LONG
        except apsw.Error:
            self._too_long = used + FULL // 8  # somebody reads for long: try again, but not at once
        finally:
            con.set_busy_timeout(0)

    def is_short(self, con: apsw.Connection) -> bool:
        """Before a commit is written: tell whether the log is shorter than what it holds. `con` is in no transaction.

        Written to, such a log would have a hole, and whoever copies it into the file copies the hole. By its end and
        not by `fstat`, which makes the next write dearer (see `identity`).
        """
        try:
            self._open()
            for _ in range(_LOOKS):
                needed = self._before and HEADER_BYTES + self._before * self._frame_bytes
                if os.lseek(self._fd, 0, os.SEEK_END) >= needed:
                    return False
                self.measure(con)  # somebody may have emptied it, in SQLite's own way
        except (apsw.Error, OSError):
            return False  # whatever is wrong, the commit meets it
        return True

    def make_room(self) -> None:
        """Before a commit: put zeros behind the end of a log that is new. Only for who may write, so that nobody else
        writes there; SQLite takes zeros for the end, as it does what is left there of an earlier round."""
        if not self._synced or not self._frame_bytes:
            return
        with suppress(OSError):  # whatever is wrong, the commit meets it
            self._open()
            end = os.lseek(self._fd, 0, os.SEEK_END)
            whole = end // self._frame_bytes
            if whole < FULL and whole - self._before < _ROOM:
                os.pwrite(self._fd, _ZEROS[: min(max(whole, _LEAST), _MOST) * self._frame_bytes], end)

    def empty(self) -> None:
        """Cut a log whose beginning is gone once more: what was added to it since must not be copied by anybody."""
        with suppress(OSError):
            os.truncate(self._name, 0)

    def rescue(self, con: apsw.Connection) -> bool:
        """Copy a log that was deleted, and that SQLite still has open, into the file; tell whether all of it is there.

        Only while nobody has begun another one, and nobody can: without a shared lock on the file no one opens it, and
        none is given from the moment that somebody waits for an exclusive one.
        """
        flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
        try:
            door = apsw.VFSFile("", str(self._path), flags)
            try:
                door.xLock(apsw.SQLITE_LOCK_SHARED)
                door.xLock(apsw.SQLITE_LOCK_RESERVED)
                with suppress(apsw.BusyError):  # `con` has the file open
                    door.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
                if Path(self._name).exists():
                    return False
                con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
                total, copied = frames(con)
                return copied >= total
            finally:
                door.xUnlock(apsw.SQLITE_LOCK_NONE)
                door.xClose()
        except apsw.Error:
            return False

    def is_cut(self, con: apsw.Connection) -> bool:
        """After a commit: tell whether somebody cut the log to nothing from outside, and what it held is gone.

        Others may empty it at any moment, in SQLite's own way: they first say that it holds nothing, and then cut it.
        """
        try:
            self._open()
            for _ in range(_LOOKS):
                if os.pread(self._fd, 4, 0) in MAGIC or frames(con)[0] == 0:
                    return False
        except (apsw.Error, OSError):
            return False  # the commit stands; whatever is wrong, the next one meets it
        return True

    def _open(self) -> None:
        if self._fd < 0:
            self._fd = os.open(self._name, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the file, which may be another one when it is looked at again."""
        fd, self._fd = self._fd, -1  # first: an interrupt in between must not have it closed twice, as somebody else's
        if fd >= 0:
            os.close(fd)

    __del__ = close
