"""What a search looks at: memories that hold its words, mean the same, are of its day, or stand beside those.

A store on a server bounds what one read may hold. So candidates come in pieces, only what the lens shows is kept, and
no more of it than there is room for: the most promising first. `lacking` says whether that left fewer than a search
would look at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import cast

from msgspec import Struct

import strongroom.retrieval as retrieval
from strongroom.bridge import can_search
from strongroom.queries import Asked
from strongroom.scope import Scope, Telling
from strongroom.services.memories import days, keys, screening
from strongroom.services.memories.keys import sound
from strongroom.services.memories.lens import Lens
from strongroom.services.memories.ranking import LONGEST_ROW, SourceRow, row_of
from strongroom.services.memories.values import Memory
from strongroom.services.memories.vectors import Vectors
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Budget, Document, Find, Found, Key, Match, Scan
from strongroom.values import moment

POOL = 128
MOST_CANDIDATES = 10_000
PAGE = 500
CHUNK = 256


class ByWords(Struct, frozen=True):
    """How many memories there are, in how many each word stands, and the candidates."""

    total: int = 0
    counts: Mapping[str, int] = {}
    memories: dict[str, Memory] = {}
    lacking: bool = False


class ByMeaning(Struct, frozen=True):
    """The nearest memories, each with its cosine."""

    memories: dict[str, tuple[Memory, float]] = {}
    lacking: bool = False


class Candidates:
    """Looks for the candidates of one space. None of it is in an answer yet: see `Scope.aside`."""

    def __init__(self, scope: Scope, vectors: Vectors) -> None:
        self._scope = scope
        self._vectors = vectors

    async def by_words(self, asked: Asked, k: int, lens: Lens, damaged: Telling = None) -> ByWords:
        wanted = asked.words[:MOST_WORDS]
        if not wanted:
            return ByWords()
        now, owners = moment(self._scope.clock()), lens.owners()
        rooms = [self._room(len(owners)) for _ in owners]
        memories: dict[str, Memory] = {}
        known: dict[str | None, Found] = {}
        seen, limit = 0, max(POOL, 4 * k)
        while True:
            more = False
            for owner, room in zip(owners, rooms, strict=True):
                count = 0
                async for found in finds(self._scope, wanted, lens.carried(owner), limit - seen, seen, damaged):
                    known.setdefault(owner, found)
                    count += found.behind
                    for match in found.matches:
                        document = cast("Document", match.document)
                        memory = sound(document, Memory, damaged)
                        if memory is not None and lens.shows(memory, now) and room.takes(document.value, None):
                            memories[memory.id] = memory
                    if room.full:
                        break
                more |= not room.full and count >= limit - seen
            if len(memories) >= 2 * k or not more or limit >= MOST_CANDIDATES:
                break
            seen, limit = limit, limit * 4
        counts = {word: sum(found.counts.get(word, 0) for found in known.values()) for word in wanted}
        total = sum(found.total for found in known.values())
        return ByWords(total, counts, memories, len(memories) < 2 * k and any(room.full for room in rooms))

    async def by_meaning(self, query: str, k: int, lens: Lens, damaged: Telling = None) -> ByMeaning:
        await self._vectors.catch_up(damaged)
        vector = await self._vectors.embed_query(query)
        now, room = moment(self._scope.clock()), self._room()
        kept: dict[str, tuple[Memory, float]] = {}
        seen: set[str] = set()
        limit = max(POOL, 4 * k)
        while True:
            near = await self._vectors.nearest(vector, limit, [owner for owner in lens.owners() if owner is not None])
            fresh = {id: score for id, score in near if score > 0 and id not in seen}
            seen |= fresh.keys()
            async for documents in self._scope.parts(list(fresh), CHUNK, partial(self._documents, damaged)):
                for document in documents:
                    memory = sound(document, Memory, damaged)
                    if memory is not None and lens.shows(memory, now) and room.takes(document.value, None):
                        kept[memory.id] = memory, fresh[memory.id]
                if room.full:
                    return ByMeaning(kept, len(kept) < 2 * k)
            if len(kept) >= 2 * k or len(near) < limit or limit >= MOST_CANDIDATES:
                return ByMeaning(kept)
            limit *= 4

    async def near(self, text: str, owner: str, damaged: Telling = None) -> dict[str, tuple[Memory, float]]:
        """Return the memories of one owner that are nearest to a text."""
        await self._vectors.catch_up(damaged)
        cosines = dict(await self._vectors.nearest(await self._vectors.embed_query(text), POOL, [owner]))
        room = self._room()
        found: dict[str, tuple[Memory, float]] = {}
        async for documents in self._scope.parts(list(cosines), CHUNK, partial(self._documents, damaged)):
            for document in documents:
                if not room.takes(document.value, None):
                    return found
                if (memory := sound(document, Memory, damaged)) is not None:
                    found[memory.id] = memory, cosines[memory.id]
        return found

    async def of_that_day(self, asked: Asked, lens: Lens, damaged: Telling = None) -> list[Memory]:
        if asked.day is None:
            return []
        now = moment(self._scope.clock())
        found = await days.of_that_day(
            self._scope, asked.day, [lens.carried(owner) for owner in lens.owners()], self._room(), damaged
        )
        return [memory for memory in found if lens.shows(memory, now)]

    async def beside(self, rows: Sequence[SourceRow], lens: Lens, damaged: Telling = None) -> list[list[Memory]]:
        """Read what the same owners know from the same sources, in the order in which it became known."""
        now, room = moment(self._scope.clock()), self._room()
        found: list[list[Memory]] = []
        scans = [
            Scan(self._scope.space, keys.MEMORY, {"status": "active", "owner": owner, source: "1"}, limit=LONGEST_ROW)
            for owner, source in rows
        ]
        waiting = iter(rows)
        async for page in self._scope.first_pages(scans, damaged):
            row = next(waiting)
            fitting = (document for document in page.documents if room.takes(document.value, None))
            known = [memory for one in fitting if (memory := sound(one, Memory, damaged)) is not None]
            found.append([memory for memory in known if row_of(memory) == row and lens.shows(memory, now)])
            if room.full:
                break
        return found

    async def _documents(self, damaged: Telling, ids: Sequence[str]) -> list[Document]:
        found = await self._scope.get_known([self._scope.key(keys.MEMORY, id) for id in ids], damaged)
        return [document for document in found if document is not None]

    def _room(self, shares: int = 1) -> Budget:
        """Return what candidates of one sort may hold: half of what an answer may, as they are read beside others."""
        return Budget(self._scope.room // 2 // shares)


async def finds(
    scope: Scope,
    wanted: Sequence[str],
    carried: Mapping[str, str],
    limit: int,
    skip: int = 0,
    damaged: Telling = None,
) -> AsyncIterator[Found]:
    """Give the most promising active memories that carry the tags and hold any of the words, in pieces where they are
    too much for one answer. Each piece says how many there are in all, and in how many each word stands."""
    if not can_search(scope.store):
        async for found in _read_through(scope, wanted, carried, limit, skip, damaged):
            yield found
        return
    asked = Find(scope.space, keys.MEMORY, tuple(wanted), tags=dict(carried), limit=limit, skip=skip)
    async for found in scope.finds(asked, damaged):
        yield found


async def _read_through(
    scope: Scope, wanted: Sequence[str], carried: Mapping[str, str], limit: int, skip: int, damaged: Telling
) -> AsyncIterator[Found]:
    """Find words in a store without an index: in all memories, a page at a time, and then look at the best again."""
    places: dict[str, list[Key]] = {word: [] for word in wanted}
    total = 0
    tags = {**carried, "status": "active"}
    async for part in scope.pages(Scan(scope.space, keys.MEMORY, tags, limit=PAGE, reverse=True), damaged):
        total += len(part)
        for document in part:
            memory = sound(document, Memory, damaged)
            for word in places.keys() & words(screening.plain("" if memory is None else memory.content)):
                if len(places[word]) < retrieval.MOST_PLACES:
                    places[word].append(document.key)
    total = min(total, retrieval.MOST_PLACES)
    counts = {word: len(held) for word, held in places.items()}

    async def look(keys: Sequence[Key]) -> Found:
        documents = await scope.get_known(keys, damaged)
        there = tuple(Match(one.key, document=one) for one in documents if one is not None)
        return Found(total, counts, there, behind=len(keys))

    chosen = retrieval.choose(total, places, skip + limit)[skip:]
    if not chosen:
        yield Found(total, counts, ())
    async for found in scope.parts(chosen, CHUNK, look):
        yield found
