"""What makes a repeated commit safe: the answer to each, kept for a day.

A row of `receipt` is a page of its own in the log, as much to write as the record it answers for. So a commit that
ends with an append, with an id that needs no looking up, leaves its receipt in the last record it wrote: the id, and
the answer unless it follows from the record's index. `carrier` tells in which streams such receipts lie, and `file`
copies them into `receipt`: before an id is looked up there, before records are dropped, and now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

KEPT_SECONDS = 24 * 3600

_encode = msgspec.json.Encoder().encode
_versions = msgspec.json.Decoder(tuple[int, ...])

_NEWEST = "SELECT max(id) FROM receipt WHERE space = ?"
_FIND = "SELECT versions FROM receipt WHERE space = ? AND id = ?"
_TOUCH = "UPDATE receipt SET at = at + 1 WHERE space = ? AND id = ?"
_KEEP = "INSERT INTO receipt (space, id, at, versions) VALUES (?, ?, ?, ?)"
_FILE = """
INSERT OR IGNORE INTO receipt (space, id, at, versions)
SELECT h.space, lower(hex(substr(r.receipt, 1, 16))), ?, CASE length(r.receipt)
    WHEN 16 THEN CAST('[' || ((r.pos & 0xffffffff) + 1) || ']' AS BLOB) ELSE substr(r.receipt, 17) END
FROM carrier AS c JOIN head AS h ON h.ref = c.ref
JOIN record AS r ON r.pos >= (c.ref << 32) + c.start AND r.pos < (c.ref + 1) << 32
WHERE r.receipt IS NOT NULL"""
_CARRY = "INSERT OR IGNORE INTO carrier (ref, start) VALUES (?, ?)"
_EDGE = "SELECT space, id FROM receipt WHERE (space, id) > (?, ?) ORDER BY space, id LIMIT 1 OFFSET ?"
_SWEEP = "DELETE FROM receipt WHERE (space, id) > (?, ?) AND (space, id) <= (?, ?) AND at < ?"
_END = ("\U0010ffff", "")  # no space begins with it: it is not printable


class Receipts:
    """The receipts in a file, as its one writer sees them inside a transaction.

    An id greater than all that were used was never used: ids from `new_id()` grow with time, so a store that has the
    file to itself looks nothing up.
    """

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self._newest: dict[str, str] = {}  # by space
        self._unfiled = True  # whether some may still lie in records alone
        self._swept = ("", "")
        self.filings = 0  # how often: `carrier` lists what was carried since the last
        self.growing = False  # whether the last id asked for was greater than all before

    def forget(self) -> None:
        """Drop what is known, after somebody else wrote."""
        self._newest.clear()
        self._unfiled = True

    def undone(self) -> None:
        """Know that the transaction was rolled back, and a filing with it."""
        self._unfiled = True

    def find(self, space: str, id: str) -> tuple[int, ...] | None:
        """Return the versions that a commit was answered with before."""
        newest = self._newest.get(space)
        if newest is None:
            self.file()
            newest = self._newest[space] = self._execute(_NEWEST, (space,)).fetchone()[0] or ""
        self.growing = id > newest
        if self.growing:
            self._newest[space] = id
            return None
        return self.look_up(space, id)

    def look_up(self, space: str, id: str) -> tuple[int, ...] | None:
        self.file()
        row = self._execute(_FIND, (space, id)).fetchone()
        return None if row is None else _versions.decode(row[0])

    def touch(self, space: str, id: str) -> None:
        """Change a receipt without changing what it says, so that a COMMIT follows and its fsync covers it."""
        self._execute(_TOUCH, (space, id))

    def keep(self, space: str, id: str, at: int, versions: tuple[int, ...]) -> None:
        self._execute(_KEEP, (space, id, at, _encode(versions)))

    def carry(self, ref: int, index: int) -> None:
        """Remember that the records of a stream carry receipts from this index on."""
        self._unfiled = True
        self._execute(_CARRY, (ref, index))

    def file(self) -> None:
        """Copy what lies in records into the table."""
        if self._unfiled:
            self._execute(_FILE, (time.time_ns() // 1000,))
            self._execute("DELETE FROM carrier WHERE true")  # without WHERE, SQLite writes a page even if it is empty
            self._unfiled = False
            self.filings += 1

    def sweep(self, added: int, now: int) -> None:
        """Forget those older than a day: look at twice as many as were added, so that they never pile up."""
        self.file()
        edge: Any = self._execute(_EDGE, (*self._swept, 2 * added)).fetchone() or _END
        self._execute(_SWEEP, (*self._swept, *edge, now - KEPT_SECONDS * 1_000_000))
        self._swept = ("", "") if edge is _END else edge


def carried(id: bytes, versions: tuple[int, ...]) -> bytes:
    """Return a receipt as the last record of its commit carries it. The last of the versions is that record's."""
    return id if len(versions) == 1 else id + _encode(versions)


def portable(id: str) -> bytes | None:
    """Return an id as a record can carry it, if it is one of those that `new_id()` makes."""
    if len(id) != 32:
        return None
    try:
        raw = bytes.fromhex(id)
    except ValueError:
        return None
    return raw if raw.hex() == id else None
