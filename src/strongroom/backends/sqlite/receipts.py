"""What makes a repeated commit safe: the answer to each, kept until its time is up.

A row of `receipt` is a page of its own in the log, as much to write as the record it answers for. So a commit that
ends with an append, with an id of ours that needs no looking up, leaves its receipt in the last record it wrote: the
id, the digest, and the versions unless they follow from the record's index. `carrier` tells in which streams such
receipts lie, and `file` copies them into `receipt`: before an id is looked up there, before records are dropped, and
now and then. Ids that callers chose, and answers, go into the table at once.

When a receipt may go is written with it, so that processes which keep them for different times do not fight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from strongroom.backends.sqlite.rows import (
    HEAD_COLUMNS,
    MASK,
    RECORD_COLUMNS,
    checksum,
    is_named,
    require_sound,
    stored_key,
    to_record,
)
from strongroom.backends.sqlite.schema import INDEX_BITS
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
_CARRIERS = f"SELECT c.start, h.space, h.kind, h.id, {HEAD_COLUMNS} FROM carrier AS c JOIN head AS h USING (ref)"
_CARRYING = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? AND receipt IS NOT NULL"
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
                newest = self._newest[space] = self._execute(_NEWEST, (space,)).fetchone()[0] or ""
            if id > newest:
                self._newest[space] = id
                return None
            self.fresh = None
            self.file()
        return self._stored(space, id)

    def look_up(self, space: str, id: str) -> Receipt | None:
        """Return a receipt by looking, whatever is known about its id."""
        self.file()
        return self._stored(space, id)

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
            for space, id, digest, versions in carried_by(self._con):
                self._execute(
                    _FILE, (space, id, until, digest, versions, checksum((space, id, digest, versions, None)))
                )
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
    for *_, digest, versions in () if short is None else carried_by(con, asked.space, short):
        return Receipt(asked.id, _versions.decode(versions), digest, repeated=True)
    return None


def carried_by(
    con: apsw.Connection, space: str | None = None, id: bytes | None = None
) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Return what lies in records alone: space, id, digest and versions of each receipt; with `id`, only of that one.

    Whose a receipt is, is told by the head of the stream that carries it: so the names in it must be what was written,
    and so must the record.
    """
    sql, bound = (_CARRIERS, ()) if space is None else (f"{_CARRIERS} WHERE h.space = ?", (space,))
    carriers: list[Any] = con.execute(sql, bound).fetchall()
    only, this = ("", ()) if id is None else (" AND substr(receipt, 1, 16) = ?", (id,))
    for start, *name, ref, stream, alive, version, value, tags, text, chain, total in carriers:
        key = stored_key(*name)
        try:
            require_sound(key, (ref, stream, alive, version, value, tags, text, chain, total))
        except Damaged:
            if not is_named(con.execute, key, ref):
                raise
        first = (ref << INDEX_BITS) + unsealed(ref, start)
        for row in con.execute(_CARRYING + only, (first, (ref + 1) << INDEX_BITS, *this)):
            index = row[0] & MASK
            to_record(key, row, index)
            receipt: bytes = row[-2]
            versions = b"[%d]" % (index + 1) if len(receipt) <= 32 else receipt[32:]
            yield key.space, receipt[:16].hex(), receipt[16:32], versions


def sealed(ref: int, index: int) -> int:
    """Return an index with its checksum above it, as `carrier` keeps it: a row too small for a column more."""
    return (checksum((ref, index)) >> 1) << INDEX_BITS | index  # 31 bits, since SQLite's numbers have a sign


def unsealed(ref: int, start: Any) -> int:
    """Return the index; in a damaged file it may be anything."""
    if type(start) is not int or (start > MASK and start != sealed(ref, start & MASK)):
        raise Damaged(f"where stream {ref} carries receipts does not match its checksum", reason="checksum")
    return start & MASK


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
