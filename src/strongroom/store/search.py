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
    A match that cannot be read is `Damaged`; with `past_damage` it is left out and named, and the others are found.
    """

    space: str
    kind: str
    words: tuple[str, ...]
    id: str | None = None
    tags: dict[str, str] = {}
    limit: int = 500
    max_bytes: int | None = None
    skip: int = 0
    past_damage: bool = False

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

    `cut`: `max_bytes` left no room for some. `behind` says how many places were gone through, which is what to `skip`
    to see the others: more than there are matches where something is gone, or damaged. `damaged` are the ids of what
    was left out; a record is called by its stream and its index, as `chat[7]`.
    """

    total: int
    counts: dict[str, int]
    matches: tuple[Match, ...]
    cut: bool = False
    behind: int = 0
    damaged: tuple[str, ...] = ()


def matches_within(find: Find, places: Iterable[Match | None]) -> tuple[tuple[Match, ...], int]:
    """Return the first matches, as many as there is room for, and how many places were gone through for them."""
    budget, taken, behind = None if find.max_bytes is None else Budget(find.max_bytes), list[Match](), 0
    for match in places:
        if match is not None:
            held = match.record or match.document
            assert held is not None
            body = held.body if isinstance(held, Record) else held.value
            if budget is not None and not budget.takes(body, held.text):
                break
            taken.append(match)
        behind += 1
    return tuple(taken), behind


@runtime_checkable
class Searchable(Protocol):
    """A store with a full-text index. What was committed is found at once; what was removed never is."""

    def search(self, find: Find) -> Found:
        """Find the places where the words stand."""
        ...
