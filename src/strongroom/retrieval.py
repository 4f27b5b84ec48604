"""Ranking, pure: which places may answer a query, and how well. The same for sessions and memories, on every store.

A store's index only says where words stand (`strongroom.store.Found`). Everything that decides an order is here.

Theory of operation
-------------------
Cheap opinions are added up, each between 0 and 1 or a small constant, so that one set of weights serves all:

1. the words of a text (BM25), lent in part to its neighbours: an answer often stands beside the words of a question;
2. the words of the best three consecutive texts it is in, read as one;
3. the words of the stretch of twenty texts it is in;
4. who speaks: a question that names a speaker is mostly answered by that one;
5. when it was said, if the question names a date; that it tells a time, if the question asks when;
6. how much it tells, whatever the question: names, rare words; that it asks, that it answers;
7. with an embedder, how near it is in meaning: words and meaning then share what words have alone.

Memories stand in a row if they come from one source; one that is alone has no neighbours, and 2 and 3 are silent.
Nothing here looks at more than the texts it is given, which are the best candidates and what stands beside them, so a
query costs the same in any history.
Weights and constants were fitted on conversations and rounded; docs/retrieval.md has the figures.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar, overload

from msgspec import Struct

import strongroom.queries as queries
from strongroom.dates import SOON, Day, nearness
from strongroom.queries import Asked
from strongroom.telling import tells, tells_time

Spot = TypeVar("Spot", bound=Hashable)
# A text in a row of texts: the row's name, and its place there. Rows of one text have no neighbours.
Position = tuple[str, int]

# How many places of one word a store looks at, newest first. A word more frequent than this says nothing about where
# an answer is, and counting on would make a query's cost grow with history.
MOST_PLACES = 10_000

# BM25. Short texts are of similar use whatever their length, hence the low length penalty. Several turns read as one
# text get the usual values.
K1, B = 0.8, 0.3
LONG_K1, LONG_B = 1.2, 0.5

# What a turn lends to the turns one, two and three places away: of its words, and of its meaning, which spreads less.
NEIGHBOURS = (0.6, 0.4, 0.2)
NEAR_IN_MEANING = (0.3, 0.15)
WINDOW = 3
BLOCK = 20
# How many candidates get more than a look at their words, and of how many the neighbours are read, too.
RANKED, AROUND = 192, 64

TURN, IN_WINDOW, IN_BLOCK, SPEAKER, DATE, TIME, MEANING = 1.0, 0.8, 0.4, 0.75, 1.5, 0.5, 0.7
BESIDE_MEANING = 0.75  # what words count where meaning is asked, too
NAMES, RARE, ASKS, ANSWERS = 0.15, 0.15, -0.2, 0.15
RECENT = 1.0
_NO_CLOSER = 1e-6  # what counts as a difference between cosines
_RAREST = 6.0  # a mean rarity above this says no more

_LONGEST_NAME = 41  # with its colon
_MOST_NAMES = 3
_SPOKEN = re.compile(r"([^\W\d_][\w .'-]{0,39}):\s+")


class Text(Struct, frozen=True):
    """A candidate, or what stands beside one: what it says, and what is known of it as data."""

    text: str
    words: tuple[str, ...]
    speaker: str = ""
    role: str = ""
    day: Day | None = None


class Opinions(Struct, frozen=True):
    """What speaks for one text."""

    own: bool
    words: float
    window: float
    block: float
    speaker: str
    date: float
    time: bool
    telling: float
    near: bool
    meaning: float

    @property
    def found(self) -> bool:
        """Words and meaning find, and so does the very day that is asked for. Who speaks only orders what was found."""
        return self.near or self.words > 0 or self.meaning > 0 or self.date >= SOON

    @property
    def score(self) -> float:
        by_words = TURN * self.words + IN_WINDOW * self.window + IN_BLOCK * self.block
        by_data = SPEAKER * bool(self.speaker) + DATE * self.date + TIME * self.time
        return round(by_words + by_data + MEANING * self.meaning + self.telling, 9)

    def why(self, shared: Sequence[str] = (), what: str = "message") -> str:
        """Say what speaks for it, the best reason first. `shared` are the words it has in common with the query."""
        said = []
        if self.own:
            said.append(" ".join(["words", *([", ".join(shared)] if shared else []), f"({self.words:.3f})"]))
        elif self.words > 0:
            said.append(f"beside a {what} that was found")
        if self.near or self.meaning > 0:
            said.append(f"meaning ({self.meaning:.3f})")
        if self.speaker:
            said.append(f"said by {self.speaker}")
        if self.date > 0:
            said.append(f"of that time ({self.date:.1f})")
        if self.time:
            said.append("tells a time")
        return "; ".join(said) or "among what was found"


def recency(age_days: float, half_life_days: float) -> float:
    """Return what being recent adds to a score: RECENT for what is new, half of it after so many days."""
    return RECENT * math.exp2(-max(age_days, 0.0) / half_life_days)


def spoken(text: str) -> tuple[str, str]:
    """Return who says a text, if it begins with a name and a colon, and what is said.

    A name has few words, none of which begins with a small letter: "Here is the export: ..." is said by nobody.
    """
    found = _SPOKEN.match(text) if ":" in text[:_LONGEST_NAME] else None
    if found is None:
        return "", text
    parts = found[1].split()
    is_name = len(parts) <= _MOST_NAMES and not any(part[0].islower() for part in parts)
    return (found[1], text[found.end() :]) if is_name else ("", text)


def rarity(total: float, count: float) -> float:
    """Return the weight of a word that stands in `count` of `total` places (BM25's idf, never negative)."""
    return math.log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


def choose(total: int, places: Mapping[str, Sequence[Spot]], limit: int) -> list[Spot]:
    """Return the most promising places: those holding the rarest words; of equals, the first mentioned.

    `places` lists, for each word, where it stands, newest first.
    """
    promise: dict[Spot, float] = {}
    for word in sorted(places, key=lambda word: (len(places[word]), word)):
        weight, before = rarity(total, len(places[word])), promise.get
        for place in places[word]:
            promise[place] = before(place, 0.0) + weight
    return sorted(promise, key=promise.__getitem__, reverse=True)[:limit]


def bm25(query: Iterable[str], texts: Sequence[Sequence[str]], total: int, counts: Mapping[str, int]) -> list[float]:
    """Score each text (as words) against a query. `counts` says in how many of `total` places each word stands."""
    weights = _weights(query, total, counts)
    average = _average(len(text) for text in texts)
    return [_bm25(weights, _held(text, weights), len(text) / average, K1, B) for text in texts]


def share(scores: Mapping[int, float], lent: Sequence[float] = NEIGHBOURS) -> dict[int, float]:
    """Let each place lend part of its score to its neighbours by index. The result may hold indexes of neither."""
    shared = dict(scores)
    for index, score in scores.items():
        for distance, part in enumerate(lent, 1):
            for neighbour in (index - distance, index + distance):
                if neighbour >= 0:
                    shared[neighbour] = shared.get(neighbour, 0.0) + part * score
    return shared


def rank(
    asked: Asked,
    texts: Mapping[Position, Text],
    total: int,
    counts: Mapping[str, int],
    meaning: Mapping[Position, float] | None = None,
) -> dict[Position, Opinions]:
    """Say what speaks for each of these texts. `meaning` holds cosines, of any of them."""
    places = sorted(texts)
    spots = _spots(places)
    row = dict(zip(spots, map(texts.__getitem__, places), strict=True))
    named = _named(asked, row.values())
    weights = _weights(queries.wanted(asked, named), total, counts)
    held = {spot: found for spot, text in row.items() if (found := _held(text.words, weights))}
    average = _average(len(text.words) for text in row.values())
    own = {spot: _bm25(weights, n, len(row[spot].words) / average, K1, B) for spot, n in held.items()}
    turns = _best_is_one(_lent(own, row, NEIGHBOURS))
    blocks: dict[Position, float] = {}
    windows = _best_is_one(_windows(own, row, held, weights, average))
    stretches = dict(zip(spots, ((name, index // BLOCK) for name, index in places), strict=True))
    if windows:
        blocks = _best_is_one(_blocks(stretches, held, weights, total, counts))
    cosines = (
        {spot: meaning[place] for spot, place in zip(spots, places, strict=True) if place in meaning} if meaning else {}
    )
    near = _best_is_one(_lent(_above(cosines), row, NEAR_IN_MEANING))
    telling = _telling(row)
    speaker = queries.asked_about(asked, named)
    part = BESIDE_MEANING if near else 1.0
    return {
        place: Opinions(
            spot in own,
            part * turns.get(spot, 0.0),
            part * windows.get(spot, 0.0),
            part * blocks.get(stretches[spot], 0.0),
            speaker if speaker and speaker in (text.speaker, text.role) else "",
            nearness(text.day, asked.day) if asked.day is not None and text.day is not None else 0.0,
            asked.when and tells_time(text.text),
            telling[spot],
            cosines.get(spot, 0.0) > 0,
            near.get(spot, 0.0),
        )
        for place, (spot, text) in zip(places, row.items(), strict=True)
    }


def without_names(asked: Asked, texts: Iterable[Text]) -> str:
    """Return the query without the speakers it names, for whoever compares meanings."""
    return queries.without_names(asked, _named(asked, texts))


def promising(
    asked: Asked, texts: Mapping[Position, Text], total: int, counts: Mapping[str, int], most: int = RANKED
) -> list[Position]:
    """Return the candidates that are worth a second look, those with the best words first."""
    chosen = queries.wanted(asked, _named(asked, texts.values()))
    scores = dict(zip(texts, bm25(chosen, [text.words for text in texts.values()], total, counts), strict=True))
    return sorted(scores, key=lambda place: (-scores[place], place[0], -place[1]))[:most]


# ---- the opinions ---------------------------------------------------------------------------------------------------


def _named(asked: Asked, texts: Iterable[Text]) -> list[str]:
    names: dict[str, None] = {}
    roles: dict[str, None] = {}
    for text in texts:
        (names if text.speaker else roles)[text.speaker or text.role] = None
    return queries.named(asked, names, roles)


def _spots(places: Sequence[Position]) -> list[int]:
    """Number sorted places, so that neighbours are as far apart as in their row, and all others farther than that."""
    apart = max(len(NEIGHBOURS), WINDOW) + 1
    spots: list[int] = []
    last, spot = ("", 0), 0
    for place in places:
        spot += min(place[1] - last[1], apart) if place[0] == last[0] else apart
        spots.append(spot)
        last = place
    return spots


def _lent(own: Mapping[int, float], row: Mapping[int, Text], lent: Sequence[float]) -> dict[int, float]:
    total = {spot: score for spot, score in own.items() if score > 0}
    for spot, score in list(total.items()):
        for distance, part in enumerate(lent, 1):
            for neighbour in (spot - distance, spot + distance):
                if neighbour in row:
                    total[neighbour] = total.get(neighbour, 0.0) + part * score
    return total


def _above(cosines: Mapping[int, float]) -> dict[int, float]:
    """Return how much closer than usual each text is: some embedders find all texts close to each other."""
    usual = _average(cosines.values()) if cosines else 0.0
    if max(cosines.values(), default=0.0) - usual < _NO_CLOSER:
        usual = 0.0
    return {spot: cosine - usual for spot, cosine in cosines.items() if cosine > usual}


def _windows(
    own: Mapping[int, float],
    row: Mapping[int, Text],
    held: Mapping[int, Mapping[str, int]],
    weights: Mapping[str, float],
    average: float,
) -> dict[int, float]:
    """Read each three consecutive texts as one; each of them gets the score of the best it is in."""
    best: dict[int, float] = {}
    if all(spot + 1 not in row for spot in row):
        return best
    lengths = {spot: len(text.words) for spot, text in row.items()}
    for start in {spot - back for spot in own for back in range(WINDOW)}:
        inside = [spot for spot in range(start, start + WINDOW) if spot in lengths]
        holding = [held[spot] for spot in inside if spot in held]
        counted = holding[0] if len(holding) == 1 else _added(holding)
        length = sum([lengths[spot] for spot in inside]) / (WINDOW * average)
        score = _bm25(weights, counted, length, LONG_K1, LONG_B)
        for spot in inside:
            if score > best.get(spot, 0.0):
                best[spot] = score
    return best


def _blocks(
    stretches: Mapping[int, Position],
    held: Mapping[int, Mapping[str, int]],
    weights: Mapping[str, float],
    total: int,
    counts: Mapping[str, int],
) -> dict[Position, float]:
    """Read each twenty texts as one. In how many blocks a word stands is told from in how many texts it does."""
    blocks = max(math.ceil(total / BLOCK), 1)
    rare = {word: rarity(blocks, blocks * (1 - (1 - 1 / blocks) ** counts.get(word, 0))) for word in weights}
    inside: dict[Position, list[Mapping[str, int]]] = {}
    for spot, found in held.items():
        inside.setdefault(stretches[spot], []).append(found)
    return {place: _bm25(rare, _added(block), 1.0, LONG_K1, 0.0) for place, block in inside.items()}


def _telling(row: Mapping[int, Text]) -> dict[int, float]:
    """Say how much each text tells, whatever the question. Rare is what few of these texts say."""
    words_of = [set(text.words) for text in row.values()]
    holding = Counter(chain.from_iterable(words_of))
    by_count = {count: rarity(len(row), count) for count in set(holding.values())}
    rarities = {word: by_count[count] for word, count in holding.items()}
    told: dict[int, float] = {}
    asker = None
    for (spot, text), said in zip(row.items(), words_of, strict=True):
        rare = math.fsum(map(rarities.__getitem__, said)) / len(said) if said else 0.0
        names, ends_by_asking, asks = tells(text.text)
        answers = asker is not None and spot - 1 in told and _other(asker, text)
        told[spot] = NAMES * names + RARE * min(rare, _RAREST) + ASKS * ends_by_asking + ANSWERS * answers
        asker = text if asks else None
    return told


def _other(one: Text, another: Text) -> bool:
    return (one.speaker or one.role) != (another.speaker or another.role)


def _weights(query: Iterable[str], total: float, counts: Mapping[str, int]) -> dict[str, float]:
    return {word: rarity(total, counts.get(word, 0)) for word in query}


def _held(text: Iterable[str], weights: Mapping[str, float]) -> dict[str, int]:
    """Count those words of a text that have a weight."""
    found: dict[str, int] = {}
    if weights.keys().isdisjoint(text):
        return found
    for word in text:
        if word in weights:
            found[word] = found.get(word, 0) + 1
    return found


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    added: dict[str, int] = {}
    for one in counts:
        for word, n in one.items():
            added[word] = added.get(word, 0) + n
    return added


def _bm25(weights: Mapping[str, float], held: Mapping[str, int], length: float, k1: float, b: float) -> float:
    """Score a text that holds these words so often. The sum is exact, so it is the same in any order of words."""
    norm = k1 * (1 - b + b * length)
    return math.fsum([weights[word] * n * (k1 + 1) / (n + norm) for word, n in held.items()])


def _average(lengths: Iterable[float]) -> float:
    found = list(lengths)
    return (sum(found) / len(found) if found else 0.0) or 1.0


def _best_is_one(scores: Mapping[Spot, float]) -> dict[Spot, float]:
    best = max(scores.values(), default=0.0)
    return {place: score / best for place, score in scores.items()} if best > 0 else dict(scores)


# ---- a second opinion -----------------------------------------------------------------------------------------------

# Scores texts against a query, better ones higher: a cross-encoder, a model; a function or a coroutine function.
Reranker = Callable[[str, Sequence[str]], Sequence[float] | Awaitable[Sequence[float]]]
RERANKED = 50


async def judged(rerank: Reranker, query: str, texts: Sequence[str]) -> list[float] | str:
    """Return a reranker's scores, or, if it failed, a sentence that says so: then the order stays as it was."""
    try:
        answer = rerank(query, texts)
        scores = [float(score) for score in (await answer if isinstance(answer, Awaitable) else answer)]
    except Exception as problem:  # whatever a caller's function raises costs the reranking and nothing else
        return f"not reranked: {type(problem).__name__}: {problem}"
    if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
        return "not reranked: a reranker returns one finite number for each text"
    return scores


def lacking_embedder(of: str) -> str:
    """Say that a search by meaning too was asked for, and went by words."""
    return f"no vectors, words alone decided: there is no embedder; pass one by ctx.{of}.using(embedder=...)"


@overload
def joined(degraded: str | None, more: str) -> str: ...
@overload
def joined(degraded: str | None, more: str | None) -> str | None: ...
def joined(degraded: str | None, more: str | None) -> str | None:
    """Say one more thing that a search lacks, if there is one."""
    return degraded if more is None else more if degraded is None else f"{degraded}; {more}"


MOST_UNREAD = 1_000  # ids that an answer has of what could not be read
NAMED = 5  # of these, so many are told in words


def unreadable(ids: Collection[str]) -> str | None:
    """Say what a list or a search had to leave out: how much, and the first of it."""
    if not ids:
        return None
    more = len(ids) >= MOST_UNREAD
    first, others = ", ".join([*ids][:NAMED]), "others" if more else f"{len(ids) - NAMED} more"
    return f"{len(ids)}{' or more' if more else ''} cannot be read: {first}" + (
        f" and {others}" if len(ids) > NAMED else ""
    )
