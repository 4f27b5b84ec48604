"""Finding messages: by their words, and with an embedder by their meaning too, in one session or in all of a space.

The store says where words stand; the ranking is `strongroom.retrieval`'s, and the same on every store. Who speaks and
when are data of a message: its `name` (or `Name: ` before its text), its `timestamp`. Only what is visible now counts,
whatever an index still knows. A store without a full-text index is read through instead, the newest messages first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct

import strongroom.retrieval as retrieval
from strongroom.bridge import can_search
from strongroom.errors import BudgetExceeded, InvalidInput, Unavailable
from strongroom.queries import Asked
from strongroom.retrieval import (
    AROUND,
    NEIGHBOURS,
    RANKED,
    RERANKED,
    Position,
    Reranker,
    Text,
    joined,
    lacking_embedder,
)
from strongroom.scope import Scope
from strongroom.services.sessions.days import day_of, of_that_day
from strongroom.services.sessions.records import opened
from strongroom.services.sessions.state import MESSAGE, SESSION
from strongroom.services.sessions.values import Hit, Hits
from strongroom.services.sessions.vectors import SLICE, Meaning
from strongroom.services.sessions.view import View, at, both, view_of
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Budget, Find, Found, Key, Match, Record, Scan, Tail
from strongroom.tokens import Tokenizer

Mode = Literal["hybrid", "lexical", "vector"]

POOL = 500
MOST_CANDIDATES = 8_000
PAGE = 100
VIEWS = 500
BESIDE = len(NEIGHBOURS)


class Finder(Struct, frozen=True):
    """What searches the sessions of a space."""

    scope: Scope
    choose: Callable[[str], Tokenizer]
    meaning: Meaning | None = None

    async def search(
        self, query: str, k: int, mode: Mode | None, session_id: str | None = None, rerank: Reranker | None = None
    ) -> Hits:
        """Return the `k` messages that answer a query best. Without an embedder, `hybrid` goes by words and says so."""
        if mode == "vector" and self.meaning is None:
            raise InvalidInput("a vector search needs an embedder: ctx.sessions.using(embedder=...)")
        asked = Asked.of(query)
        views: dict[str, View] = {}
        records: dict[Position, Record] = {}
        vector: dict[Position, float] = {}
        found = Found(0, {}, ())
        degraded = lacking_embedder("sessions") if mode == "hybrid" and self.meaning is None else None
        if mode != "vector":
            found = await self._by_words(asked, k, session_id, views, records)
        texts = await self._texts(records, asked)
        if mode != "lexical" and self.meaning is not None:
            try:
                about = retrieval.without_names(asked, texts.values())
                with self.scope.aside():
                    vector, left = await self._by_meaning(self.meaning, about, k, session_id, views)
                if left:
                    degraded = joined(
                        degraded, f"{left} messages have no vector yet; each search makes some, wait() all"
                    )
            except (Unavailable, BudgetExceeded) as problem:
                if mode == "vector":
                    raise
                degraded = joined(degraded, f"no vectors, words alone decided: {problem}")
        size = _size(records)
        first = await self.scope.compute(
            size, lambda: retrieval.promising(asked, texts, found.total, found.counts, max(RANKED, 2 * k))
        )
        texts = {place: texts[place] for place in first}
        near = sorted(vector, key=lambda place: (-vector[place], place))[: max(2 * AROUND, 2 * k)]
        with self.scope.aside():
            around, whole = await self._near([*first[:AROUND], *near], views)
        if (found.cut or not whole) and len(records | around) < 2 * k:
            degraded = joined(degraded, "many large messages fit; there was room for the most promising alone")
        if mode != "vector" and session_id is not None and asked.day is not None and k > 0:
            views |= await self._views([session_id] if session_id not in views else [])
            try:
                that_day = await of_that_day(views[session_id], asked.day) if session_id in views else {}
            except BudgetExceeded as problem:
                that_day, degraded = {}, joined(degraded, f"the messages of that day are too large: {problem}")
            around |= {(session_id, index): record for index, record in that_day.items()}
        texts |= await self._texts({place: one for place, one in around.items() if place not in texts}, asked)
        records |= around
        opinions = await self.scope.compute(
            size, lambda: retrieval.rank(asked, texts, found.total, found.counts, vector)
        )
        scores = {place: one.score for place, one in opinions.items() if one.found}
        best = sorted(scores, key=lambda place: (-scores[place], place[0], -place[1]))
        noted: dict[Position, str] = {}
        if rerank is not None and best:
            reranked = best[: max(RERANKED, k)]
            judged = await retrieval.judged(rerank, query, [texts[place].text for place in reranked])
            if isinstance(judged, str):
                degraded = joined(degraded, judged)
            else:
                scores = dict(zip(reranked, judged, strict=True))
                best = sorted(reranked, key=lambda place: -scores[place])
                noted = {place: f"reranked ({scores[place]:.3f}); " for place in reranked}
        hits = Hits(degraded=degraded)
        for place in best[:k]:
            message = views[place[0]].message(records[place])
            why = noted.get(place, "") + opinions[place].why()
            hits.append(Hit(message.id, message, scores[place], why, place[0]))
        return hits

    async def _texts(self, records: Mapping[Position, Record], asked: Asked) -> dict[Position, Text]:
        return await self.scope.compute(
            _size(records), lambda: {place: _text(record, asked) for place, record in sorted(records.items())}
        )

    async def _by_words(
        self, asked: Asked, k: int, session_id: str | None, views: dict[str, View], records: dict[Position, Record]
    ) -> Found:
        """Collect what the store found and is visible; ask it for more if too much of that is hidden."""
        wanted = asked.words[:MOST_WORDS]
        if not wanted or k == 0:
            return Found(0, {}, ())
        limit = max(POOL, 4 * k)
        while True:
            find = Find(self.scope.space, MESSAGE, wanted, session_id, limit=limit)
            if can_search(self.scope.store):
                found: Found = await self.scope.store.search(find)  # type: ignore[attr-defined]
            else:
                found = await self._read_through(find)
            matches = [(match.key.id, match.record) for match in found.matches if match.record is not None]
            views |= await self._views(list(dict.fromkeys(name for name, _ in matches)))
            for name, record in matches:
                if name in views and views[name].shows(record.index):
                    records[name, record.index] = record
            if len(records) >= 2 * k or len(found.matches) < limit or limit >= MOST_CANDIDATES:
                return found
            limit *= 4

    async def _read_through(self, find: Find) -> Found:
        """Find words in a store without an index: in the newest messages of each session, up to a fixed number."""
        places: dict[str, list[Position]] = {word: [] for word in find.words}
        records: dict[Position, Record] = {}
        total = 0
        for name in [find.id] if find.id is not None else await self._names():
            key, before = self.scope.key(MESSAGE, name), None
            while total < retrieval.MOST_PLACES:
                part = await self.scope.get(Tail(key, PAGE, None, before))
                for record in reversed(part.records):
                    total += record.text is not None
                    for word in places.keys() & words(record.text or ""):
                        places[word].append((name, record.index))
                        records[name, record.index] = record
                if not part.records or part.records[0].index == 0:
                    break
                before = part.records[0].index
        chosen = retrieval.choose(total, places, find.limit)
        matches = tuple(Match(Key(find.space, MESSAGE, name), record=records[name, n]) for name, n in chosen)
        return Found(total, {word: len(held) for word, held in places.items()}, matches)

    async def _by_meaning(
        self, meaning: Meaning, query: str, k: int, session_id: str | None, views: dict[str, View]
    ) -> tuple[dict[Position, float], int]:
        """Score by vectors, after making a bounded number of those that are missing; say how many still are."""
        names = [session_id] if session_id is not None else await self._names()
        views |= await self._views(names)
        found: dict[Position, float] = {}
        room, left = SLICE, 0
        for name in names:
            if name in views and k > 0:
                progress = await meaning.catch_up(views[name], room)
                room, left = max(room - progress.seen, 0), left + progress.left
                near = await meaning.nearest(views[name], query, max(POOL, 4 * k))
                found |= {(name, index): score for index, score in near.items()}
        return found, left

    async def _near(
        self, centres: Sequence[Position], views: Mapping[str, View]
    ) -> tuple[dict[Position, Record], bool]:
        """Read the best candidates and what stands beside them, as far as it is visible and there is room for it.

        Also tell whether there was. Half of what an answer may hold is for them, as they come beside what words found.
        """
        found: dict[Position, Record] = {}
        room = Budget(self.scope.room // 2)
        async for around in self.scope.parts(centres, len(centres), partial(_surrounded, views)):
            new = {place: record for place, record in around.items() if place not in found}
            found |= {place: record for place, record in new.items() if room.takes(record.body, record.text)}
            if room.full:
                return found, False
        return found, True

    async def _names(self) -> list[str]:
        scan = Scan(self.scope.space, SESSION, limit=PAGE)
        return [document.key.id async for page in self.scope.pages(scan) for document in page]

    async def _views(self, names: Sequence[str]) -> dict[str, View]:
        async def ask(names: Sequence[str]) -> dict[str, View]:
            pairs = [both(self.scope, name) for name in names]
            documents, ends = await self.scope.read_all([get for get, _ in pairs], [end for _, end in pairs])
            return {
                name: view_of(self.scope, name, document, end, self.choose)
                for name, document, end in zip(names, documents, ends, strict=True)
                if document is not None
            }

        views: dict[str, View] = {}
        async for some in self.scope.parts(names, VIEWS, ask):
            views |= some
        return views


async def _surrounded(
    views: Mapping[str, View], centres: Sequence[Position], beside: int = BESIDE
) -> dict[Position, Record]:
    """Read what stands at some places, and so many messages before and after each."""
    found: dict[Position, Record] = {}
    for name in dict.fromkeys(name for name, _ in centres):
        near = {index + n for row, index in centres if row == name for n in range(-beside, beside + 1)}
        try:
            found |= {(name, index): record for index, record in (await at(views[name], near)).items()}
        except BudgetExceeded:
            if len(centres) > 1 or not beside:
                raise
            found |= await _surrounded(views, centres, 0)  # what a store gives of one place at least
    return found


def _size(records: Mapping[Position, Record]) -> int:
    return sum(len(record.text or "") for record in records.values())


def _text(record: Record, asked: Asked) -> Text:
    """Say what a message says, who says it and, if somebody asks for a day, when."""
    said = record.text or ""
    value, _ = opened(record)
    name = value.get("name")
    speaker = name if isinstance(name, str) else ""
    if not speaker:
        speaker, said = retrieval.spoken(said)
    return Text(said, words(said), speaker, record.type, day_of(value, record) if asked.day is not None else None)
