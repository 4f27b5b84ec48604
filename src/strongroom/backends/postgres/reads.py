"""Questions as the arguments of one call, and its rows as answers. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from strongroom.backends.postgres.wire import MAX, bigints, blobs, labels, texts, unescaped
from strongroom.codec import trusted
from strongroom.errors import Damaged
from strongroom.store import Document, Get, Key, Page, Question, Range, Record, Scan, Slice, Tail, cursor, wrong_shape

GET, RANGE, TAIL, SCAN = 1, 2, 3, 4
STREAM, ALIVE = 1, 2
EMPTY = Slice(0, 0, ())

CALL = f"SELECT * FROM :schema.read({', '.join(['%s'] * 9)})"

Row = tuple[Any, ...]
_tags = msgspec.json.Decoder(dict[str, str])


def arguments(questions: Sequence[Question]) -> tuple[Any, ...]:
    """Return what the SQL function `read` takes."""
    rows = [_row(question) for question in questions]
    ops, spaces, kinds, ids, froms, tos, counts, rooms, digests = zip(*rows, strict=True)
    return (
        bigints(ops),
        texts(spaces),
        texts(kinds),
        texts(ids),
        bigints(froms),
        bigints(tos),
        bigints(counts),
        bigints(rooms),
        blobs(digests),
    )


def answers(questions: Sequence[Question], rows: Sequence[Row]) -> list[Any]:
    """Return the answer to each question, in their order."""
    found = {place: list(group) for place, group in groupby(rows, key=itemgetter(0))}
    return [_answer(question, found.get(place, [])) for place, question in enumerate(questions, 1)]


def _row(question: Question) -> tuple[int, str, str, str, int, int, int, int, bytes | None]:
    if isinstance(question, Scan):
        edge = cursor(question)
        start = edge if edge is not None else MAX if question.reverse else 0
        limit = min(question.limit, MAX - 1) + 1  # one more, to know whether there is a next page
        return (SCAN, question.space, question.kind, "", start, 0, int(question.reverse), limit, labels(question.tags))
    key = question.key
    where = (key.space, key.kind, key.id)
    if type(question) is Range:
        return (RANGE, *where, _or_max(question.start), _or_max(question.stop), _or_max(question.limit), -1, None)
    if type(question) is Tail:
        room = -1 if question.max_weight is None else _or_max(question.max_weight)
        return (TAIL, *where, 0, _or_max(question.before), _or_max(question.count), room, None)
    return (GET, *where, 0, 0, 0, -1, None)


def _or_max(number: int | None) -> int:
    return MAX if number is None else min(number, MAX)


def _answer(question: Question, rows: list[Row]) -> Document | Slice | Page | None:
    if isinstance(question, Scan):
        return _page(question, rows)
    key = question.key
    wants_stream = type(question) is not Get
    if not rows:
        return EMPTY if wants_stream else None
    _, version, first, flags, _, _, _, text, value, tags, _ = rows[0]
    if bool(flags & STREAM) != wants_stream:
        raise wrong_shape(key, is_stream=not wants_stream, writing=False)
    if not flags & ALIVE:
        return EMPTY if wants_stream else None
    if wants_stream:
        return Slice(version, first, tuple(_records(key, rows[1:])))
    return document(key, version, value, tags, text)


def _page(scan: Scan, rows: list[Row]) -> Page:
    shown = rows[: scan.limit]
    documents = [document(Key(scan.space, scan.kind, row[5]), row[2], row[8], row[9], row[7]) for row in shown]
    return Page(tuple(documents), str(shown[-1][1]) if shown and len(rows) > len(shown) else None)


def document(key: Key, version: int, value: bytes, tags: bytes | None, text: str | None) -> Document:
    return Document(key, version, trusted(value), decode_tags(tags), unescaped(text))


def decode_tags(tags: bytes | None) -> dict[str, str]:
    return _tags.decode(tags) if tags else {}


def record(row: Row) -> Record:
    """Return the record in a row of (anything, index, weight, at, type, ...)."""
    _, index, weight, at, type_, sender, receiver, text, body, commitment, chain = row
    return Record(
        index,
        unescaped(type_) or "",
        None if body is None else trusted(body),
        weight,
        at,
        unescaped(sender),
        unescaped(receiver),
        unescaped(text),
        commitment,
        chain,
    )


def _records(key: Key, rows: list[Row]) -> Iterator[Record]:
    for expected, row in enumerate(rows, rows[0][1] if rows else 0):
        if row[1] != expected:
            raise Damaged(f"{key.kind} {key.id!r}: record {expected} is missing", reason="gap")
        yield record(row)
