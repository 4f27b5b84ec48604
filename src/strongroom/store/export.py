"""Export and import of everything a store holds, for stores that can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from strongroom.codec import Json
from strongroom.store.names import Key
from strongroom.store.questions import Record

EXPORT_BYTES = 16 * 1024 * 1024  # far below what any store takes at once, and as much as one record may have


class ExportItem(Struct, frozen=True):
    """A key and all or part of what it holds, exactly as stored, tombstones included.

    `version` is a document's version, or how many of a stream's oldest records are gone; `chain` is a stream's hash
    just before its oldest record. `records` is one stretch of the stream; a long stream takes several items.
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


class ExportPage(Struct, frozen=True):
    """Items, and the cursor of the next page (None at the end)."""

    items: tuple[ExportItem, ...]
    next: str | None


@runtime_checkable
class Exportable(Protocol):
    """A store whose whole content, of all spaces, can be exported and imported. For operators, not for services."""

    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        """Return an `ExportPage` of about `limit` records and documents, in order of creation, as far as values, bodies
        and texts take about `max_bytes` together. The first one always comes. `Damaged` says in `place` the cursor
        behind what is damaged, where the store knows it."""
        ...

    def load(self, items: Sequence[ExportItem]) -> None:
        """Put items in place as they are. Loading one twice changes nothing, so an import can be resumed."""
        ...
