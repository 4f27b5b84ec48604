"""Carrying everything out of a server, or into one, exactly as it is stored. Pure: what to ask, and what it means.

A cursor is "order:index:space": where in a space to go on, and from which record of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct as Packer
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.backends.redis.decoding import Head, open_document, open_head
from strongroom.backends.redis.encoding import (
    Call,
    commit_keys,
    pack_document,
    pack_entry,
    places_of,
    receipt_arguments,
)
from strongroom.backends.redis.layout import SEP, Layout, checksum_seed
from strongroom.errors import Damaged, InvalidInput
from strongroom.store import Commit, Key, Parcel, Record

# What one call carries: bounded like a commit, and far below its limits.
MAX_PARCELS = 500
MAX_LOAD = 2_000
MAX_LOAD_BYTES = 32 * 1024 * 1024

_COUNTS, _DOCUMENT, _STREAM, _INDEX = (Packer(format).pack for format in (">III", ">cIdB", ">cIdBI", ">d"))


class Place(Struct, frozen=True):
    """Where a move goes on."""

    space: str = ""
    order: int = 0
    index: int = 0

    def __str__(self) -> str:
        return f"{self.order}:{self.index}:{self.space}"


def parse_place(cursor: str | None) -> Place:
    if cursor is None:
        return Place()
    order, _, rest = cursor.partition(":")
    index, _, space = rest.partition(":")
    if not (order.isdecimal() and index.isdecimal()):
        raise InvalidInput(f"a cursor must be one that an earlier shipment returned, not {cursor!r:.40}")
    return Place(space, int(order), int(index))


class Listed(Struct, frozen=True):
    """A key of a space as the list names it."""

    order: int
    key: Key
    head: Head
    value: bytes | None


def encode_list(layout: Layout, place: Place, limit: int) -> Call:
    """Ask for the keys of a space from a place on."""
    low = b"[" + SEP + b"%016d" % place.order
    return Call([layout.heads(place.space), layout.index(place.space)], [-1, 1, b"L", 1, 2, low, limit])


def decode_list(space: str, flat: Sequence[Any]) -> list[Listed]:
    """Open the answer, leaving out entries without a head."""
    found = []
    for at in range(0, len(flat), 4):
        order, name, head, value = flat[at : at + 4]
        if head is not None:
            key = _named(space, name)
            found.append(Listed(int(order), key, open_head(key, head), value))
    return found


def document_parcel(listed: Listed) -> Parcel:
    if not listed.head.alive:
        return Parcel(listed.key, False, False, listed.head.count)
    found = open_document(listed.key, listed.head, listed.value)
    return Parcel(listed.key, False, True, found.version, found.value, found.tags, found.text)


def stream_parcel(listed: Listed, records: tuple[Record, ...]) -> Parcel:
    head = listed.head
    return Parcel(listed.key, True, head.alive, head.first, chain=head.base or None, records=records)


def in_loads(parcels: Sequence[Parcel]) -> Iterator[list[Parcel]]:
    """Cut parcels into loads of one space and of a bounded size, in order."""
    load: list[Parcel] = []
    records = size = 0
    for parcel in (piece for each in parcels for piece in _pieces(each)):
        weight = sum(len(record.body or b"") for record in parcel.records) + len(parcel.value or b"")
        full = records + len(parcel.records) > MAX_LOAD or size + weight > MAX_LOAD_BYTES or len(load) == MAX_PARCELS
        if load and (full or parcel.key.space != load[0].key.space):
            yield load
            load, records, size = [], 0, 0
        load.append(parcel)
        records += len(parcel.records)
        size += weight
    if load:
        yield load


def _pieces(parcel: Parcel) -> Iterator[Parcel]:
    """Cut a parcel whose records are too many or too large for one load."""
    piece: list[Record] = []
    size = 0
    for record in parcel.records:
        weight = len(record.body or b"")
        if piece and (len(piece) == MAX_LOAD or size + weight > MAX_LOAD_BYTES):
            yield msgspec.structs.replace(parcel, records=tuple(piece))
            piece, size = [], 0
        piece.append(record)
        size += weight
    yield msgspec.structs.replace(parcel, records=tuple(piece))


def encode_load(layout: Layout, commit: Commit, parcels: Sequence[Parcel]) -> Call:
    """Return the call of the commit script that puts parcels in place under a commit's id."""
    places = places_of(parcels)
    arguments: list[Any] = [*receipt_arguments(commit, 0), _COUNTS(0, 0, len(parcels))]
    for parcel in parcels:
        add = _add_stream if parcel.stream else _add_document
        add(arguments, parcel, places[parcel.key])
    return Call(commit_keys(layout, commit.space, places), arguments)


def _add_document(arguments: list[Any], parcel: Parcel, place: int) -> None:
    crc, content, pairs = b"", b"", b""
    if parcel.alive and parcel.value is not None:
        crc, content, pairs = pack_document(parcel.key, parcel.value, parcel.tags, parcel.text)
    arguments += (_DOCUMENT(b"X", place, parcel.version, parcel.alive) + crc, content, pairs)


def _add_stream(arguments: list[Any], parcel: Parcel, place: int) -> None:
    seed = checksum_seed(parcel.key)
    head = _STREAM(b"Y", place, parcel.version, parcel.alive, len(parcel.records))
    arguments.append(head + (parcel.chain or b""))
    for record in parcel.records:
        arguments += (_INDEX(record.index) + (record.chain or b""), pack_entry(record, seed))


def _named(space: str, name: Any) -> Key:
    try:
        kind, id = name.decode().split("\x1f")
        return Key(space, kind, id)
    except (ValueError, AttributeError):
        raise Damaged(f"the index of space {space!r} holds an entry that can not be read", reason="corrupt") from None
