"""Questions as the arguments of one call, and its rows as answers. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from strongroom.backends.postgres.wire import MAX, bigints, blobs, labels, texts, unescaped
from strongroom.codec import trusted
from strongroom.errors import Damaged
from strongroom.store import (
    Answer,
    AnyQuestion,
    Document,
    Get,
    Key,
    Page,
    Part,
    Range,
    Receipt,
    ReceiptOf,
    Record,
    Scan,
    Slice,
    Tail,
    cursor,
    ended,
    wrong_shape,
)

GET, RANGE, TAIL, SCAN, RECEIPT = 1, 2, 3, 4, 5
STREAM, ALIVE = 1, 2
EMPTY = Slice(0, 0, ())

CALL = f"SELECT * FROM :schema.read({', '.join(['%b'] * 10)})"

Row = tuple[Any, ...]
_tags = msgspec.json.Decoder(dict[str, str])


def arguments(questions: Sequence[AnyQuestion], max_bytes: int = -1) -> tuple[Any, ...]:
    """Return what the SQL function `read` takes; -1: there is no bound."""
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
        min(max_bytes, MAX),
    )


def answers(questions: Sequence[AnyQuestion], rows: Sequence[Row]) -> list[Answer]:
    """Return the answer to each question, in their order."""
    found = {place: list(group) for place, group in groupby(rows, key=itemgetter(0))}
    return [_answer(question, found.get(place, [])) for place, question in enumerate(questions, 1)]


def part(questions: Sequence[AnyQuestion], rows: Sequence[Row]) -> Part:
    """Return the answers that fitted. A last row with a negative number says at which question the read ended."""
    if not rows or rows[-1][0] > 0:
        return Part(answers(questions, rows))
    place = -rows[-1][0]
    *before, last = answers(questions[:place], rows[:-1])
    if type(last) is Page and last.documents:
        last = Page(last.documents, str(rows[-2][1]))
    return ended(before, last)


def _row(question: AnyQuestion) -> tuple[int, str, str, str, int, int, int, int, bytes | None]:
    if isinstance(question, Scan):
        edge = cursor(question)
        start = edge if edge is not None else MAX if question.reverse else 0
        limit = min(question.limit, MAX - 1) + 1  # one more, to know whether there is a next page
        return (SCAN, question.space, question.kind, "", start, 0, int(question.reverse), limit, labels(question.tags))
    if isinstance(question, ReceiptOf):
        return (RECEIPT, question.space, "", question.id, 0, 0, 0, -1, None)
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


def _answer(question: AnyQuestion, rows: list[Row]) -> Answer:
    if isinstance(question, Scan):
        return _page(question, rows)
    if isinstance(question, ReceiptOf):
        return _receipt(question, rows)
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


def _receipt(question: ReceiptOf, rows: list[Row]) -> Receipt | None:
    if not rows:
        return None
    versions, answer, digest = rows[0][7:10]
    return receipt(question.id, map(int, versions.split(",") if versions else ()), digest, answer)


def receipt(id: str, versions: Iterable[int], digest: bytes, answer: bytes | None) -> Receipt:
    """Return the receipt of a commit that was made before."""
    return Receipt(id, tuple(versions), digest, None if answer is None else trusted(answer), repeated=True)


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
