"""Erasing from the files: clear what is left of it in the pages of the database, and empty the log.

`secure_delete` zeroes what is deleted, and FTS5's own takes words out of its index. What is left are copies in the gaps
of pages, which `gaps.py` clears, and in the log, which must be emptied: that takes a moment in which nobody reads from
it, and may have to be waited for. Words that were taken out of the index earlier, without erasing them, lie in it until
its parts are joined; the file remembers whether there are any.

Where pages cannot be cleared one by one, because the file is encrypted or very large, it is rewritten as a whole, and
everybody who writes waits for it. One clearing or rewriting stands for all erasures before it, and a large file rests
between two.

Until all is done the file itself says that it is not: a row of `duty`, written in the transaction that erases. Whoever
comes next, in whatever process, finds it and goes on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from strongroom.backends.sqlite.gaps import MOST_PAGES, empty_log

PATIENCE_SECONDS = 2.0  # for those who read, when somebody waits for an erasure
PAUSE_SECONDS = 1.0  # between looks whether they are gone, when nobody does
# A file of 400 MB is rewritten every 100 seconds at most, and cleared every second and a half; small ones always.
REWRITTEN_BYTES_A_SECOND = 4 << 20
CLEARED_BYTES_A_SECOND = 256 << 20

_READER = "somebody reads from the log, in this process or another; it is emptied once they are done"
_REST = "the file was cleaned a moment ago for an erasure before this one, and is again after a rest"
_STEP = "a step of an erasure; its last commit cleans the file"
_FAILED = "the file could not be cleaned ({})"


_NOTE = """
INSERT INTO duty (id, since, mark, rewritten) VALUES (1, ?, 1, 0)
ON CONFLICT DO UPDATE SET mark = mark + 1, rewritten = 0"""
_NOTE_WORDS = "INSERT OR IGNORE INTO duty (id, since, mark, rewritten) VALUES (2, ?, 1, 0)"


class Duty(Struct, frozen=True):
    """Erased content may still lie in free space of the file and in the log or, once `rewritten`, in the log alone."""

    mark: int
    rewritten: bool


def note(con: apsw.Connection, now: int) -> None:
    """Inside a transaction that erases: owe the rest."""
    con.execute(_NOTE, (now,))


def note_words(con: apsw.Connection, now: int) -> None:
    """Inside a transaction that takes words out of the index without erasing them: owe the joining of its parts."""
    con.execute(_NOTE_WORDS, (now,))


def owed(con: apsw.Connection) -> Duty | None:
    """Return what is still to be done, if anything."""
    row: Any = con.execute("SELECT mark, rewritten FROM duty WHERE id = 1").fetchone()
    return None if row is None else Duty(row[0], bool(row[1]))


def note_rewritten(con: apsw.Connection, duty: Duty) -> None:
    """Remember that the file was rewritten, unless more was erased meanwhile."""
    con.execute("UPDATE duty SET rewritten = 1 WHERE id = 1 AND mark = ?", (duty.mark,))


def note_done(con: apsw.Connection, duty: Duty) -> None:
    """Cross it out, unless more was erased meanwhile."""
    con.execute("DELETE FROM duty WHERE id = 1 AND mark = ?", (duty.mark,))


def pending(con: apsw.Connection) -> str | None:
    """Return what a person should know of it, if there is anything."""
    left = owed(con)
    if left is None:
        return None
    where = "the log" if left.rewritten else "free space of the file and in the log"
    return f"an erasure is not complete: erased content may still lie in {where}"


class Cleaner:
    """What this process knows of the duty, and when it tries again. Pages that are `sealed` cannot be cleared."""

    def __init__(self, *, sealed: bool) -> None:
        self.duty: Duty | None = None
        self.pending: str | None = None  # what is in the way
        self._sealed = sealed
        self._next = 0.0
        self._rested = 0.0

    @property
    def due(self) -> bool:
        """Whether there is a duty, and it is time to try."""
        if self.duty is None:
            return False
        now = time.monotonic()
        return now >= self._next and (self.duty.rewritten or now >= self._rested)

    def look(self, con: apsw.Connection) -> None:
        """See what is owed now."""
        self.duty = owed(con)
        if self.duty is None:
            self.pending = None  # somebody else saw to it

    def owe(self, con: apsw.Connection) -> None:
        """See what is owed now, and leave it for a while to the last commit of the erasure."""
        self.look(con)
        if self.duty is not None:
            self._next = time.monotonic() + PAUSE_SECONDS
            self.pending = _STEP

    def clean(self, con: apsw.Connection, *, patient: bool, rewrite: bool) -> None:
        """Do what can be done now, outside any transaction; `rewrite` does it even if nothing is owed."""
        self._next = time.monotonic() + PAUSE_SECONDS
        patience = PATIENCE_SECONDS if patient or rewrite else 0.0
        con.set_busy_timeout(int(patience * 1000))
        try:
            told = self._clean(con, patience, rewrite)
            self.duty = owed(con)  # more may have been erased meanwhile
            self.pending = None if self.duty is None else told or _READER
        except apsw.Error as error:
            busy = isinstance(error, apsw.BusyError)
            self.pending = "somebody else writes" if busy else _FAILED.format(error)
            raise
        finally:
            con.set_busy_timeout(0)

    def _clean(self, con: apsw.Connection, patience: float, rewrite: bool) -> str | None:
        """Return what is in the way, if anything."""
        duty = owed(con)
        if not rewrite and not (duty is not None and duty.rewritten):
            if time.monotonic() < self._rested:
                return _REST
            _join_words(con)
            if not self._sealed and con.pragma("page_count") < MOST_PAGES:
                return self._clear(con, patience)
            rewrite = True
        if rewrite:
            _join_words(con)
            self._rewrite(con)
            if duty is not None:
                note_rewritten(con, duty)
        if not _is_emptied(con):
            return _READER
        if duty is not None:
            note_done(con, duty)
        return None

    def _rewrite(self, con: apsw.Connection) -> None:
        con.execute("VACUUM")
        self._rest(con, REWRITTEN_BYTES_A_SECOND)

    def _clear(self, con: apsw.Connection, patience: float) -> str | None:
        if not _is_emptied(con):  # asked first, so that nothing is read in vain
            return _READER
        con.execute("UPDATE duty SET mark = mark + 1 WHERE id = 1")  # it happens only while something is in the log
        duty = owed(con)
        if duty is None:
            return None  # somebody else was faster
        cleared = empty_log(Path(con.filename), patience)
        self._rest(con, CLEARED_BYTES_A_SECOND)
        if not cleared:
            return _READER
        note_done(con, duty)
        return None

    def _rest(self, con: apsw.Connection, bytes_a_second: int) -> None:
        rest = Path(con.filename).stat().st_size / bytes_a_second
        self._rested = time.monotonic() + (rest if rest > 1.0 else 0.0)


def _join_words(con: apsw.Connection) -> None:
    """Rid the index of what was taken out of it without erasing it, which it only notes until its parts are joined."""
    if con.execute("SELECT 1 FROM duty WHERE id = 2").fetchone() is not None:
        with con:
            con.execute("INSERT INTO word (word) VALUES ('optimize')")
            con.execute("DELETE FROM duty WHERE id = 2")


def _is_emptied(con: apsw.Connection) -> bool:
    busy: Any = con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy[0]
