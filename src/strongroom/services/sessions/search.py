"""Finding messages: by their words, and with an embedder by their meaning too, in one session or in all of a space.

The store says where words stand; the ranking is ours and the same on every store. A turn lends part of its score to
its neighbours, because the answer to a question often stands beside the words of the question. Only what is visible
now counts, whatever an index still knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from strongroom.bridge import can_search
from strongroom.errors import InvalidInput, Unavailable
from strongroom.retrieval import bm25, fuse, share
from strongroom.scope import Scope
from strongroom.services.sessions.state import MESSAGE, SESSION
from strongroom.services.sessions.values import Hit, Hits
from strongroom.services.sessions.vectors import SLICE, Meaning
from strongroom.services.sessions.view import View, at, both, view_of
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Find, Found, Record, Scan
from strongroom.tokens import Tokenizer

Mode = Literal["hybrid", "lexical", "vector"]
Place = tuple[str, int]

# What meaning weighs against words, as for memories: with equal weights a small model made words alone worse.
MEANING = 0.5
POOL = 500
MOST_CANDIDATES = 8_000
PAGE = 100


class Finder(Struct, frozen=True):
    """What searches the sessions of a space."""

    scope: Scope
    choose: Callable[[str], Tokenizer]
    meaning: Meaning | None = None

    async def search(self, query: str, k: int, mode: Mode, session_id: str | None = None) -> Hits:
        """Return the `k` messages that answer a query best. Without an embedder, `hybrid` goes by words."""
        if k < 0:
            raise InvalidInput(f"k must be a whole number, 0 or more, not {k!r:.40}")
        if mode == "vector" and self.meaning is None:
            raise InvalidInput("a vector search needs an embedder: ctx.sessions.using(embedder=...)")
        views: dict[str, View] = {}
        records: dict[Place, Record] = {}
        lexical: dict[Place, float] = {}
        vector: dict[Place, float] = {}
        degraded = None
        if mode != "vector":
            lexical = await self._by_words(query, k, session_id, views, records)
        if mode != "lexical" and self.meaning is not None:
            try:
                vector, left = await self._by_meaning(self.meaning, query, k, session_id, views)
                if left:
                    degraded = f"{left} messages have no vector yet; each search makes some, wait() all"
            except Unavailable as problem:
                if mode == "vector":
                    raise
                degraded = f"no vectors, words alone decided: {problem}"
        shared = _shared(fuse([(1.0, lexical), (MEANING, vector)]) if lexical and vector else lexical or vector, views)
        best = sorted(shared, key=lambda place: (-shared[place], place[0], -place[1]))[:k]
        for name in dict.fromkeys(name for name, _ in best):
            missing = [index for found, index in best if found == name and (found, index) not in records]
            records |= {(name, index): record for index, record in (await at(views[name], missing)).items()}
        hits = Hits(degraded=degraded)
        for name, index in best:
            message = views[name].message(records[name, index])
            why = _why((name, index), lexical, vector)
            hits.append(Hit(message.id, message, shared[name, index], why, name))
        return hits

    async def _by_words(
        self, query: str, k: int, session_id: str | None, views: dict[str, View], records: dict[Place, Record]
    ) -> dict[Place, float]:
        """Score what the store found; ask it for more if too much of that is hidden."""
        wanted = tuple(dict.fromkeys(words(query)))[:MOST_WORDS]
        if not wanted or k == 0:
            return {}
        if not can_search(self.scope.store):
            raise InvalidInput("this store has no full-text index; search with mode='vector'")
        limit = max(POOL, 4 * k)
        while True:
            find = Find(self.scope.space, MESSAGE, wanted, session_id, limit=limit)
            found: Found = await self.scope.store.search(find)  # type: ignore[attr-defined]
            matches = [(match.key.id, match.record) for match in found.matches if match.record is not None]
            views |= await self._views(list(dict.fromkeys(name for name, _ in matches)))
            for name, record in matches:
                if name in views and views[name].shows(record.index):
                    records[name, record.index] = record
            if len(records) >= 2 * k or len(found.matches) < limit or limit >= MOST_CANDIDATES:
                break
            limit *= 4
        turns = {place: words(record.text or "") for place, record in sorted(records.items())}
        scores = bm25(wanted, list(turns.values()), found.total, found.counts)
        return {place: score for place, score in zip(turns, scores, strict=True) if score > 0}

    async def _by_meaning(
        self, meaning: Meaning, query: str, k: int, session_id: str | None, views: dict[str, View]
    ) -> tuple[dict[Place, float], int]:
        """Score by vectors, after making a bounded number of those that are missing; say how many still are."""
        names = [session_id] if session_id is not None else await self._names()
        views |= await self._views(names)
        found: dict[Place, float] = {}
        room, left = SLICE, 0
        for name in names:
            if name in views and k > 0:
                progress = await meaning.catch_up(views[name], room)
                room, left = max(room - progress.seen, 0), left + progress.left
                near = await meaning.nearest(views[name], query, max(POOL, 4 * k))
                found |= {(name, index): score for index, score in near.items()}
        return found, left

    async def _names(self) -> list[str]:
        scan = Scan(self.scope.space, SESSION, limit=PAGE)
        return [document.key.id async for page in self.scope.pages(scan) for document in page]

    async def _views(self, names: Sequence[str]) -> dict[str, View]:
        pairs = [both(self.scope, name) for name in names]
        documents, ends = await self.scope.read_all([get for get, _ in pairs], [end for _, end in pairs])
        return {
            name: view_of(self.scope, name, document, end, self.choose)
            for name, document, end in zip(names, documents, ends, strict=True)
            if document is not None
        }


def _shared(scores: Mapping[Place, float], views: Mapping[str, View]) -> dict[Place, float]:
    """Let the turns of each session support their neighbours, as far as those are visible."""
    found: dict[Place, float] = {}
    for name in dict.fromkeys(name for name, _ in scores):
        own = {index: score for (session, index), score in scores.items() if session == name}
        found |= {(name, index): score for index, score in share(own).items() if views[name].shows(index)}
    return found


def _why(place: Place, lexical: Mapping[Place, float], vector: Mapping[Place, float]) -> str:
    said = []
    if place in lexical:
        said.append(f"words ({lexical[place]:.3f})")
    if place in vector:
        said.append(f"meaning ({vector[place]:.3f})")
    return "; ".join(said) or "beside a message that was found"
