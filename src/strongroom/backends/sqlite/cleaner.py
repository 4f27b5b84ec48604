"""Erasing from the files: rewrite the database without what was erased, then empty its log.

`secure_delete` alone does not do it: it zeroes deleted cells, but not the copies that balancing a B-tree leaves in the
gaps of its pages. Rewriting costs as much as the file is large, and everybody who writes waits for it. So one rewriting
stands for all erasures before it, and a large file rests between two. Emptying the log takes a moment when nobody reads
from it, which may have to be waited for. Until both are done the file itself says that they are not (`duty`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw

from strongroom.backends.sqlite.duty import Duty, note_done, note_rewritten, owed
from strongroom.backends.sqlite.log import Log

PATIENCE_SECONDS = 2.0  # for those who read, when somebody waits for an erasure
PAUSE_SECONDS = 1.0  # between looks whether they are gone, when nobody does
RESTING_BYTES_A_SECOND = (
    4 << 20
)  # a file of 400 MB is rewritten every 100 seconds at most; a smaller one than this always

_READER = "somebody reads from the log, in this process or another; it is emptied once they are done"
_REST = "the file was rewritten a moment ago for an erasure before this one, and is again after a rest"
_FAILED = "the file could not be rewritten ({})"


class Cleaner:
    """What this process knows of the duty, and when it tries again."""

    def __init__(self, log: Log) -> None:
        self.duty: Duty | None = None
        self.pending: str | None = None  # what is in the way
        self._log = log
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
            con.execute("VACUUM")
            if duty is not None:
                note_rewritten(con, duty)
            size = Path(con.filename).stat().st_size
            rest = size / RESTING_BYTES_A_SECOND if size > RESTING_BYTES_A_SECOND else 0.0
            self._next_rewrite = time.monotonic() + rest
        busy: Any = con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy[0]:
            self._log.truncated()
            if duty is not None:
                note_done(con, duty)
        self.duty = owed(con)
        self.pending = None if self.duty is None else _READER
