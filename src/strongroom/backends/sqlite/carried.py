"""Receipts that lie in records alone, as far as they can be read; what is known of the others is a `LostReceipt`.

A damaged record does not say any more which receipt it carries, nor whether it carries one. Of a commit that it may
answer for two things are known: it ended with an append to that stream, and its id, which is one of ours, lies between
those of its neighbours. Where it is not known which stream carries receipts, every stream may. Text that is none, which
the driver refuses, counts as damaged, a row at a time. What SQLite itself calls malformed stops whoever comes to it:
after that it refuses to COMMIT, on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import apsw
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
from strongroom.errors import Damaged
from strongroom.store import new_id

AHEAD_NS = 60_000_000_000  # how far the clock of who made an id may be ahead of ours
ANY = 0  # in place of a stream that is not known; refs begin at 1

_PLACES = "SELECT ref, start FROM carrier"
_PLACES_IN = f"{_PLACES} JOIN head USING (ref) WHERE space = ?"
_HEAD = f"SELECT space, kind, id, {HEAD_COLUMNS} FROM head WHERE ref = ?"
_WITHIN = "FROM record WHERE pos >= ? AND pos < ?"
# Of a row whose columns were shifted by damage the receipt may read as NULL; then there is no sum at its place either.
_MAY_CARRY = "(receipt IS NOT NULL OR typeof(sum) <> 'integer')"
_CARRYING = f"SELECT {RECORD_COLUMNS} {_WITHIN} AND {_MAY_CARRY} ORDER BY pos"
_EXTENT = f"SELECT count(*), max(pos) {_WITHIN}"
_POSITIONS = f"SELECT pos {_WITHIN} ORDER BY pos"
_OF_ID = f"SELECT pos {_WITHIN} AND receipt IS NOT NULL AND substr(receipt, 1, 16) = ?"

Carried = tuple[str, str, bytes, bytes]  # space, id, digest and versions


class LostReceipt(Struct, frozen=True):
    """A receipt that cannot be read: of a commit that ended with an append to the stream `ref`, under an id of ours
    above `above` and up to `upto`. Without a space it is not known whose the stream is."""

    space: str
    ref: int
    index: int
    above: str
    upto: str

    def may_be(self, space: str, id: str, ref: int | None = None) -> bool:
        """Tell whether it may be of a commit with this id; with `ref`, of one that ends with an append there."""
        here = self.ref == ANY or ref in (None, self.ref)
        return here and self.space in ("", space) and self.above < id <= self.upto

    def refused(self, id: str) -> Damaged:
        which = f"record {self.index} of a stream" if self.ref != ANY else "where receipts lie"
        return Damaged(
            f"whether commit {id!r} was made before cannot be told: {which} is damaged, and may hold its receipt; "
            "nothing changed",
            reason="checksum",
        )


def carried_by(con: apsw.Connection) -> Iterator[Carried | LostReceipt]:
    """Return all receipts that lie in records alone, or what is known of one."""
    places: list[Any] = con.execute(_PLACES).fetchall()
    for ref, start in places:
        space = _owner(con, ref) if 0 < ref <= MASK else None
        first = _unsealed(ref, start)
        if space is not None:
            yield from _receipts_of(space, ref, _records_of(con, ref, first or 0), in_order=first is not None)
        if first is None or space is None:  # its `ref` may be what is damaged: then some other stream was meant
            now = time.time_ns()  # as its index, so that the next such note is another
            yield LostReceipt("", ANY, now, "", new_id(now))


def carried_as(con: apsw.Connection, space: str, id: bytes) -> Carried | LostReceipt | None:
    """Return the receipt that says to be of this commit. Nothing else is read, however much is carried: a receipt
    whose own bytes are damaged is for the writer to find."""
    places: list[Any] = con.execute(_PLACES_IN, (space,)).fetchall()
    for ref, start in places:
        base = ref << INDEX_BITS
        within = base + (_unsealed(ref, start) or 0), base + (1 << INDEX_BITS)
        found: list[Any] = con.execute(_OF_ID, (*within, id)).fetchall()
        for (pos,) in found:
            carried = _receipt_in(space, _row(con, pos)) if _owner(con, ref) == space else None
            return carried or LostReceipt(space, ref, pos & MASK, "", id.hex())
    return None


def sealed(ref: int, index: int) -> int:
    """Return an index with its checksum above it, as `carrier` keeps it: a row too small for a column more."""
    return (checksum((ref, index)) >> 1) << INDEX_BITS | index  # 31 bits, since SQLite's numbers have a sign


def unsealed(ref: int, start: Any) -> int:
    """Return the index; in a damaged file it may be anything."""
    if type(start) is not int or (start > MASK and start != sealed(ref, start & MASK)):
        raise Damaged(f"where stream {ref} carries receipts does not match its checksum", reason="checksum")
    return start & MASK


def _unsealed(ref: int, start: Any) -> int | None:
    """Return from which index on a stream carries receipts. None: it cannot be told, so all it ever carried is read."""
    try:
        return unsealed(ref, start)
    except Damaged:
        return None


def _owner(con: apsw.Connection, ref: int) -> str | None:
    """Return whose a stream is: "" if its name cannot be read, None if there is no such stream."""
    try:
        row: Any = con.execute(_HEAD, (ref,)).fetchone()
    except UnicodeDecodeError:
        return ""
    if row is None:
        return None
    space, kind, id, *head = row
    try:
        key = stored_key(space, kind, id)
    except Damaged:
        return ""
    try:
        require_sound(key, tuple(head))
    except Damaged:
        return key.space if is_named(con.execute, key, ref) else ""
    return key.space


def _records_of(con: apsw.Connection, ref: int, first: int) -> list[tuple[int, Any]]:
    """Return the records of a stream that may carry receipts, by their indexes; None for what is missing or cannot be
    read."""
    base = ref << INDEX_BITS
    within = base + first, base + (1 << INDEX_BITS)
    try:
        rows: list[Any] = con.execute(_CARRYING, within).fetchall()
        found = [(row[0] & MASK, row) for row in rows]
    except UnicodeDecodeError:
        found = [(pos & MASK, _row(con, pos)) for pos in _positions(con, within)]
    extent: Any = con.execute(_EXTENT, within).fetchone()
    count, last = extent
    if last is None:
        return [(first, None)]
    if count <= last - within[0]:  # there is a gap: its first index stands for all of it
        here = {pos & MASK for pos in _positions(con, within)}
        gone = next(index for index in range(first, (last & MASK) + 1) if index not in here)
        found = sorted([*found, (gone, None)], key=lambda one: one[0])
    return found


def _positions(con: apsw.Connection, within: tuple[int, int]) -> list[int]:
    rows: list[Any] = con.execute(_POSITIONS, within).fetchall()
    return [pos for (pos,) in rows]


def _row(con: apsw.Connection, pos: int) -> Any:
    try:
        return con.execute(f"SELECT {RECORD_COLUMNS} FROM record WHERE pos = ?", (pos,)).fetchone()
    except UnicodeDecodeError:
        return None


def _receipts_of(
    space: str, ref: int, rows: Sequence[tuple[int, Any]], *, in_order: bool
) -> Iterator[Carried | LostReceipt]:
    """Read what the records of one stream carry. What they have carried since the last filing has growing ids."""
    read = [(index, row, _receipt_in(space, row) if space else None) for index, row in rows]
    # A sound row without a receipt says nothing of one.
    read = [one for one in read if one[2] is not None or not _is_plain(one[1])]
    if not space:
        read = read[:1]  # one note for all of them
    # What a damaged record says of an id may still be right, and greater than what our clock makes: as far as clocks
    # of several machines may be apart.
    now = time.time_ns()
    ahead = new_id(now + AHEAD_NS)
    said = [row[-2][:16].hex() for _, row in rows if row is not None and type(row[-2]) is bytes]
    latest = max([new_id(now), *(one for one in said if one < ahead)])
    upto, behind = list[str](), latest
    for _, _, found in reversed(read):
        upto.append(behind)
        if found is not None and in_order:
            behind = found[1]
    above = ""
    for (index, _, found), until in zip(read, reversed(upto), strict=True):
        if found is None:
            yield LostReceipt(space, ref, index, above, until)
        else:
            above = found[1] if in_order else ""
            yield found


def _is_plain(row: Any) -> bool:
    """Tell whether a record is what was written, and carries nothing."""
    return row is not None and row[-2] is None and record_sum(row[:-2], None) == row[-1]


def _receipt_in(space: str, row: Any) -> Carried | None:
    """Return the receipt that a record carries, if the record is what was written."""
    if row is None or type(row[-2]) is not bytes or record_sum(row[:-2], row[-2]) != row[-1]:
        return None
    index, receipt = row[0] & MASK, row[-2]
    versions = b"[%d]" % (index + 1) if len(receipt) <= 32 else receipt[32:]
    return space, receipt[:16].hex(), receipt[16:32], versions


# ---- notes of what is lost ------------------------------------------------------------------------------------------

LOST = "\U0010fffe"  # before the space of a receipt that cannot be read; no space begins with it: it is not printable
_END = "\U0010ffff"
_LOST = "SELECT space, id, digest, versions, answer, sum FROM receipt WHERE space >= ? AND space < ?"


def noted(lost: LostReceipt) -> Carried:
    """Return what stands in the table of receipts for one that cannot be read."""
    return f"{LOST}{lost.space}", f"{lost.ref} {lost.index}", f"{lost.above},{lost.upto}".encode(), b"[]"


def all_lost(con: apsw.Connection) -> list[LostReceipt]:
    rows: list[Any] = con.execute(_LOST, (LOST, _END)).fetchall()
    found = []
    for space, id, digest, versions, answer, total in rows:
        if checksum((space, id, digest, versions, answer)) == total:  # of damage to this too, only a check tells
            (ref, index), (above, upto) = map(int, id.split()), digest.decode().split(",")
            found.append(LostReceipt(space.removeprefix(LOST), ref, index, above, upto))
    return found
