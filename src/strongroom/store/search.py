"""Searching, for stores that can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.store.bounds import Budget
from strongroom.store.names import Key, require_natural, require_tags
from strongroom.store.questions import Document, Record

MOST_WORDS = 100  # each is looked up in the index of everybody


class Find(Struct, frozen=True):
    """Ask where any of `words` stand: in one stream (`id`), in all streams of a kind, or in the documents of a kind.

    `words` come from `strongroom.stemming.words`, at most `MOST_WORDS` of them. `tags` narrows to documents that carry
    all of them. At most `limit` places are returned, the most promising ones (`strongroom.retrieval.choose`), and with
    `max_bytes` only as many of them as hold about so much together, but always the first.
    """

    space: str
    kind: str
    words: tuple[str, ...]
    id: str | None = None
    tags: dict[str, str] = {}
    limit: int = 500
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        Key(self.space, self.kind, self.id or "-")
        require_natural(limit=self.limit)
        if len(self.words) > MOST_WORDS:
            raise InvalidInput(f"a search is for at most {MOST_WORDS} different words, not {len(self.words)}")
        require_natural(or_none=True, max_bytes=self.max_bytes)
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


def room_for(find: Find) -> Callable[[Match], bool]:
    """Return what tells, match by match, whether there is still room for it."""
    if find.max_bytes is None:
        return lambda _: True
    budget = Budget(find.max_bytes)

    def takes(match: Match) -> bool:
        if match.record is not None:
            return budget.takes(match.record.body, match.record.text)
        assert match.document is not None
        return budget.takes(match.document.value, match.document.text)

    return takes


@runtime_checkable
class Searchable(Protocol):
    """A store with a full-text index. What was committed is found at once; what was removed never is."""

    def search(self, find: Find) -> Found:
        """Find the places where the words stand."""
        ...
