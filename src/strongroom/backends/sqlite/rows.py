"""Answering questions: rows in, frozen values out, every row checked against its checksum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import Any
from zlib import crc32

import apsw
import msgspec

from strongroom.backends.sqlite.schema import INDEX_BITS
from strongroom.codec import Json
from strongroom.errors import Damaged, InvalidInput
from strongroom.store import (
    Budget,
    Document,
    Get,
    Key,
    Page,
    Range,
    Record,
    Scan,
    Slice,
    Tail,
    cursor,
    wrong_shape,
)

MASK = (1 << INDEX_BITS) - 1
EMPTY = Slice(0, 0, ())

_pack = msgspec.msgpack.Encoder().encode
_tags = msgspec.json.Decoder(dict[str, str])
_EMPTY_OBJECT = Json(b"{}")  # the body of most messages
_LAST = (1 << 63) - 1
_FOUND = "SELECT h.id, h.ref, h.stream, h.alive, h.version, h.value, h.tags, h.text, h.chain, h.sum"
_LIVING = "h.space = ?1 AND h.kind = ?2 AND h.stream = 0 AND h.alive = 1"
# Who carries two tags is found by leaping: from a carrier of the one to the next carrier of the other, and back. Where
# both lead to the same document, there is one. So what only one of them carries costs nothing, however much it is.
_LEAP = """
WITH RECURSIVE leap (ref, before, turn) AS (
    SELECT (SELECT ref FROM tag WHERE label = ?5 AND ref {past} ?4 ORDER BY ref {order} LIMIT 1), NULL, 0
    UNION ALL
    SELECT (
        SELECT t.ref FROM tag AS t
        WHERE t.label = iif(leap.turn, ?5, ?6) AND t.ref {past}= leap.ref {step} (leap.ref IS leap.before)
        ORDER BY t.ref {order} LIMIT 1
    ), leap.ref, NOT leap.turn
    FROM leap WHERE leap.ref IS NOT NULL
)"""

_HEAD = """
SELECT h.ref, h.stream, h.alive, h.version, h.value, h.tags, h.text, h.chain, h.sum,
       (SELECT pos FROM record WHERE pos >= h.ref << 32 AND pos < (h.ref + 1) << 32 ORDER BY pos DESC LIMIT 1)
