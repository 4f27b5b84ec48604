"""Answering questions: rows in, frozen values out, every row checked against its checksum."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import apsw
import msgspec

from holdfast.backends.sqlite.labels import label, tags_of
from holdfast.backends.sqlite.schema import INDEX_BITS
from holdfast.codec import Json
from holdfast.errors import Damaged, InvalidInput
from holdfast.store import Document, Get, Key, Page, Question, Range, Record, Scan, Slice, Tail, cursor, wrong_shape

MASK = (1 << INDEX_BITS) - 1
EMPTY = Slice(0, 0, ())

_pack = msgspec.msgpack.Encoder().encode
# Which tag is rarer matters only while both are not many.
_CARRIERS = "SELECT count(*) FROM (SELECT 1 FROM tag WHERE label = ? LIMIT 256)"

_HEAD = """
SELECT h.ref, h.stream, h.alive, h.version,
       (SELECT pos FROM record WHERE pos >= h.ref << 32 AND pos < (h.ref + 1) << 32 ORDER BY pos DESC LIMIT 1)
FROM head AS h WHERE h.space = ? AND h.kind = ? AND h.id = ?"""
DOCUMENT_COLUMNS = "ref, stream, alive, version, value, tags, text, chain, sum"
_GET = f"SELECT {DOCUMENT_COLUMNS} FROM head WHERE space = ? AND kind = ? AND id = ?"
RECORD_COLUMNS = "pos, type, body, weight, at, sender, receiver, text, commitment, chain, receipt, sum"
_UP = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos"
_DOWN = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos DESC"


def answer(con: apsw.Connection, question: Question) -> Any:
    """Answer one question on a connection that holds a snapshot."""
    if isinstance(question, Get):
        return _get(con, question.key)
    if isinstance(question, Scan):
        return _scan(con, question)
    key = question.key
    row = con.execute(_HEAD, (key.space, key.kind, key.id)).fetchone()
    if row is None:
        return EMPTY
    ref, stream, alive, first, last = row
    if not stream:
        _get(con, key)  # checks the row before we blame the caller
        raise wrong_shape(key, is_stream=False)
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
        found = con.execute(_UP, (base + start, base + stop)).fetchall() if stop > start else []
        return Slice(length, first, _records(key, found, start, stop))
    return _tail(con, question, base, first, length)


def _tail(con: apsw.Connection, tail: Tail, base: int, first: int, length: int) -> Slice:
    # Indexes are gapless, so a count is a range: no LIMIT, which would cost more when bound than all ten rows.
    stop = length if tail.before is None else max(first, min(tail.before, length))
    start = first if tail.count is None else max(first, stop - tail.count)
    if tail.max_weight is None:
        found = con.execute(_UP, (base + start, base + stop)).fetchall() if stop > start else []
        return Slice(length, first, _records(tail.key, found, start, stop))
    rows: list[tuple[Any, ...]] = []
    room = tail.max_weight
    newest_first = con.execute(_DOWN, (base + start, base + stop))
    for row in newest_first:
        room -= row[3]
        if room < 0:
            start = stop - len(rows)
            to_record(tail.key, row, start - 1)  # its weight decided, so it must be sound too
            break
        rows.append(row)
    newest_first.close()
    rows.reverse()
    return Slice(length, first, _records(tail.key, rows, start, stop))


def _records(key: Key, rows: list[tuple[Any, ...]], start: int, stop: int) -> tuple[Record, ...]:
    if len(rows) < stop - start:
        raise Damaged(f"{key.kind} {key.id!r}: records between {start} and {stop} are missing", reason="gap")
    return tuple([to_record(key, row, index) for index, row in enumerate(rows, start)])


def to_record(key: Key, row: tuple[Any, ...], index: int) -> Record:
    pos, type_, body, weight, at, sender, receiver, text, commitment, chain, receipt, total = row
    if pos & MASK != index:
        raise Damaged(f"{key.kind} {key.id!r}: record {index} is missing", reason="gap")
    if record_sum(row[:-2], receipt) != total:
        raise Damaged(f"{key.kind} {key.id!r}: record {index} does not match its checksum", reason="checksum")
    stored = None if body is None else Json(body)
    return Record(index, type_, stored, weight, at, sender, receiver, text, commitment, chain)


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


def _get(con: apsw.Connection, key: Key) -> Document | None:
    row = con.execute(_GET, (key.space, key.kind, key.id)).fetchone()
    return None if row is None else to_document(key, row)


def to_document(key: Key, row: tuple[Any, ...]) -> Document | None:
    _, stream, alive, version, value, tags, text, _, total = row
    if checksum((key.space, key.kind, key.id, *row[:-1])) != total:
        raise Damaged(f"{key.kind} {key.id!r} does not match its checksum", reason="checksum")
    if stream:
        raise wrong_shape(key, is_stream=True)
    if not alive:
        return None
    return Document(key, version, Json(value), tags_of(tags), text)


def _scan(con: apsw.Connection, scan: Scan) -> Page:
    rows: list[Any] = con.execute(*scan_call(con, scan)).fetchall()
    documents = []
    for row in rows[: scan.limit]:
        document = to_document(stored_key(scan.space, scan.kind, row[0]), row[1:])
        assert document is not None
        documents.append(document)
    more = len(rows) > scan.limit and documents
    return Page(tuple(documents), str(rows[scan.limit - 1][1]) if more else None)


def scan_call(con: apsw.Connection, scan: Scan) -> tuple[str, list[Any]]:
    """Return the statement that answers a scan, and its values. Fixed text only: whatever a caller said is bound."""
    edge, (after, order) = cursor(scan), ("<", "DESC") if scan.reverse else (">", "ASC")
    labels = [label(scan.space, scan.kind, name, value) for name, value in scan.tags.items()]
    if len(labels) > 1:
        labels.sort(key=lambda each: con.execute(_CARRIERS, (each,)).fetchall())
    # From the rarest tag to its documents: left alone, SQLite would walk through all documents of the kind instead.
    sources = [f"tag AS t{place}" for place in range(len(labels))] + ["head AS h"]
    alike = "".join(f" AND t{place}.label = ? AND t{place}.ref = h.ref" for place in range(len(labels)))
    beyond = "" if edge is None else f" AND {'t0' if labels else 'h'}.ref {after} ?"
    sql = (
        "SELECT h.id, h.ref, h.stream, h.alive, h.version, h.value, h.tags, h.text, h.chain, h.sum"
        f" FROM {' CROSS JOIN '.join(sources)}"
        f" WHERE h.space = ? AND h.kind = ? AND h.stream = 0 AND h.alive = 1{alike}{beyond}"
        f" ORDER BY {'t0' if labels else 'h'}.ref {order} LIMIT ?"
    )
    return sql, [scan.space, scan.kind, *labels, *([] if edge is None else [edge]), scan.limit + 1]
