"""Searching, for stores that can."""

from __future__ import annotations

from collections.abc import Iterable
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
    all of them. At most `limit` places are returned, the most promising ones (`strongroom.retrieval.choose`) behind the
    first `skip`, and with `max_bytes` only as many of them as hold about so much together, but always the first.
    """

    space: str
    kind: str
    words: tuple[str, ...]
    id: str | None = None
    tags: dict[str, str] = {}
    limit: int = 500
    max_bytes: int | None = None
    skip: int = 0

    def __post_init__(self) -> None:
        Key(self.space, self.kind, self.id or "-")
        require_natural(limit=self.limit, skip=self.skip)
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
    """How many places there are, in how many each word stands (both counted up to retrieval.MOST_PLACES), and which.

    `cut`: `max_bytes` left no room for some, which `skip` may ask for.
    """

    total: int
    counts: dict[str, int]
    matches: tuple[Match, ...]
    cut: bool = False


def matches_within(find: Find, matches: Iterable[Match]) -> tuple[tuple[Match, ...], bool]:
    """Return the first matches, as many as there is room for, and whether there was none for the others."""
    if find.max_bytes is None:
        return tuple(matches), False
    budget, taken = Budget(find.max_bytes), list[Match]()
    for match in matches:
        held = match.record or match.document
        assert held is not None
        if not budget.takes(held.body if isinstance(held, Record) else held.value, held.text):
            return tuple(taken), True
        taken.append(match)
    return tuple(taken), False


@runtime_checkable
class Searchable(Protocol):
    """A store with a full-text index. What was committed is found at once; what was removed never is."""

    def search(self, find: Find) -> Found:
        """Find the places where the words stand. A match that cannot be read is `Damaged`, whose `place` says how many
        to `skip` to get behind it."""
        ...
