"""Finding messages: by their words, and with an embedder by their meaning too, in one session or in all of a space.

The store says where words stand; the ranking is `strongroom.retrieval`'s, and the same on every store. Who speaks and
when are data of a message: its `name` (or `Name: ` before its text), its `timestamp`. Only what is visible now counts,
whatever an index still knows. A store without a full-text index is read through instead, the newest messages first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct

import strongroom.retrieval as retrieval
from strongroom.bridge import can_search
from strongroom.errors import BudgetExceeded, Damaged, InvalidInput, Unavailable
from strongroom.queries import Asked, require_query
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
from strongroom.scope import WHOLE, Scope, Telling, Unread
from strongroom.services.sessions.days import day_of, of_that_day
from strongroom.services.sessions.records import opened
from strongroom.services.sessions.state import MESSAGE, SESSION
from strongroom.services.sessions.values import Hit, Hits
from strongroom.services.sessions.vectors import SLICE, Meaning
from strongroom.services.sessions.view import View, at, both, view_of
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Budget, Find, Found, Key, Match, Range, Record, Scan, Tail
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
        """Return the `k` messages that answer a query best. Without an embedder, `hybrid` goes by words and says so.

        Messages, and other sessions than the one that is asked about, that cannot be read are left out, and told.
        """
        if mode == "vector" and self.meaning is None:
            raise InvalidInput("a vector search needs an embedder: ctx.sessions.using(embedder=...)")
        asked = Asked.of(require_query(query))
        views: dict[str, View] = {}
        records: dict[Position, Record] = {}
        vector: dict[Position, float] = {}
        found = Found(0, {}, ())
        bad = Unread()
        degraded = lacking_embedder("sessions") if mode == "hybrid" and self.meaning is None else None
        if mode != "vector":
            found = await self._by_words(asked, k, session_id, views, records, bad.tell)
        texts = await self._texts(records, asked)
        if mode != "lexical" and self.meaning is not None:
            try:
                about = retrieval.without_names(asked, texts.values())
                with self.scope.aside():
                    vector, left, away = await self._by_meaning(self.meaning, about, k, session_id, views, bad.tell)
                degraded = joined(degraded, away)
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
            around, whole = await self._near([*first[:AROUND], *near], views, bad.tell)
        if (found.cut or not whole) and len(records | around) < 2 * k:
            degraded = joined(degraded, "many large messages fit; there was room for the most promising alone")
        if mode != "vector" and session_id is not None and asked.day is not None and k > 0:
            views |= await self._views([session_id] if session_id not in views else [], None)
            try:
                that_day = await of_that_day(views[session_id], asked.day) if session_id in views else {}
            except BudgetExceeded as problem:
                that_day, degraded = {}, joined(degraded, f"the messages of that day are too large: {problem}")
            except Damaged as problem:
                that_day, degraded = {}, joined(degraded, f"the messages of that day were not looked for: {problem}")
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
        hits = Hits(degraded=degraded, damaged=bad)
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
        self,
        asked: Asked,
        k: int,
        session_id: str | None,
        views: dict[str, View],
        records: dict[Position, Record],
        damaged: Telling,
    ) -> Found:
        """Collect what the store found and is visible; ask it for more if too much of that is hidden or damaged."""
        wanted = asked.words[:MOST_WORDS]
        if not wanted or k == 0:
            return Found(0, {}, ())
        limit = max(POOL, 4 * k)
        while True:
            find = Find(self.scope.space, MESSAGE, wanted, session_id, limit=limit)
            found = await (self._find if can_search(self.scope.store) else self._read_through)(find, damaged)
            matches = [(match.key.id, match.record) for match in found.matches if match.record is not None]
            names = list(dict.fromkeys(name for name, _ in matches))
            views |= await self._views(names, damaged if session_id is None else None)
            for name, record in matches:
                if name in views and views[name].shows(record.index):
                    records[name, record.index] = record
            if len(records) >= 2 * k or found.behind < limit or limit >= MOST_CANDIDATES:
                return found
            limit *= 4

    async def _find(self, find: Find, damaged: Telling) -> Found:
        """Find words with the store's index, as much as it gives at once."""
        async for found in self.scope.finds(find, damaged):
            return found
        return Found(0, {}, ())

    async def _read_through(self, find: Find, damaged: Telling) -> Found:
        """Find words in a store without an index: in the newest messages of each session, up to a fixed number."""
        places: dict[str, list[Position]] = {word: [] for word in find.words}
        records: dict[Position, Record] = {}
        total = 0
        for name in [find.id] if find.id is not None else await self._names(damaged):
            before: int | None = None
            while total < retrieval.MOST_PLACES and before != 0:
                try:
                    newest, before = await self._newest(name, before, damaged)
                except Damaged as damage:
                    if find.id is not None or damaged is None:
                        raise
                    damage.id = name
                    damaged(damage)
                    break
                for record in newest:
                    total += record.text is not None
                    for word in places.keys() & words(record.text or ""):
                        places[word].append((name, record.index))
                        records[name, record.index] = record
        chosen = retrieval.choose(total, places, find.limit)
        matches = tuple(Match(Key(find.space, MESSAGE, name), record=records[name, n]) for name, n in chosen)
        return Found(total, {word: len(held) for word, held in places.items()}, matches, behind=len(chosen))

    async def _newest(self, name: str, before: int | None, damaged: Telling) -> tuple[list[Record], int]:
        """Read a page of a session's newest messages, the newest first, and say before which the next one ends."""
        key = self.scope.key(MESSAGE, name)
        try:
            part = await self.scope.get(Tail(key, PAGE, None, before))
        except Damaged:
            if damaged is None:
                raise
            end = await self.scope.get(Range(key, 0, 0))
            stop = end.length if before is None else before
            places = range(max(stop - PAGE, end.first), stop)
            each = await self.scope.get_sound([Range(key, place, place + 1) for place in places])
            found = list[Record]()
            for place, one in zip(places, each, strict=True):
                if isinstance(one, Damaged):
                    one.id = f"{name}[{place}]"
                    damaged(one)
                else:
                    found += one.records
            return found[::-1], places.start if places.start > end.first else 0
        return [*reversed(part.records)], part.records[0].index if part.records else 0

    async def _by_meaning(
        self,
        meaning: Meaning,
        query: str,
        k: int,
        session_id: str | None,
        views: dict[str, View],
        damaged: Telling,
    ) -> tuple[dict[Position, float], int, str | None]:
        """Score by vectors, after making a bounded number of those that are missing; say how many still are, and why
        some cannot be had."""
        names = [session_id] if session_id is not None else await self._names(damaged)
        views |= await self._views(names, damaged if session_id is None else None)
        found: dict[Position, float] = {}
        room, left, away = SLICE, 0, None
        for name in names:
            if name in views and k > 0:
                try:
                    progress = await meaning.catch_up(views[name], room)
                    room, left = max(room - progress.seen, 0), left + progress.left
                except Damaged as problem:
                    away = f"some messages have no vector: {problem}"
                try:
                    near = await meaning.nearest(views[name], query, max(POOL, 4 * k))
                    found |= {(name, index): score for index, score in near.items()}
                except Damaged as problem:
                    away = f"some vectors cannot be read: {problem}"
        return found, left, away

    async def _near(
        self, centres: Sequence[Position], views: Mapping[str, View], damaged: Telling
    ) -> tuple[dict[Position, Record], bool]:
        """Read the best candidates and what stands beside them, as far as it is visible and there is room for it.

        Also tell whether there was. Half of what an answer may hold is for them, as they come beside what words found.
        """
        found: dict[Position, Record] = {}
        room = Budget(self.scope.room // 2)
        async for around in self.scope.parts(centres, len(centres), partial(_surrounded, views, damaged)):
            new = {place: record for place, record in around.items() if place not in found}
            found |= {place: record for place, record in new.items() if room.takes(record.body, record.text)}
            if room.full:
                return found, False
        return found, True

    async def _names(self, damaged: Telling) -> list[str]:
        scan = Scan(self.scope.space, SESSION, limit=PAGE)
        return [document.key.id async for page in self.scope.pages(scan, damaged) for document in page]

    async def _views(self, names: Sequence[str], damaged: Telling) -> dict[str, View]:
        async def ask(names: Sequence[str]) -> dict[str, View]:
            pairs = [both(self.scope, name) for name in names]
            try:
                documents, ends = await self.scope.read_all([get for get, _ in pairs], [end for _, end in pairs])
                return {
                    name: view_of(self.scope, name, document, end, self.choose)
                    for name, document, end in zip(names, documents, ends, strict=True)
                    if document is not None
                }
            except Damaged as damage:
                if damaged is None or damage.reason in WHOLE:
                    raise
                if len(names) == 1:
                    damage.id = names[0]
                    damaged(damage)
                    return {}
            return {name: view for one in names for name, view in (await ask([one])).items()}

        views: dict[str, View] = {}
        async for some in self.scope.parts(names, VIEWS, ask):
            views |= some
        return views


async def _surrounded(
    views: Mapping[str, View], damaged: Telling, centres: Sequence[Position], beside: int = BESIDE
) -> dict[Position, Record]:
    """Read what stands at some places, and so many messages before and after each."""
    found: dict[Position, Record] = {}
    for name in dict.fromkeys(name for name, _ in centres):
        near = {index + n for row, index in centres if row == name for n in range(-beside, beside + 1)}
        try:
            there = await _sound_at(views[name], near, damaged)
            found |= {(name, index): record for index, record in there.items()}
        except BudgetExceeded:
            if len(centres) > 1 or not beside:
                raise
            found |= await _surrounded(views, damaged, centres, 0)  # what a store gives of one place at least
    return found


async def _sound_at(view: View, places: Iterable[int], damaged: Telling) -> dict[int, Record]:
    """Read what stands at some places, as far as it is visible and can be read."""
    try:
        return await at(view, places)
    except Damaged as damage:
        if damaged is None or damage.reason in WHOLE:
            raise
    found: dict[int, Record] = {}
    for place in sorted(places):
        try:
            found |= await at(view, [place])
        except Damaged as damage:
            damage.id = f"{view.id}[{place}]"
            damaged(damage)
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
