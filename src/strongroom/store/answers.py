"""What a read returns."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strongroom.codec import Json
from strongroom.store.names import Key


class Document(Struct, frozen=True):
    """A document as it was stored. `text` is what `Put` made searchable."""

    key: Key
    version: int
    value: Json
    tags: dict[str, str] = {}
    text: str | None = None


class Record(Struct, frozen=True):
    """One entry of a stream as it was stored. `body` is None once it has been erased.

    `chain` is the hash of everything up to here: sha256(previous chain + commitment), from 32 zero bytes. Entries
    without a commitment carry the chain on unchanged.
    """

    index: int
    type: str
    body: Json | None
    weight: int
    at: int
    sender: str | None
    receiver: str | None
    text: str | None
    commitment: bytes | None
    chain: bytes | None
    native: Any = None


class Slice(Struct, frozen=True):
    """Records of a stream, ascending. `length` is the stream's length, `first` the oldest index still stored."""

    length: int
    first: int
    records: tuple[Record, ...]


class Page(Struct, frozen=True):
    """Documents, and the cursor of the next page (None at the end)."""

    documents: tuple[Document, ...]
    next: str | None
