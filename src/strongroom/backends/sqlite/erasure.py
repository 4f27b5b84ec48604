"""Erasing from the files: rewrite the database without what was erased, then empty its log.

`secure_delete` alone does not do it: it zeroes deleted cells, but not the copies that balancing a B-tree leaves in the
gaps of its pages. Those may lie in any page, and no public door of SQLite leads to single pages: so the whole file is
rewritten, and everybody who writes waits for it. One rewriting stands for all erasures before it, and a large file
rests between two. Emptying the log takes a moment when nobody reads from it, which may have to be waited for.

Until both are done the file itself says that they are not: a row of `duty`, written in the transaction that erases.
Whoever comes next, in whatever process, finds it and goes on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

PATIENCE_SECONDS = 2.0  # for those who read, when somebody waits for an erasure
PAUSE_SECONDS = 1.0  # between looks whether they are gone, when nobody does
# A file of 400 MB is rewritten every 100 seconds at most; one smaller than this always.
RESTING_BYTES_A_SECOND = 4 << 20

_READER = "somebody reads from the log, in this process or another; it is emptied once they are done"
_REST = "the file was rewritten a moment ago for an erasure before this one, and is again after a rest"
_FAILED = "the file could not be rewritten ({})"


_NOTE = """
INSERT INTO duty (id, since, mark, rewritten) VALUES (1, ?, 1, 0)
ON CONFLICT DO UPDATE SET mark = mark + 1, rewritten = 0"""


class Duty(Struct, frozen=True):
    """Erased content may still lie in free space of the file and in the log or, once `rewritten`, in the log alone."""

    mark: int
    rewritten: bool


def note(con: apsw.Connection, now: int) -> None:
    """Inside a transaction that erases: owe the rest."""
    con.execute(_NOTE, (now,))


def owed(con: apsw.Connection) -> Duty | None:
    """Return what is still to be done, if anything."""
    row: Any = con.execute("SELECT mark, rewritten FROM duty").fetchone()
    return None if row is None else Duty(row[0], bool(row[1]))


def note_rewritten(con: apsw.Connection, duty: Duty) -> None:
    """Remember that the file was rewritten, unless more was erased meanwhile."""
    con.execute("UPDATE duty SET rewritten = 1 WHERE mark = ?", (duty.mark,))


def note_done(con: apsw.Connection, duty: Duty) -> None:
    """Cross it out, unless more was erased meanwhile."""
    con.execute("DELETE FROM duty WHERE mark = ? AND rewritten = 1", (duty.mark,))


def pending(con: apsw.Connection) -> str | None:
    """Return what a person should know of it, if there is anything."""
    left = owed(con)
    if left is None:
        return None
    where = "the log" if left.rewritten else "free space of the file and in the log"
    return f"an erasure is not complete: erased content may still lie in {where}"


class Cleaner:
    """What this process knows of the duty, and when it tries again."""

    def __init__(self) -> None:
        self.duty: Duty | None = None
        self.pending: str | None = None  # what is in the way
        self._next = 0.0
        self._next_rewrite = 0.0

    @property
    def due(self) -> bool:
        """Whether there is a duty, and it is time to try."""
        if self.duty is None:
            return False
        now = time.monotonic()
        return now >= self._next and (self.duty.rewritten or now >= self._next_rewrite)

    def look(self, con: apsw.Connection) -> None:
        """See what is owed now."""
        self.duty = owed(con)

    def clean(self, con: apsw.Connection, *, patient: bool, rewrite: bool) -> None:
        """Do what can be done now, outside any transaction; `rewrite` does it even if nothing is owed."""
        self._next = time.monotonic() + PAUSE_SECONDS
        con.set_busy_timeout(int(PATIENCE_SECONDS * 1000) if patient or rewrite else 0)
        try:
            self._clean(con, rewrite)
        except apsw.Error as error:
            busy = isinstance(error, apsw.BusyError)
            self.pending = "somebody else writes" if busy else _FAILED.format(error)
            raise
        finally:
            con.set_busy_timeout(0)

    def _clean(self, con: apsw.Connection, rewrite: bool) -> None:
        duty = owed(con)
        if rewrite or (duty is not None and not duty.rewritten):
            if not rewrite and time.monotonic() < self._next_rewrite:
                self.duty, self.pending = duty, _REST
                return
            # The index of words only notes what is taken out of it, until its parts are joined.
            con.execute("INSERT INTO word (word) VALUES ('optimize')")
            con.execute("VACUUM")
            if duty is not None:
                note_rewritten(con, duty)
            size = Path(con.filename).stat().st_size
            rest = size / RESTING_BYTES_A_SECOND if size > RESTING_BYTES_A_SECOND else 0.0
            self._next_rewrite = time.monotonic() + rest
        busy: Any = con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy[0] and duty is not None:
            note_done(con, duty)
        self.duty = owed(con)
        self.pending = None if self.duty is None else _READER
