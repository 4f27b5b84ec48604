"""What makes a repeated commit safe: the answer to each, kept until its time is up.

A row of `receipt` is a page of its own in the log, as much to write as the record it answers for. So a commit that
ends with an append, with an id of ours that needs no looking up, leaves its receipt in the last record it wrote: the
id, the digest, and the versions unless they follow from the record's index. `carrier` tells in which streams such
receipts lie, and `file` copies them into `receipt`: before an id is looked up there, before records are dropped, and
now and then. Ids that callers chose, and answers, go into the table at once.

A record that is damaged does not say any more which receipt it carries. Of the commit it answers for two things are
still known: it ended with an append to that stream, and its id, which is one of ours, lies between those of its
neighbours. That is noted in `receipt` instead (`LostReceipt`), under a space that nobody can have, and whoever may be
repeating that commit is refused, by the writer at the latest. Everybody else goes on.

When a receipt may go is written with it, so that processes which keep them for different times do not fight.
"""

from __future__ import annotations

import math
import time
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
    record_sum,
    require_sound,
    stored_key,
)
from strongroom.backends.sqlite.schema import INDEX_BITS
from strongroom.codec import Json
from strongroom.errors import Damaged
from strongroom.store import OUR_SECONDS, Commit, Receipt, ReceiptOf, new_id

DIGEST_BYTES = 16  # of a digest that a record can carry
FOREVER = 1 << 62  # and some more: touching a receipt adds to it
AHEAD_NS = 60_000_000_000  # how far the clock of who made an id may be ahead of ours
LOST = "\U0010fffe"  # before the space of a receipt that cannot be read; no space begins with it: it is not printable

_encode = msgspec.json.Encoder().encode
_versions = msgspec.json.Decoder(tuple[int, ...])

# What cannot be carried is not asked for here, so of the rest the first character is at most "f".
_NEWEST = "SELECT max(id) FROM receipt WHERE space = ? AND id < 'g'"
_FIND = "SELECT digest, versions, answer, sum FROM receipt WHERE space = ? AND id = ?"
_TOUCH = "UPDATE receipt SET until = until + 1 WHERE space = ? AND id = ?"
_KEEP = "INSERT INTO receipt (space, id, until, digest, versions, answer, sum) VALUES (?, ?, ?, ?, ?, ?, ?)"
_CARRIERS = f"SELECT c.start, h.space, h.kind, h.id, {HEAD_COLUMNS} FROM carrier AS c JOIN head AS h USING (ref)"
_PLACES = "SELECT start, ref FROM carrier JOIN head USING (ref)"
_CARRYING = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? AND receipt IS NOT NULL"
_CARRIED = "SELECT pos, receipt FROM record WHERE pos >= ? AND pos < ? AND receipt IS NOT NULL"
_OF_ID = " AND substr(receipt, 1, 16) = ?"
_FILE = (
    "INSERT OR IGNORE INTO receipt (space, id, until, digest, versions, answer, sum) VALUES (?, ?, ?, ?, ?, NULL, ?)"
)
_CARRY = "INSERT OR IGNORE INTO carrier (ref, start) VALUES (?, ?)"
_EDGE = "SELECT space, id FROM receipt WHERE (space, id) > (?, ?) ORDER BY space, id LIMIT 1 OFFSET ?"
_SWEEP = "DELETE FROM receipt WHERE (space, id) > (?, ?) AND (space, id) <= (?, ?) AND until < ?"
_LOST = "SELECT space, id, digest, versions, answer, sum FROM receipt WHERE space >= ? AND space < ?"
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


class LostReceipt(Struct, frozen=True):
    """A receipt in a record that cannot be read: of a commit that ended with an append to the stream `ref`, under an id
    of ours above `above` and up to `upto`. Without a space it is not known whose the stream is."""

    space: str
    ref: int
    index: int
    above: str
    upto: str

    def may_be(self, space: str, id: str, ref: int | None = None) -> bool:
        """Tell whether it may be of a commit with this id; with `ref`, of one that ends with an append there."""
        return self.space in ("", space) and ref in (None, self.ref) and self.above < id <= self.upto

    def refused(self, id: str) -> Damaged:
        return Damaged(
            f"whether commit {id!r} was made before cannot be told: record {self.index} of a stream is damaged, and "
            "may hold its receipt; nothing changed",
            reason="checksum",
        )


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
                space, id, digest, versions = _noted(found) if isinstance(found, LostReceipt) else found
                self._execute(
                    _FILE, (space, id, until, digest, versions, checksum((space, id, digest, versions, None)))
                )
            self.lost = [*_all_lost(self._con)]
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
    for found in carried_by(con, asked.space, short):
        if isinstance(found, LostReceipt):
            raise found.refused(asked.id)
        return Receipt(asked.id, _versions.decode(found[3]), found[2], repeated=True)
    for one in _all_lost(con):
        if one.may_be(asked.space, asked.id):
            raise one.refused(asked.id)
    return None


Carried = tuple[str, str, bytes, bytes]


