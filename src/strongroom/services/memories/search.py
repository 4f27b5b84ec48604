"""Finding memories: how well each answers, and a last look at the truth.

Every candidate, wherever it came from, is read again from the store before it is returned, in one snapshot together
with the revocations still under way. An index that lags behind can cost a hit; it can never add one.

A space may hold the memories of a million users, and whoever looks for those of one must not walk through all of them.
So only the owners that a lens can see are asked for; a list goes through them in a fixed order, and its cursor says
which one it stands at. A store without a full-text index finds the same, at a cost that grows with what an owner has.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import cast

from msgspec.structs import replace

import strongroom.retrieval as retrieval
from strongroom.errors import BudgetExceeded, Damaged, InvalidInput, Unavailable
from strongroom.folding import folded
from strongroom.queries import Asked, require_query
from strongroom.retrieval import RERANKED, Reranker, joined, judged, lacking_embedder, unreadable
from strongroom.scope import AT_ONCE, Scope, Telling, Unread
from strongroom.services.memories import keys, ranking, screening
from strongroom.services.memories.candidates import POOL, ByMeaning, ByWords, Candidates, finds
from strongroom.services.memories.keys import load, sound
from strongroom.services.memories.lens import Lens
from strongroom.services.memories.requests import replaced
from strongroom.services.memories.values import (
    Batch,
    Hit,
    Memory,
    Mode,
    Proposal,
    Results,
    Revoked,
    at_least,
)
from strongroom.services.memories.vectors import Vectors
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Document, Found, Get, Scan
from strongroom.values import moment

# A half-life in days, and the instant from which age is counted; None for now.
Recent = tuple[float, datetime | None]

NEAR = 0.6
OPEN = 1_000
# What a model is asked about: two memories of which one has so much of the other, or whose vectors are so close.
ALIKE, CLOSE = 0.4, 0.8
# As if there were so many more memories: among a few, what all of them say is not yet said all the time.
SMOOTHED = 100


class Search:
    """The finder of one space."""

    def __init__(self, scope: Scope, vectors: Vectors) -> None:
        self._scope = scope
        self._vectors = vectors
        self._candidates = Candidates(scope, vectors)

    async def search(
        self, query: str, k: int, mode: Mode | None, lens: Lens, rerank: Reranker | None, recent: Recent | None
    ) -> Results[Hit]:
        if mode == "vector" and self._vectors.embedder is None:
            raise InvalidInput("a vector search needs an embedder: memories.using(embedder=...)")
        asked = Asked.of(screening.plain(require_query(query)))
        bad = Unread()
        with self._scope.aside():
            hits, degraded = await self._ranked(query, asked, k, mode, lens, bad.tell)
        if mode == "hybrid" and self._vectors.embedder is None:
            degraded = joined(degraded, lacking_embedder("memories"))
        if recent is not None:
            days, now = recent[0], recent[1] or moment(self._scope.clock())
            hits = [_fresher(hit, days, now) for hit in hits]
            hits.sort(key=lambda hit: (-hit.score, hit.memory.id))
        if rerank is not None and hits:
            first = hits[: max(RERANKED, 2 * k)]
            scores = await judged(rerank, query, [hit.memory.content for hit in first])
            if isinstance(scores, str):
                degraded = joined(degraded, scores)
            else:
                hits = [
                    replace(hit, score=score, why=f"reranked ({score:.3f}); {hit.why}")
                    for hit, score in zip(first, scores, strict=True)
                ]
                hits.sort(key=lambda hit: -hit.score)
        true = await self._true(hits, k, lens, bad.tell)
        return Results(true, degraded=degraded, damaged=bad)

    async def _ranked(
        self, query: str, asked: Asked, k: int, mode: Mode | None, lens: Lens, damaged: Telling
    ) -> tuple[list[Hit], str | None]:
        """Return all candidates, the best first, and what was not looked at."""
        words = await self._candidates.by_words(asked, k, lens, damaged) if mode != "vector" else ByWords()
        found, total, counts = words.memories, words.total, words.counts
        degraded, meaning = None, ByMeaning()
        if mode != "lexical" and self._vectors.embedder is not None:
            try:
                meaning = await self._candidates.by_meaning(ranking.about(asked, query, found), k, lens, damaged)
            except (Unavailable, BudgetExceeded, Damaged) as problem:  # damaged: vectors, or the log of what has one
                if mode == "vector":
                    raise
                degraded = f"no vectors, words alone decided: {problem}"
        near = meaning.memories
        if words.lacking or meaning.lacking:
            degraded = joined(degraded, "many large memories fit; there was room for the most promising alone")
        size = sum(len(memory.content) for memory in found.values())
        that_day = await self._candidates.of_that_day(asked, lens, damaged) if mode != "vector" else []
        rows = await self._scope.compute(size, lambda: ranking.rows(asked, total, counts, found, near, that_day))
        beside = await self._candidates.beside(rows, lens, damaged)
        known = found | {memory.id: memory for memory in that_day}
        hits = await self._scope.compute(size, lambda: ranking.ranked(asked, total, counts, known, near, beside))
        return hits, degraded

    async def review(self, batch: Batch) -> Batch:
        """Return the batch with, for each proposal, what it resembles and what it would replace."""
        return replace(batch, proposals=tuple([await self._review(proposal) for proposal in batch.proposals]))

    # ---- the last look ----------------------------------------------------------------------------------------------

    async def _true(self, hits: Sequence[Hit], k: int, lens: Lens, damaged: Telling) -> list[Hit]:
        """Return the first `k` hits that are still what they were when they were found."""
        kept: list[Hit] = []
        async for part in self._scope.parts(hits, k, partial(self._still, lens, damaged)):
            kept += part
            if len(kept) >= k:
                break
        return kept[:k]

    async def _still(self, lens: Lens, damaged: Telling, hits: Sequence[Hit]) -> list[Hit]:
        """Return those of some hits that are still what they were.

        A revocation that cannot be read is raised: whatever was found may be what it ends.
        """
        # A memory may be larger than what a store gives of many things at once: so with one, no more than one other.
        limit = OPEN if len(hits) > 1 else 1
        open_ones = Scan(self._scope.space, keys.REVOCATION, {"status": "open"}, limit=limit)
        wanted = [self._scope.key(keys.MEMORY, hit.memory.id) for hit in hits]
        try:
            [revocations], documents = await self._scope.read_all([open_ones], [*map(Get, wanted)])
        except Damaged:
            revocations = await self._scope.get(open_ones)  # first, as below
            documents = await self._scope.get_known(wanted, damaged)
        sources = {load(document, Revoked).source_ref for document in revocations.documents}
        if revocations.next is not None:
            # The memories once more, and last: whatever was closed while we read has ended its own by then.
            sources |= await self._under_way(replace(open_ones, after=revocations.next, limit=OPEN))
            documents = await self._scope.get_known(wanted, damaged)
        now = moment(self._scope.clock())
        current = [
            replace(hit, memory=memory)
            for hit, document in zip(hits, documents, strict=True)
            if document is not None
            and (memory := sound(document, Memory, damaged)) is not None
            and lens.shows(memory, now)
        ]
        condemned = await self._derived(sources, [hit.memory for hit in current], damaged) if sources else set()
        return [hit for hit in current if hit.memory.id not in condemned]

    async def _derived(self, sources: set[str], memories: Sequence[Memory], damaged: Telling = None) -> set[str]:
        """Return the ids of those memories that come from one of the sources, at whatever distance.

        What is in between and cannot be read counts as coming from them all: nobody can say that it does not.
        """

        lost: dict[str, tuple[str, ...]] = {}

        def unknown(damage: Damaged) -> None:
            assert damaged is not None
            lost[damage.id] = tuple(sources)
            damaged(damage)

        cited = {memory.id: memory.source_refs for memory in memories}
        asked = set(cited)
        level = dict(cited)
        while refs := {ref for refs in level.values() for ref in refs if keys.can_be_id(ref)} - asked:
            asked |= refs
            level = await self._cited_by(sorted(refs), None if damaged is None else unknown)
            cited |= level | lost
        tainted = {folded(source) for source in sources}
        known = {folded(id): {folded(ref) for ref in refs} for id, refs in cited.items()}
        while more := {id for id, refs in known.items() if tainted & refs} - tainted:
            tainted |= more
        return {memory.id for memory in memories if folded(memory.id) in tainted}

    async def _cited_by(self, ids: Sequence[str], damaged: Telling) -> dict[str, tuple[str, ...]]:
        """Return what each of these memories cites. There may be any number of them: no more than that is held."""
        found: dict[str, tuple[str, ...]] = {}
        with self._scope.aside():
            async for memories in self._scope.parts(ids, AT_ONCE, partial(self._memories, damaged=damaged)):
                found |= {id: memory.source_refs for id, memory in memories.items()}
        return found

    async def standing(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return those that were not revoked, even by a revocation that is still under way."""
        sources = await self._under_way(Scan(self._scope.space, keys.REVOCATION, {"status": "open"}))
        condemned = await self._derived(sources, memories) if sources else set()
        return [memory for memory in memories if memory.status != "revoked" and memory.id not in condemned]

    async def _memories(self, ids: Sequence[str], damaged: Telling = None) -> dict[str, Memory]:
        documents = await self._scope.get_known([self._scope.key(keys.MEMORY, id) for id in ids], damaged)
        return {
            document.key.id: memory
            for document in documents
            if document is not None and (memory := sound(document, Memory, damaged)) is not None
        }

    async def _under_way(self, revocations: Scan) -> set[str]:
        """Return the sources whose revocation is still under way."""
        sources: set[str] = set()
        async for page in self._scope.pages(revocations):
            sources.update(load(document, Revoked).source_ref for document in page)
        return sources

    # ---- what is alike ----------------------------------------------------------------------------------------------

    async def alike(self, memory: Memory) -> tuple[list[Memory], str | None]:
        """Return the memories of the same owner that may say the same as this one, or the opposite, the closest first;
        and what could not be looked at: an index of meanings that is away, what is damaged.

        How alike two texts are is the share of the one's words that the other has, each as much as it is rare.
        """
        text, owner = screening.plain(memory.content), keys.owner(memory.user_id, memory.project_id)
        said = tuple(dict.fromkeys(words(text)))[:MOST_WORDS]
        close: dict[str, tuple[float, Memory]] = {}
        bad = Unread()
        if said:
            async for found in finds(self._scope, said, {"owner": owner}, POOL, damaged=bad.tell):
                for match in found.matches:
                    other = sound(cast("Document", match.document), Memory, bad.tell)
                    if other is not None:
                        close[other.id] = _likeness(said, words(screening.plain(other.content)), found), other
        degraded = None
        if self._vectors.embedder is not None:
            try:
                near = await self._candidates.near(text, owner, bad.tell)
            except (Unavailable, BudgetExceeded, Damaged) as problem:
                near, degraded = {}, f"no vectors, words alone decided: {problem}"
            for id, (other, cosine) in near.items():
                close[id] = max(close.get(id, (0.0, other))[0], cosine if cosine >= CLOSE else 0.0), other
        ranked = sorted(close.values(), key=lambda pair: (-round(pair[0], 9), pair[1].id))
        alike = [other for likeness, other in ranked if likeness >= ALIKE and other.id != memory.id]
        return alike, joined(degraded, unreadable(bad))

    # ---- for the reviewer -------------------------------------------------------------------------------------------

    async def _review(self, proposal: Proposal) -> Proposal:
        request = proposal.request
        memories = await self._memories(replaced(request))
        near: list[Hit] = []
        twin = None
        if proposal.memory_id is not None:
            held = await self._scope.get(keys.holder(self._scope.space, keys.said(request).claim))
            for same in (load(document, Memory) for document in held.documents):
                if at_least(same.trust, proposal.trust):
                    twin = same.id
                else:
                    memories[same.id] = same
            lens = Lens(scope=request.scope, user_id=request.user_id, project_id=request.project_id)
            said = set(words(screening.plain(request.content)))
            with self._scope.aside():
                candidates = await self._candidates.by_words(Asked.of(screening.plain(request.content)), 8, lens)
            for memory in candidates.memories.values():
                other = set(words(screening.plain(memory.content)))
                alike = len(said & other) / len(said | other)
                same_owner = (memory.user_id, memory.project_id) == (request.user_id, request.project_id)
                if alike >= NEAR and same_owner:
                    near.append(Hit(memory, alike, f"shares {len(said & other)} of {len(said | other)} words"))
        near.sort(key=lambda hit: (-hit.score, hit.memory.id))
        return replace(proposal, duplicate_of=twin, near_duplicates=tuple(near), replaces=tuple(memories.values()))


def _likeness(said: Sequence[str], other: Sequence[str], found: Found) -> float:
    """Return the greater of two shares: of the words of one text that stand in the other, by how rare they are.

    In how many places a word stands is known of those of the first; a word of the other that it lacks counts as rare.
    """
    total, others = found.total + SMOOTHED, set(other)
    weights = {word: retrieval.rarity(total, found.counts.get(word, 0)) for word in said}
    rare = retrieval.rarity(total, 1)
    shared = sum(weight for word, weight in weights.items() if word in others)
    whole = min(sum(weights.values()), shared + rare * len(others - weights.keys()))
    return shared / whole if whole else 0.0


def _fresher(hit: Hit, days: float, now: datetime) -> Hit:
    age = (now - hit.memory.told_at).total_seconds() / 86_400
    more = retrieval.recency(age, days)
    return replace(hit, score=round(hit.score + more, 9), why=f"{hit.why}; {age:.0f} days old (+{more:.3f})")
