"""Ranking, pure: which places may answer a query, how well, and how to join two opinions.

A store's index only says where words stand (`strongroom.store.Found`). Everything that decides an order is here, so the
order is the same on every store.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Place = TypeVar("Place", bound=Hashable)

# How many places of one word a store looks at, newest first. A word more frequent than this says nothing about where
# an answer is, and counting on would make a query's cost grow with history.
MOST_PLACES = 10_000

# BM25. Conversation turns are short and of similar use whatever their length, hence the low length penalty.
K1, B = 0.8, 0.3

# What a turn lends to the turns one, two and three places away: an answer often stands beside the words of a question.
NEIGHBOURS = (0.6, 0.4, 0.2)


def rarity(total: int, count: int) -> float:
    """Return the weight of a word that stands in `count` of `total` places (BM25's idf, never negative)."""
    return math.log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


def choose(total: int, places: Mapping[str, Sequence[Place]], limit: int) -> list[Place]:
    """Return the most promising places: those holding the rarest words; of equals, the first mentioned.

    `places` lists, for each word, where it stands, newest first.
    """
    promise: dict[Place, float] = {}
    for word in sorted(places, key=lambda word: (len(places[word]), word)):
        weight = rarity(total, len(places[word]))
        for place in places[word]:
            promise[place] = promise.get(place, 0.0) + weight
    return sorted(promise, key=lambda place: -promise[place])[:limit]


def bm25(query: Sequence[str], texts: Sequence[Sequence[str]], total: int, counts: Mapping[str, int]) -> list[float]:
    """Score each text (as words) against a query. `counts` says in how many of `total` places each word stands."""
    lengths = [len(text) for text in texts]
    average = (sum(lengths) / len(lengths)) if lengths else 1.0
    weights = {word: rarity(total, counts.get(word, 0)) for word in query}
    scores = []
    for text, length in zip(texts, lengths, strict=True):
        found = Counter(word for word in text if word in weights)
        norm = K1 * (1 - B + B * length / (average or 1.0))
        scores.append(sum(weights[word] * n * (K1 + 1) / (n + norm) for word, n in sorted(found.items())))
    return scores


def share(scores: Mapping[int, float], lent: Sequence[float] = NEIGHBOURS) -> dict[int, float]:
    """Let each place lend part of its score to its neighbours by index. The result may hold indexes of neither."""
    shared = dict(scores)
    for index, score in scores.items():
        for distance, part in enumerate(lent, 1):
            for neighbour in (index - distance, index + distance):
                if neighbour >= 0:
                    shared[neighbour] = shared.get(neighbour, 0.0) + part * score
    return shared


def normalised(scores: Mapping[Place, float]) -> dict[Place, float]:
    """Stretch scores to 0..1, so that two scales can be added."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high <= low:
        return dict.fromkeys(scores, 1.0)
    return {place: (score - low) / (high - low) for place, score in scores.items()}


def fuse(opinions: Iterable[tuple[float, Mapping[Place, float]]]) -> dict[Place, float]:
    """Add up several rankings, each normalised and weighted.

    Reciprocal-rank fusion was measured to be worse than BM25 alone, because it forgets by how much the first is best.
    """
    total: dict[Place, float] = {}
    for weight, scores in opinions:
        for place, score in normalised(scores).items():
            total[place] = total.get(place, 0.0) + weight * score
    return total
