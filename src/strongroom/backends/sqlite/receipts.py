"""What makes a repeated commit safe: the answer to each, kept until its time is up.

A row of `receipt` is a page of its own in the log, as much to write as the record it answers for. So a commit that
ends with an append, with an id of ours that needs no looking up, leaves its receipt in the last record it wrote: the
id, the digest, and the versions unless they follow from the record's index. `carrier` tells in which streams such
receipts lie, and `file` copies them into `receipt`: before an id is looked up there, before records are dropped, and
now and then. Ids that callers chose, and answers, go into the table at once.

Of one in a record that is damaged, what is known is noted in `receipt` (`carried.LostReceipt`), under a space that
nobody can have, and whoever may be repeating that commit is refused, by the writer at the latest. Everybody else goes
on.

When a receipt may go is written with it, so that processes which keep them for different times do not fight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from strongroom.backends.sqlite.carried import LostReceipt, all_lost, carried_as, carried_by, noted, sealed
from strongroom.backends.sqlite.rows import checksum
from strongroom.codec import Json
from strongroom.errors import Damaged
from strongroom.store import OUR_SECONDS, Commit, Receipt, ReceiptOf

DIGEST_BYTES = 16  # of a digest that a record can carry
FOREVER = 1 << 62  # and some more: touching a receipt adds to it

_encode = msgspec.json.Encoder().encode
_versions = msgspec.json.Decoder(tuple[int, ...])

# What cannot be carried is not asked for here, so of the rest the first character is at most "f".
_NEWEST = "SELECT max(id) FROM receipt WHERE space = ? AND id < 'g'"
_FIND = "SELECT digest, versions, answer, sum FROM receipt WHERE space = ? AND id = ?"
_TOUCH = "UPDATE receipt SET until = until + 1 WHERE space = ? AND id = ?"
_KEEP = "INSERT INTO receipt (space, id, until, digest, versions, answer, sum) VALUES (?, ?, ?, ?, ?, ?, ?)"
_FILE = (
    "INSERT OR IGNORE INTO receipt (space, id, until, digest, versions, answer, sum) VALUES (?, ?, ?, ?, ?, NULL, ?)"
)
_CARRY = "INSERT OR IGNORE INTO carrier (ref, start) VALUES (?, ?)"
_EDGE = "SELECT space, id FROM receipt WHERE (space, id) > (?, ?) ORDER BY space, id LIMIT 1 OFFSET ?"
_SWEEP = "DELETE FROM receipt WHERE (space, id) > (?, ?) AND (space, id) <= (?, ?) AND until < ?"
_END = ("\U0010ffff", "")  # no space begins with it: it is not printable


class Retention(Struct, frozen=True):
    """How long receipts are kept, by which clock (seconds since 1970)."""

    kept_seconds: float
    clock: Callable[[], float]

    def now(self) -> int:
        return int(self.clock() * 1e6)

    def until(self, keep: bool) -> int:
        """Return the microsecond after which a receipt made now may be swept."""
        seconds = self.kept_seconds if keep else OUR_SECONDS
        return FOREVER if seconds == math.inf else int((self.clock() + seconds) * 1e6)


class SyncReceipt(Struct, frozen=True):
    """Work for the writer: make a receipt that was read as durable as one that is given."""

    space: str
    receipt: Receipt

    @property
    def id(self) -> str:
        return self.receipt.id


class Receipts:
    """The receipts in a file, as its one writer sees them inside a transaction.

    An id greater than all that were used was never used: ids from `new_id()` grow with time, so a store that has the
    file to itself looks nothing up. Ids of any other form, which callers chose, are always looked up.
    """

    def __init__(self, con: apsw.Connection, execute: Callable[..., Any], retention: Retention) -> None:
        self._con = con
        self._execute = execute
        self.retention = retention
        self._newest: dict[str, str] = {}  # by space, of those that can be carried
        self._unfiled = True  # whether some may still lie in records alone
        self._swept = ("", "")
        self.filings = 0  # how often: `carrier` lists what was carried since the last
        self.lost: list[LostReceipt] = []  # as of the last filing
        self.noting = False  # whether this transaction noted any
        self.fresh: bytes | None = None  # the id last asked for, if it can be carried and is greater than all before

    def forget(self) -> None:
        """Drop what is known, after somebody else wrote."""
        self._newest.clear()
        self._unfiled = True

    def undone(self) -> None:
        """Know that the transaction was rolled back, and a filing with it."""
        self._unfiled = True

    def find(self, space: str, id: str) -> Receipt | None:
        """Return the receipt of a commit that was made before."""
        self.fresh = portable(id)
        if self.fresh is not None:
            newest = self._newest.get(space)
            if newest is None:
                self.file()
                newest = self._execute(_NEWEST, (space,)).fetchone()[0] or ""
                newest = self._newest[space] = max([newest, *(one.upto for one in self.lost)])
            if id > newest:
                self._newest[space] = id
                return None
            self.fresh = None
            self.file()
        return self._stored(space, id)

    def is_missing(self, space: str, id: str) -> bool:
        """Tell whether a receipt is not there, by looking, whatever is known about its id. One that may be lost in a
        damaged record is not missing."""
        self.file()
        return self._stored(space, id) is None and not any(one.may_be(space, id) for one in self.lost)

    def require_unmade(self, space: str, id: str, ref: int) -> None:
        """Raise `Damaged` if a commit that ends with an append to this stream, and is not found, may have been made."""
        for one in self.lost if portable(id) is not None else ():
            if one.may_be(space, id, ref):
                raise one.refused(id)

    def touch(self, space: str, id: str) -> None:
        """Change a receipt without changing what it says, so that a COMMIT follows and its fsync covers it."""
        self._execute(_TOUCH, (space, id))

    def keep(self, commit: Commit, versions: tuple[int, ...]) -> None:
        answer = None if commit.answer is None else bytes(commit.answer)
        row = (commit.space, commit.id, commit.digest, _encode(versions), answer)
        self._execute(_KEEP, (*row[:2], self.retention.until(commit.keep), *row[2:], checksum(row)))

    def carry(self, ref: int, index: int) -> None:
        """Remember that the records of a stream carry receipts from this index on."""
        self._unfiled = True
        self._execute(_CARRY, (ref, sealed(ref, index)))

    def file(self) -> None:
        """Copy what lies in records into the table."""
        if self._unfiled:
            until = self.retention.until(keep=False)
            for found in carried_by(self._con):
                self.noting |= isinstance(found, LostReceipt)
                space, id, digest, versions = noted(found) if isinstance(found, LostReceipt) else found
                self._execute(
                    _FILE, (space, id, until, digest, versions, checksum((space, id, digest, versions, None)))
                )
            self.lost = all_lost(self._con)
            self._execute("DELETE FROM carrier WHERE true")  # without WHERE, SQLite writes a page even if it is empty
            self._unfiled = False
            self.filings += 1

    def sweep(self, added: int) -> None:
        """Forget those whose time is up: look at twice as many as were added, so that they never pile up."""
        self.file()
        edge: Any = self._execute(_EDGE, (*self._swept, 2 * added)).fetchone() or _END
        self._execute(_SWEEP, (*self._swept, *edge, self.retention.now()))
        self._swept = ("", "") if edge is _END else edge

    def _stored(self, space: str, id: str) -> Receipt | None:
        row = self._execute(_FIND, (space, id)).fetchone()
        return None if row is None else to_receipt(space, id, row)


def find(con: apsw.Connection, asked: ReceiptOf) -> Receipt | None:
    """Return a receipt as a reader's snapshot has it, wherever it lies. It may not be durable: see `SyncReceipt`."""
    row: Any = con.execute(_FIND, (asked.space, asked.id)).fetchone()
    if row is not None:
        return to_receipt(asked.space, asked.id, row)
    short = portable(asked.id)
    if short is None:
        return None
    found = carried_as(con, asked.space, short)
    if isinstance(found, LostReceipt):
        raise found.refused(asked.id)
    if found is not None:
        return Receipt(asked.id, _versions.decode(found[3]), found[2], repeated=True)
    for one in all_lost(con):
        if one.may_be(asked.space, asked.id):
            raise one.refused(asked.id)
    return None


def to_receipt(space: str, id: str, row: tuple[Any, ...]) -> Receipt:
    digest, versions, answer, total = row
    if checksum((space, id, digest, versions, answer)) != total:
        raise Damaged(f"the receipt of commit {id!r} does not match its checksum", reason="checksum")
    return Receipt(id, _versions.decode(versions), digest, None if answer is None else Json(answer), repeated=True)


def can_carry(commit: Commit) -> bool:
    """Tell whether a record can say all that the receipt of a commit must say, and for as long."""
    if commit.keep or commit.answer is not None:
        return False
    return len(commit.digest) == DIGEST_BYTES or (not commit.digest and len(commit.writes) == 1)


def carried(id: bytes, digest: bytes, versions: tuple[int, ...]) -> bytes:
    """Return a receipt as the last record of its commit carries it. The last of the versions is that record's."""
    return id + digest if len(versions) == 1 else id + digest + _encode(versions)


def portable(id: str) -> bytes | None:
    """Return an id as a record can carry it, if it is one of those that `new_id()` makes."""
    if len(id) != 32:
        return None
    try:
        raw = bytes.fromhex(id)
    except ValueError:
        return None
    return raw if raw.hex() == id else None
