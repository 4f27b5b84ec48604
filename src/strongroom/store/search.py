"""Searching, for stores that can."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from strongroom.store.answers import Document, Record
from strongroom.store.names import Key, require_natural, require_tags


class Find(Struct, frozen=True):
    """Ask where any of `words` stand: in one stream (`id`), in all streams of a kind, or in the documents of a kind.

    `words` come from `strongroom.stemming.words`. `tags` narrows to documents that carry all of them. At most `limit`
    places are returned, the most promising ones (`strongroom.retrieval.choose`).
    """

    space: str
    kind: str
    words: tuple[str, ...]
    id: str | None = None
    tags: dict[str, str] = {}
    limit: int = 500

    def __post_init__(self) -> None:
        Key(self.space, self.kind, self.id or "-")
        require_natural(limit=self.limit)
        require_tags(self.tags)


class Match(Struct, frozen=True):
    """A place that holds one of the words: a record of a stream, or a document."""

    key: Key
    record: Record | None = None
    document: Document | None = None


class Found(Struct, frozen=True):
    """How many places there are, in how many each word stands (both counted up to retrieval.MOST_PLACES), and which."""

    total: int
    counts: dict[str, int]
    matches: tuple[Match, ...]


@runtime_checkable
class Searchable(Protocol):
    """A store with a full-text index. What was committed is found at once; what was removed never is."""

    def search(self, find: Find) -> Any:
        """Return `Found` (or an awaitable of it)."""
        ...