FROM head AS h WHERE h.space = ? AND h.kind = ? AND h.id = ?"""
HEAD_COLUMNS = "ref, stream, alive, version, value, tags, text, chain, sum"
_GET = f"SELECT {HEAD_COLUMNS} FROM head WHERE space = ? AND kind = ? AND id = ?"
_BY_NAME = "SELECT ref FROM head INDEXED BY head_by_name WHERE space = ? AND kind = ? AND id = ?"
RECORD_COLUMNS = "pos, type, body, weight, at, sender, receiver, text, commitment, chain, receipt, sum"
_UP = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos"
_DOWN = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos DESC"


def answer(
    con: apsw.Connection, question: Get | Scan | Range | Tail, budget: Budget | None = None
) -> Document | Page | Slice | None:
    """Answer one question on a connection that holds a snapshot, as far as there is room."""
    if isinstance(question, Get):
        document = _get(con, question.key)
        if document is None or budget is None or budget.takes(document.value, document.text):
            return document
        return None
    if isinstance(question, Scan):
        return _scan(con, question, budget)
    key = question.key
    row = con.execute(_HEAD, (key.space, key.kind, key.id)).fetchone()
    if row is None:
        return EMPTY
    ref, stream, alive, first, *_, last = row
    require_sound(key, row[:-1])
    if not stream:
        raise wrong_shape(key, is_stream=False, writing=False)
    if not alive:
        return EMPTY
    if last is None and not first:  # a stream begins with its first record, and only dropping records raises `first`
        raise Damaged(f"{key.kind} {key.id!r}: its records are missing", reason="gap")
    length = first if last is None else (last & MASK) + 1
    base = ref << INDEX_BITS
    if isinstance(question, Range):
        start = max(question.start, first)
        stop = length if question.stop is None else min(question.stop, length)
        if question.limit is not None:
            stop = min(stop, start + question.limit)
        if stop <= start:
            return Slice(length, first, ())
        oldest_first = con.execute(_UP, (base + start, base + stop))
        if budget is None:
            return Slice(length, first, _records(key, oldest_first.fetchall(), start, stop))
        sound = (to_record(key, row, index) for index, row in enumerate(oldest_first, start))
        fitting = tuple(takewhile(lambda record: budget.takes(record.body, record.text), sound))
        oldest_first.close()
        if not budget.full:
            _require_all(key, len(fitting), start, stop)
        return Slice(length, first, fitting)
    return _tail(con, question, base, first, length, budget)


def _tail(con: apsw.Connection, tail: Tail, base: int, first: int, length: int, budget: Budget | None) -> Slice:
    # Indexes are gapless, so a count is a range: no LIMIT, which would cost more when bound than all ten rows.
    stop = length if tail.before is None else max(first, min(tail.before, length))
    start = first if tail.count is None else max(first, stop - tail.count)
    if tail.max_weight is None and budget is None:
        found = con.execute(_UP, (base + start, base + stop)).fetchall() if stop > start else []
        return Slice(length, first, _records(tail.key, found, start, stop))
    records: list[Record] = []
    room = math.inf if tail.max_weight is None else tail.max_weight
    newest_first = con.execute(_DOWN, (base + start, base + stop))
    index = stop
    for row in newest_first:
        index -= 1
        record = to_record(tail.key, row, index)  # its weight decides, so it must be sound first
        room -= record.weight
        if room < 0 or (budget is not None and not budget.takes(record.body, record.text)):
            break
        records.append(record)
    else:
        _require_all(tail.key, len(records), start, stop)
    newest_first.close()
    records.reverse()
    return Slice(length, first, tuple(records))


def _records(key: Key, rows: list[tuple[Any, ...]], start: int, stop: int) -> tuple[Record, ...]:
    _require_all(key, len(rows), start, stop)
    return tuple([to_record(key, row, index) for index, row in enumerate(rows, start)])


def _require_all(key: Key, found: int, start: int, stop: int) -> None:
    if found < stop - start:
        raise Damaged(f"{key.kind} {key.id!r}: records between {start} and {stop} are missing", reason="gap")


def to_record(key: Key, row: tuple[Any, ...], index: int) -> Record:
    pos, type_, body, weight, at, sender, receiver, text, commitment, chain, receipt, total = row
    if pos & MASK != index:
        raise Damaged(f"{key.kind} {key.id!r}: record {index} is missing", reason="gap")
    if crc32(_pack(row[:-2] if receipt is None else row[:-1])) != total:  # `record_sum`, as often as there are records
        raise Damaged(f"{key.kind} {key.id!r}: record {index} does not match its checksum", reason="checksum")
    stored = _EMPTY_OBJECT if body == _EMPTY_OBJECT else None if body is None else Json(body)
    return Record(index, type_, stored, weight, at, sender, receiver, text, commitment, chain)


def require_sound(key: Key, head: tuple[Any, ...]) -> None:
    """Raise `Damaged` unless this row of `head` (its columns from `ref` to `sum`) is what was written for this key.

    An index leads to a row by its number alone: one bit of damage there leads to somebody else's. So whoever came
    through one looks whether the row is the right one before believing or changing anything that hangs on it.
    """
    if checksum((key.space, key.kind, key.id, *head[:-1])) != head[-1]:
        raise Damaged(f"{key.kind} {key.id!r} does not match its checksum", reason="checksum")


def is_named(execute: Callable[..., Any], key: Key, ref: int) -> bool:
    """Tell whether a row of `head` and the index of names both say that the row is this key's: two pages that agree.
    Then it is so, even if something else in the row is damaged."""
    row = execute("SELECT space, kind, id FROM head WHERE ref = ?", (ref,)).fetchone()
    found = execute(_BY_NAME, (key.space, key.kind, key.id)).fetchall()
    return bool(row == (key.space, key.kind, key.id) and found == [(ref,)])


def top_ref(con: apsw.Connection) -> int:
    """Return the greatest `ref` in use, or left behind by damage: records are known by it, and it must never have been
    anybody else's."""
    row: Any = con.execute(
        "SELECT max((SELECT coalesce(max(ref), 0) FROM head), (SELECT coalesce(max(pos), 0) >> 32 FROM record))"
    ).fetchone()
    if not 0 <= row[0] < 1 << 31:
        raise Damaged("the numbers of what the file holds are damaged; restore a backup", reason="corrupt")
    return int(row[0])


def stored_key(space: Any, kind: Any, id: Any) -> Key:
    """Return the key that a row names, which in a damaged file may be no name at all."""
    try:
        return Key(space, kind, id)
    except InvalidInput:
        raise Damaged("a name is not as it was written", reason="checksum") from None


def checksum(columns: tuple[Any, ...]) -> int:
    """Return the CRC-32 that a row with these columns must carry."""
    return crc32(_pack(columns))


def record_sum(columns: tuple[Any, ...], receipt: bytes | None) -> int:
    """Return the CRC-32 of a record; its receipt counts only if there is one, as in files that knew none."""
    return crc32(_pack(columns if receipt is None else (*columns, receipt)))


