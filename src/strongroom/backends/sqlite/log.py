"""Keeping the log's file longer than what is in it, and what is in it from growing without end.

When a file has grown, its fsync must also write the file system's own journal: on ext4 a commit then takes 300 us
instead of 160. SQLite writes over its log from the start again and again, so that is the price of a log that is new or
longer than ever. Zeros ahead of the writer make it a price per stretch instead of per commit.

SQLite takes them for what an earlier round left there: a frame without the right salt and checksum ends the log.

It starts over at the beginning only while nobody reads from the log, so somebody has to see to it that there is such a
moment.
"""

from __future__ import annotations

import os

import apsw

from strongroom.backends.sqlite.raw import RawFile

# Emptying the log costs two fsyncs and a write for each page that changed, however often: four times less often than
# SQLite would, at 16 MB instead of 4, which a crash makes the next opening read. (A commit beside a bare one: 0.81
# instead of 0.78.)
FULL = 4000  # frames

_FRAME = 24 + 4096
_STRETCH = 16, 256  # frames to write at once, at least and at most: as many as the log has
_ZEROS = bytes(65536)  # SQLite writes less than 128 KB at once, and forgets the rest
_LARGE = 24  # frames in a commit: about so many take as long to write twice as the file system's journal takes once
_TOO_LONG = FULL + FULL // 8
_PATIENCE_MILLISECONDS = 100
_LOOKS = 3
MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # how a log begins that holds something
_ROOM = 64  # leave a disk alone unless it has room for so many stretches


class Log:
    """How much of the log is used, and how far ahead of the writer its file reaches; in frames."""

    def __init__(self) -> None:
        self.wanted = 0  # how long it should be
        self.due = 0  # after how many commits it is worth a look
        self._end = 0
        self._used = 0
        self._too_long = _TOO_LONG  # frames
        self._looked_after = 1
        self._file: tuple[apsw.Connection, RawFile] | None = None

    @property
    def nearly_full(self) -> bool:
        """Whether one of the next commits will have to empty it."""
        return self._used > FULL - _LARGE

    def look(self, con: apsw.Connection) -> None:
        """After a commit, when it is due: see how much is used. Start over if it is too much, want more if little is
        left."""
        try:
            used = con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
        except apsw.Error:
            return  # the commit stands; whatever is wrong, the next one meets it
        if used > self._too_long:
            self._start_over(con, used)
        each = (used - self._used) / self._looked_after
        self._used = used
        stretch = min(max(used, _STRETCH[0]), _STRETCH[1])
        if used + stretch // 4 > self._end and used >= _STRETCH[0] and 0 < each < _LARGE:
            self.wanted = used + stretch
        ahead = max(self._end, self.wanted) - used
        self.due = max(0, min(ahead // 8, (FULL - used) // _LARGE))
        self._looked_after = self.due + 1

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

    def extend(self, con: apsw.Connection) -> None:
        """Write what is wanted. The caller holds the write lock, so nobody else writes to the log."""
        wanted, self.wanted = self.wanted, 0
        self._end = wanted  # and if it fails: what is a favour is not tried again at once
        try:
            file = RawFile(con, apsw.SQLITE_FCNTL_JOURNAL_POINTER)
            start, stop = file.size(), 32 + wanted * _FRAME
            # A shorter file was emptied since we looked. After a power cut that may turn out not to have happened, and
            # zeros in the old log would end it too early: some of what it holds would come back, and not the rest.
            if 32 + self._used * _FRAME <= start < stop and _room(con) > _ROOM * (stop - start):
                for place in range(start, stop, len(_ZEROS)):
                    if not file.write(_ZEROS[: stop - place], place):
                        break
        except Exception:
            pass  # a disk that says no will say so to the commit itself, too

    def is_cut(self, con: apsw.Connection) -> bool:
        """After a commit: tell whether somebody cut the log short from outside, and what it held is gone.

        Others may empty it at any moment, in SQLite's own way: they first say that it holds nothing, and then cut it.
        """
        try:
            for _ in range(_LOOKS):
                if self._begins(con) or con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0] == 0:
                    return False
        except (apsw.Error, OSError):
            return False  # the commit stands; whatever is wrong, the next one meets it
        return True

    def _begins(self, con: apsw.Connection) -> bool:
        if self._file is None or self._file[0] is not con:
            self._file = (con, RawFile(con, apsw.SQLITE_FCNTL_JOURNAL_POINTER))
        file = self._file[1]
        found = file.read(4, 0)
        return file.size() >= 4 if found is None else found in MAGIC  # a disk that can not be read tells nothing

    def truncated(self) -> None:
        """Know that the log's file was cut short."""
        self._end = 0


def _room(con: apsw.Connection) -> int:
    found = os.statvfs(con.filename)
    return found.f_bavail * found.f_frsize
