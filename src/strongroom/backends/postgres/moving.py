"""Carrying everything out of a database, or into one, exactly as it is stored. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from strongroom.backends.postgres.reads import Row, decode_tags, record
from strongroom.backends.postgres.tokens import tokens_of
from strongroom.backends.postgres.wire import MAX, bigints, labels, texts, unescaped
from strongroom.codec import encode, trusted
from strongroom.errors import InvalidInput
from strongroom.store import Key, Parcel, Record, Shipment

UNLOAD = "SELECT * FROM :schema.unload(%s, %s, %s, %s)"
LOAD = f"SELECT :schema.load({', '.join(['%b'] * 26)})"

_cursor = msgspec.json.Decoder(tuple[str, int, int])


def question(after: str | None, limit: int) -> tuple[Any, ...]:
    """Return what the SQL function `unload` takes. The cursor is [space, creation, index of the next record]."""
    try:
        space, ref, index = _cursor.decode(after) if after is not None else ("", 0, 0)
    except msgspec.MsgspecError:
        raise InvalidInput("a cursor must be one that an earlier shipment returned") from None
    return (space, ref, index, max(1, min(limit, MAX)))


def shipment(rows: list[Row], limit: int) -> Shipment:
    """Return the parcels, and where to go on unless everything came."""
    parcels: list[Parcel] = []
    heads = [place for place, row in enumerate(rows) if row[1] is None]
    for place, end in pairwise([*heads, len(rows)]):
        parcels.append(_parcel(rows[place], rows[place + 1 : end]))
    if sum(max(len(parcel.records), 1) for parcel in parcels) < limit or not parcels:
        return Shipment(tuple(parcels), None)
    last, ref = parcels[-1], rows[heads[-1]][0]
    go_on = (ref, last.records[-1].index + 1) if last.records else (ref + 1, 0)
    return Shipment(tuple(parcels), encode([last.key.space, *go_on]).decode())


def _parcel(head: Row, rows: list[Row]) -> Parcel:
    _, _, version, _, _, _, _, text, value, tags, base, space, kind, id, stream, alive = head
    records = tuple(record(row[:11]) for row in rows)
    stored = None if value is None else trusted(value)
    return Parcel(
        Key(space, kind, id), stream, alive, version, stored, decode_tags(tags), unescaped(text), base, records
    )


def arguments(parcels: Sequence[Parcel]) -> tuple[Any, ...]:
    """Return what the SQL function `load` takes."""
    records = [(place, parcel.key, record) for place, parcel in enumerate(parcels, 1) for record in parcel.records]
    documents = [parcel if not parcel.stream else None for parcel in parcels]
    return (
        texts([parcel.key.space for parcel in parcels]),
        texts([parcel.key.kind for parcel in parcels]),
        texts([parcel.key.id for parcel in parcels]),
        bigints([int(parcel.stream) for parcel in parcels]),
        bigints([int(parcel.alive) for parcel in parcels]),
        bigints([_end(parcel) for parcel in parcels]),
        bigints([parcel.version if parcel.stream else 0 for parcel in parcels]),
        [parcel.value for parcel in parcels],
        [encode(parcel.tags) if parcel.tags else None for parcel in parcels],
        [labels(parcel.tags) if parcel.alive else None for parcel in parcels],
        texts([parcel.text for parcel in parcels]),
        texts([tokens_of(found.key, found.text, found.tags) if found else None for found in documents]),
        [parcel.chain for parcel in parcels],
        [parcel.records[-1].chain if parcel.records else parcel.chain for parcel in parcels],
        bigints([place for place, _, _ in records]),
        *_columns([record for _, _, record in records]),
        texts([tokens_of(key, record.text) for _, key, record in records]),
    )


def _columns(records: list[Record]) -> tuple[Any, ...]:
    return (
        bigints([record.index for record in records]),
        texts([record.type for record in records]),
        [record.body for record in records],
        bigints([record.weight for record in records]),
        bigints([record.at for record in records]),
        texts([record.sender for record in records]),
        texts([record.receiver for record in records]),
        texts([record.text for record in records]),
        [record.commitment for record in records],
        [record.chain for record in records],
    )


def _end(parcel: Parcel) -> int:
    return parcel.records[-1].index + 1 if parcel.records else parcel.version