@lru_cache(4096)
def label(space: str, kind: str, name: str, value: str) -> bytes:
    """Return the 16 bytes that stand for a tag of the documents of a kind: no text for the index to compare."""
    return blake2b(f"{space}\0{kind}\0{name}\0{value}".encode(), digest_size=16).digest()


@lru_cache(4096)
def place_of(space: str, kind: str) -> int:
    """Return the number that stands for a space and a kind in it."""
    return int.from_bytes(blake2b(f"{space}\0{kind}".encode(), digest_size=8).digest(), signed=True)


def tags_of(stored: bytes | None) -> dict[str, str]:
    """Return a document's tags from the column of its row."""
    return _tags.decode(stored) if stored else {}


def _get(con: apsw.Connection, key: Key) -> Document | None:
    row = con.execute(_GET, (key.space, key.kind, key.id)).fetchone()
    return None if row is None else to_document(key, row)


def to_document(key: Key, row: tuple[Any, ...]) -> Document | None:
    _, stream, alive, version, value, tags, text, *_ = row
    require_sound(key, row)
    if stream:
        raise wrong_shape(key, is_stream=True, writing=False)
    if not alive:
        return None
    return Document(key, version, Json(value), tags_of(tags), text)


def _scan(con: apsw.Connection, scan: Scan, budget: Budget | None) -> Page:
    found = con.execute(*scan_call(scan))
    documents: list[Document] = []
    last: tuple[Any, ...] = ()
    more = False
    for row in _decoded(con, scan, found):
        if len(documents) == scan.limit:
            more = bool(documents)  # the row beyond the limit only tells that there is a next page
            break
        document = _listed(scan, row)
        if budget is not None and not budget.takes(document.value, document.text):
            more = bool(documents)
            break
        documents.append(document)
        last = row
    found.close()
    return Page(tuple(documents), str(last[1]) if more else None)


def _decoded(con: apsw.Connection, scan: Scan, found: apsw.Cursor) -> Iterator[tuple[Any, ...]]:
    """Give the rows of a scan. Of one whose text is none, which the driver refuses, say where it stands."""
    seen = 0
    try:
        for row in found:
            yield row
            seen += 1
    except UnicodeDecodeError as problem:
        if seen == scan.limit:  # the row beyond the limit, of which nothing is asked but that it is there
            yield ()
            return
        sql, values = scan_call(scan, "SELECT h.ref, cast(h.id AS BLOB)")
        rows: list[Any] = con.execute(sql, values).fetchall()
        ref, id = rows[seen]
        named = id.decode(errors="replace")
        raise Damaged(
            f"{scan.kind} {named!r} holds text that is none", reason="corrupt", place=str(ref), id=named
        ) from problem


def _listed(scan: Scan, row: tuple[Any, ...]) -> Document:
    try:
        document = to_document(stored_key(scan.space, scan.kind, row[0]), row[1:])
    except Damaged as damage:
        damage.place, damage.id = str(row[1]), str(row[0])
        raise
    assert document is not None
    if not scan.tags.items() <= document.tags.items():
        raise Damaged(f"{scan.kind} {document.key.id!r} is listed under a tag it does not carry", reason="checksum")
    return document


def scan_call(scan: Scan, shown: str = _FOUND) -> tuple[str, list[Any]]:
    """Return the statement that answers a scan, and its values. Fixed text only: whatever a caller said is bound."""
    edge = cursor(scan)
    if edge is None:
        edge = _LAST if scan.reverse else 0
    labels = [label(scan.space, scan.kind, name, value) for name, value in scan.tags.items()]
    values = [scan.space, scan.kind, scan.limit + 1, edge, *labels]
    past, order = ("<", "DESC") if scan.reverse else (">", "ASC")
    if not labels:
        return f"{shown} FROM head AS h WHERE {_LIVING} AND h.ref {past} ?4 ORDER BY h.ref {order} LIMIT ?3", values
    # CROSS JOIN: left alone, SQLite would walk through all documents of the kind instead.
    if len(labels) == 1:
        carriers = "tag AS t CROSS JOIN head AS h USING (ref)"
        chosen = f"t.label = ?5 AND t.ref {past} ?4 AND {_LIVING} ORDER BY t.ref {order} LIMIT ?3"
        return f"{shown} FROM {carriers} WHERE {chosen}", values
    others = [f"CROSS JOIN tag AS t{n} ON t{n}.ref = h.ref AND t{n}.label = ?{n}" for n in range(7, 5 + len(labels))]
    step = "-" if scan.reverse else "+"
    leap = _LEAP.format(past=past, order=order, step=step)
    carriers = f"leap CROSS JOIN head AS h USING (ref) {' '.join(others)}"
    return f"{leap} {shown} FROM {carriers} WHERE leap.ref = leap.before AND {_LIVING} LIMIT ?3", values
