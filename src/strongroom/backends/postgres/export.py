"""Export and import of everything in a database, exactly as it is stored. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from strongroom.backends.postgres.reads import Row, decode_tags, record
from strongroom.backends.postgres.tokens import tokens_of
from strongroom.backends.postgres.wire import MAX, bigints, blobs, labels, texts, unescaped
from strongroom.codec import encode, trusted
from strongroom.errors import InvalidInput
from strongroom.store import ExportItem, ExportPage, Key, Record

UNLOAD = "SELECT * FROM :schema.unload(%s, %s, %s, %s, %s)"
LOAD = f"SELECT :schema.load({', '.join(['%b'] * 26)})"

_cursor = msgspec.json.Decoder(tuple[str, int, int])


def question(after: str | None, limit: int, max_bytes: int) -> tuple[Any, ...]:
    """Return what the SQL function `unload` takes. The cursor is [space, creation, index of the next record]."""
    try:
        space, ref, index = _cursor.decode(after) if after is not None else ("", 0, 0)
    except msgspec.MsgspecError:
        raise InvalidInput("a cursor must be one that an earlier page returned") from None
    return (space, ref, index, max(1, min(limit, MAX)), min(max_bytes, MAX))


def parted(rows: list[Row]) -> tuple[list[Row], str | None]:
    """Return the rows of heads and records, and where to go on unless everything came: the last row says it."""
    if not rows or (last := rows[-1])[1] is None or last[11] is None:
        return rows, None
    return rows[:-1], encode([last[11], last[0], last[1]]).decode()


def page(rows: list[Row]) -> ExportPage:
    """Return the items, and where to go on."""
    rows, after = parted(rows)
    heads = [place for place, row in enumerate(rows) if row[1] is None]
    items = [_item(rows[place], rows[place + 1 : end]) for place, end in pairwise([*heads, len(rows)])]
    return ExportPage(tuple(items), after)


def _item(head: Row, rows: list[Row]) -> ExportItem:
    _, _, version, _, _, _, _, text, value, tags, base, space, kind, id, stream, alive = head
    records = tuple(record(row[:11]) for row in rows)
    stored = None if value is None else trusted(value)
    return ExportItem(
        Key(space, kind, id), stream, alive, version, stored, decode_tags(tags), unescaped(text), base, records
    )


def arguments(items: Sequence[ExportItem]) -> tuple[Any, ...]:
    """Return what the SQL function `load` takes."""
    records = [(place, item.key, record) for place, item in enumerate(items, 1) for record in item.records]
    documents = [item if not item.stream else None for item in items]
    return (
        texts([item.key.space for item in items]),
        texts([item.key.kind for item in items]),
        texts([item.key.id for item in items]),
        bigints([int(item.stream) for item in items]),
        bigints([int(item.alive) for item in items]),
        bigints([_end(item) for item in items]),
        bigints([item.version if item.stream else 0 for item in items]),
        blobs(item.value for item in items),
        blobs(encode(item.tags) if item.tags else None for item in items),
        blobs(labels(item.tags) if item.alive else None for item in items),
        texts([item.text for item in items]),
        texts([tokens_of(found.key, found.text, found.tags) if found else None for found in documents]),
        blobs(item.chain for item in items),
        blobs(item.records[-1].chain if item.records else item.chain for item in items),
        bigints([place for place, _, _ in records]),
        *_columns([record for _, _, record in records]),
        texts([tokens_of(key, record.text) for _, key, record in records]),
    )


def _columns(records: list[Record]) -> tuple[Any, ...]:
    return (
        bigints([record.index for record in records]),
        texts([record.type for record in records]),
        blobs(record.body for record in records),
        bigints([record.weight for record in records]),
        bigints([record.at for record in records]),
        texts([record.sender for record in records]),
        texts([record.receiver for record in records]),
        texts([record.text for record in records]),
        blobs(record.commitment for record in records),
        blobs(record.chain for record in records),
    )


def _end(item: ExportItem) -> int:
    return item.records[-1].index + 1 if item.records else item.version
