"""Carrying everything from one store to another, for stores that can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from strongroom.codec import Json
from strongroom.store.answers import Record
from strongroom.store.names import Key


class Parcel(Struct, frozen=True):
    """A key and all or part of what it holds, exactly as stored, tombstones included.

    `version` is a document's version, or how many of a stream's oldest records are gone; `chain` is a stream's hash
    just before its oldest record. `records` is one stretch of the stream; a long stream takes several parcels.
    """

    key: Key
    stream: bool
    alive: bool
    version: int
    value: Json | None = None
    tags: dict[str, str] = {}
    text: str | None = None
    chain: bytes | None = None
    records: tuple[Record, ...] = ()


class Shipment(Struct, frozen=True):
    """Parcels, and the cursor of the next shipment (None at the end)."""

    parcels: tuple[Parcel, ...]
    next: str | None


@runtime_checkable
class Movable(Protocol):
    """A store whose whole content, of all spaces, can be carried to another one. For operators, not for services."""

    def unload(self, after: str | None, limit: int) -> Shipment:
        """Return a `Shipment` of about `limit` records and documents, in order of creation."""
        ...

    def load(self, parcels: Sequence[Parcel]) -> None:
        """Put parcels in place as they are. Loading one twice changes nothing, so a broken move can be resumed."""
        ...