def carried_by(
    con: apsw.Connection, space: str | None = None, id: bytes | None = None
) -> Iterator[Carried | LostReceipt]:
    """Return what lies in records alone: space, id, digest and versions of each receipt, or what is known of one. With
    `space` and `id`, only of the one that says to be that: nothing else is read, however much is carried.

    Whose a receipt is, is told by the head of the stream that carries it: so the names in it must be what was written,
    and so must the record.
    """
    for start, *name, ref, stream, alive, version, value, tags, text, chain, total in _carriers(con, space):
        try:
            first: int | None = unsealed(ref, start)
        except Damaged:
            first = None  # then all that the stream carries, or ever did
        base = ref << INDEX_BITS
        rows = _carrying_records(con, base + (first or 0), base + (1 << INDEX_BITS), id)
        if rows:
            owner = _space_of(con, name, (ref, stream, alive, version, value, tags, text, chain, total))
            yield from _receipts_of(owner, ref, rows, in_order=first is not None and id is None)


def _carriers(con: apsw.Connection, space: str | None) -> list[Any]:
    """Return where streams carry receipts, each with its head; of one whose name is no text, without."""
    try:
        if space is not None:
            return con.execute(f"{_CARRIERS} WHERE h.space = ?", (space,)).fetchall()
        return con.execute(_CARRIERS).fetchall()
    except UnicodeDecodeError:
        pass
    rows: list[Any] = []
    places: list[Any] = con.execute(_PLACES).fetchall()
    for start, ref in places:
        try:
            rows += con.execute(f"{_CARRIERS} WHERE ref = ?", (ref,)).fetchall()
        except UnicodeDecodeError:
            rows.append((start, "", "", "", ref, *[None] * 8))
    return rows


def _carrying_records(con: apsw.Connection, start: int, stop: int, id: bytes | None) -> list[Any]:
    """Return the records that carry receipts, or that of this id; of one whose text is none, which the driver refuses,
    only the receipt."""
    only, wanted = ("", ()) if id is None else (_OF_ID, (id,))
    try:
        return con.execute(_CARRYING + only, (start, stop, *wanted)).fetchall()
    except UnicodeDecodeError:
        pass
    rows: list[Any] = []
    carried: list[Any] = con.execute(_CARRIED + only, (start, stop, *wanted)).fetchall()
    for pos, receipt in carried:
        try:
            rows += con.execute(_CARRYING, (pos, pos + 1)).fetchall()
        except UnicodeDecodeError:
            rows.append((pos, receipt, None))
    return rows


def _space_of(con: apsw.Connection, name: list[Any], head: tuple[Any, ...]) -> str:
    """Return whose a stream is; nothing if that cannot be told."""
    try:
        key = stored_key(*name)
    except Damaged:
        return ""
    try:
        require_sound(key, head)
    except Damaged:
        return key.space if is_named(con.execute, key, head[0]) else ""
    return key.space


def _receipts_of(space: str, ref: int, rows: list[Any], *, in_order: bool) -> Iterator[Carried | LostReceipt]:
    """Read what the records of one stream carry. What they have carried since the last filing has growing ids."""
    read = [(row[0] & MASK, _receipt_in(space, row) if space else None) for row in rows]
    if not space:
        read = read[:1]  # one note for all of them
    # What a damaged record says of an id may still be right, and greater than what our clock makes: as far as clocks
    # of several machines may be apart.
    now = time.time_ns()
    ahead = new_id(now + AHEAD_NS)
    said = [one for row in rows if type(row[-2]) is bytes and (one := row[-2][:16].hex()) < ahead]
    latest = max(new_id(now), *said)
    behind = latest
    lost: list[tuple[int, str]] = []
    for index, found in reversed(read):
        if found is None:
            lost.append((index, behind))
        elif in_order:
            behind = found[1]
    before = ""
    for index, found in read:
        if found is None:
            yield LostReceipt(space, ref, index, before, lost.pop()[1])
        else:
            before = found[1] if in_order else ""
            yield found


def _receipt_in(space: str, row: tuple[Any, ...]) -> Carried | None:
    """Return the receipt that a record carries, if the record is what was written."""
    index, receipt = row[0] & MASK, row[-2]
    if type(receipt) is not bytes or record_sum(row[:-2], receipt) != row[-1]:
        return None
    versions = b"[%d]" % (index + 1) if len(receipt) <= 32 else receipt[32:]
    return space, receipt[:16].hex(), receipt[16:32], versions


def _noted(lost: LostReceipt) -> Carried:
    """Return what stands in the table of a receipt that cannot be read."""
    return f"{LOST}{lost.space}", f"{lost.ref} {lost.index}", f"{lost.above},{lost.upto}".encode(), b"[]"


def _all_lost(con: apsw.Connection) -> Iterator[LostReceipt]:
    rows: list[Any] = con.execute(_LOST, (LOST, _END[0])).fetchall()
    for space, id, digest, versions, answer, total in rows:
        if checksum((space, id, digest, versions, answer)) == total:  # of damage to this too, only a check tells
            (ref, index), (above, upto) = map(int, id.split()), digest.decode().split(",")
            yield LostReceipt(space.removeprefix(LOST), ref, index, above, upto)


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
