"""What an erasure still owes: a row that stays until nothing erased is left in the file or its log.

It is written in the transaction that erases. Whoever comes next, in whatever process, finds it and goes on.
"""

from __future__ import annotations

from typing import Any

import apsw
from msgspec import Struct

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
    if con.execute("SELECT 1 FROM sqlite_schema WHERE name = 'duty'").fetchone() is None:
        return None  # a file of format 1, opened read-only
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
