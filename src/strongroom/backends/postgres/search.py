"""A search as two calls: where the words stand, and what stands at the best of those places. No I/O here."""

from __future__ import annotations

from typing import Any

from strongroom.backends.postgres.reads import Row, document, record
from strongroom.backends.postgres.tokens import scope_tokens, word_tokens
from strongroom.backends.postgres.wire import MAX, bigints
from strongroom.retrieval import MOST_PLACES, choose
from strongroom.store import Find, Found, Key, Match

FIND = "SELECT * FROM :schema.find(%s, %s, %s, %s, %s, %s)"
PLACES = "SELECT * FROM :schema.places(%s, %s, %s, %s, %s)"

RowPosition = tuple[int, int]


def question(find: Find) -> tuple[Any, ...]:
    """Return what the SQL function `find` takes."""
    narrowing = scope_tokens(find.space, find.kind, find.id, find.tags)
    wanted = word_tokens(find.space, find.kind, _words(find))
    return (find.space, find.kind, find.id, bigints(wanted), bigints(narrowing), MOST_PLACES)


def chosen(find: Find, rows: list[Row]) -> tuple[int, dict[str, int], list[RowPosition]]:
    """Return how many places there are, in how many each word stands, and which ones to look at."""
    places: dict[str, list[RowPosition]] = {word: [] for word in _words(find)}
    names = [*places]
    total = 0
    for word, ref, index in rows:
        if word == 0:
            total = ref
        else:
            places[names[word - 1]].append((ref, index))
    counts = {word: len(found) for word, found in places.items()}
    return total, counts, choose(total, places, find.skip + find.limit)[find.skip :]


def lookup(find: Find, places: list[RowPosition]) -> tuple[Any, ...]:
    """Return what the SQL function `places` takes."""
    refs, indexes = zip(*places, strict=True)
    most = -1 if find.max_bytes is None else min(find.max_bytes, MAX)
    return (find.space, find.kind, bigints(refs), bigints(indexes), most)


def found(find: Find, total: int, counts: dict[str, int], places: list[RowPosition], rows: list[Row]) -> Found:
    """Return what stands at those places. Where some are missing there was no room for them, or they are gone since."""
    matches = tuple(match for row in rows if (match := _match(find, row)) is not None)
    cut = find.max_bytes is not None and len(rows) < len(places)
    behind = len(places) if not cut else rows[-1][0] if rows else 0
    return Found(total, counts, matches, cut, behind)


def _match(find: Find, row: Row) -> Match | None:
    _, id, index, weight, *rest = row
    key = Key(find.space, find.kind, id)
    if index >= 0:
        return Match(key, record=record((0, index, weight, *rest)))
    _, _, _, _, text, body, tags, _ = rest
    read = document(key, weight, body, tags, text)
    return Match(key, document=read) if find.tags.items() <= read.tags.items() else None


def _words(find: Find) -> list[str]:
    return list(dict.fromkeys(find.words))
