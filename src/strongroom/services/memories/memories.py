"""Long-term memory: propose, review, commit; search, history, revocation.

Theory of operation
-------------------
A *batch* of requests is staged in a document of its own. Nothing in it can be found: a memory's text reaches the
full-text index in the same commit that makes the memory active, and leaves it in the commit that ends it. Committing
a batch is one `Commit` over the batch, the memories, the contents they claim and the log, with an expectation on
every document the decision rested on. So a batch is committed wholly or not at all, and once: whoever loses the race
finds it committed and returns the same receipt.

Rules
-----
1. A memory that names a user or a project is found only by a search that names the same ones.
2. Two active memories of one scope and owner never say the same; a request that repeats one is superseded at once.
3. A memory's content never changes. Superseding makes a new memory; the old one stays in `history` and `at`.
4. A memory is trusted no more than its proposer, than it asked for, and than every memory among its sources.
5. Revoking a source takes effect in one commit. Tombstones follow in bounded commits; until they are all written,
   searches look at each hit's ancestry.
6. Vectors are derived: the store's text is the truth, and whatever an index says is checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from strongroom.arguments import Count, checked, require_positive
from strongroom.embedders import Embedder
from strongroom.errors import InvalidInput, Unavailable
from strongroom.meant import Meant
from strongroom.retrieval import Reranker
from strongroom.scope import Scope
from strongroom.services.erasing import waiting
from strongroom.services.memories import keys
from strongroom.services.memories import packs as memory_packs
from strongroom.services.memories.decisions import world_of
from strongroom.services.memories.erasure import Erasure
from strongroom.services.memories.keys import load
from strongroom.services.memories.learner import Learner
from strongroom.services.memories.lens import Filters, Lens
from strongroom.services.memories.listing import page
from strongroom.services.memories.oneline import OneLine
from strongroom.services.memories.packs import PackWrites
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.review import Review
from strongroom.services.memories.revocations import Revocations
from strongroom.services.memories.search import Search
from strongroom.services.memories.targets import Target
from strongroom.services.memories.values import (
    Change,
    Erased,
    Hit,
    Memory,
    Mode,
    Results,
    Revoked,
    SearchHealth,
    Status,
    changes,
)
from strongroom.services.memories.vectors import Vectors
from strongroom.store import Get
from strongroom.values import moment
from strongroom.vectors import VectorIndex

# What a call takes beside the filters.
SEARCHED = ("k", "mode", "rerank", "half_life_days", "now")
PAGED = ("after", "limit", "everyone")


@checked
class AsyncMemories(Review, OneLine, Learner, Meant):
    """What is known for longer than a run, in one space.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         await ctx.memories.add("likes tea", user_id="ana")
    ...         return (await ctx.memories.search("tea", user_id="ana"))[0].content
    >>> asyncio.run(main())
    'likes tea'
    """

    def __init__(
        self,
        scope: Scope,
        *,
        policy: Policy = Policy(),
        embedder: Embedder | None = None,
        index: VectorIndex | None = None,
    ) -> None:
        self._scope = scope
        self._policy = policy
        self._vectors = Vectors(scope, embedder, index)
        self._search = Search(scope, self._vectors)
        self._revocations = Revocations(scope)

    def __repr__(self) -> str:
        return f"<memories of space {self._scope.space!r}>"

    def using(
        self,
        *,
        policy: Policy | None = None,
        embedder: Embedder | Callable[..., Any] | None = None,
        index: VectorIndex | None = None,
    ) -> AsyncMemories:
        """Return the same memories under another policy, embedder or vector index. What is not given stays."""
        made = embedder if embedder is None or isinstance(embedder, Embedder) else Embedder(embedder)
        return AsyncMemories(
            self._scope,
            policy=policy or self._policy,
            embedder=made or self._vectors.embedder,
            index=index or (None if made else self._vectors.index),
        )

    # ---- looking ----------------------------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        k: Count = 8,
        *,
        mode: Mode | None = None,
        rerank: Reranker | None = None,
        half_life_days: float | None = None,
        now: datetime | None = None,
        **filters: Unpack[Filters],
    ) -> Results[Hit]:
        """Return the `k` active memories that answer a query best.

        It is hybrid, and lexical without an embedder; whoever asks for `hybrid` then is told so by the result's
        `degraded`. If vectors cannot be had right now, that says why and the words alone decide. `rerank(query, texts)`
        may give the best fifty scores of its own; if it fails, `degraded` says so. With `half_life_days`, what is
        recent at `now` gets a little more.
        """
        require_positive(half_life_days=half_life_days)
        if now is not None and now.tzinfo is None:
            raise InvalidInput("now must be an aware time, such as datetime.now(UTC)")
        recent = None if half_life_days is None else (half_life_days, now)
        return await self._search.search(query, k, mode, Lens.of(filters, besides=SEARCHED), rerank, recent)

    async def get(self, memory_id: str) -> Memory:
        """Return a memory, whatever its status."""
        return load(await self._document(keys.MEMORY, memory_id), Memory)

    async def list(
        self,
        *,
        status: Status | None = "active",
        after: str | None = None,
        limit: Count = 50,
        everyone: bool = False,
        **filters: Unpack[Filters],
    ) -> Results[Memory]:
        """Return memories a page at a time: nobody's, then those of whom the filters name, each by order of creation.

        `status=None` lists all of them, whatever became of them; `everyone` those of all users and projects of
        the space. A page may be short and still have a `next`.
        """
        lens = Lens.of(filters, everyone=everyone, besides=("status", *PAGED))
        now = moment(self._scope.clock())
        memories, next, bad = await page(self._scope, lens, {"status": status} if status else {}, after, limit)
        shown = [memory for memory in memories if lens.shows(memory, now, status=status)]
        return Results(shown, next=next, damaged=bad)

    async def history(self, memory_id: str) -> Results[Change]:
        """Return what happened to a memory, to those it replaced and to those that replaced it, oldest first."""
        lineage = {memory_id: await self.get(memory_id)}
        frontier = lineage
        while frontier:
            ids = {id for memory in frontier.values() for id in (*memory.supersedes, memory.superseded_by) if id}
            frontier = await self._memories(ids - lineage.keys())
            lineage = lineage | frontier
        return Results(changes(lineage.values()))

    async def at(
        self,
        time: datetime,
        *,
        after: str | None = None,
        limit: Count = 50,
        everyone: bool = False,
        **filters: Unpack[Filters],
    ) -> Results[Memory]:
        """Return the memories that were active at that time, a page at a time, as `list` does."""
        if time.tzinfo is None:
            raise InvalidInput("at() needs an aware time, such as datetime.now(UTC)")
        lens = Lens.of(filters, everyone=everyone, besides=PAGED)
        memories, next, bad = await page(self._scope, lens, {}, after, limit)
        return Results([memory for memory in memories if lens.showed(memory, time)], next=next, damaged=bad)

    # ---- letting go, and keeping up ---------------------------------------------------------------------------------

    async def revoke(self, *, source_ref: str, by: str = "", reason: str = "", commit_id: str | None = None) -> Revoked:
        """Stop believing a source: whatever was derived from it, directly or not, is found no more.

        The source may be anything that stands in `source_refs`, or a memory's own id. If the process dies meanwhile,
        nothing of it is found either way; calling again finishes the work.
        """
        return await self._revocations.revoke(source_ref, by, reason, commit_id)

    async def would_revoke(self, *, source_ref: str, limit: Count = 1_000) -> Results[Memory]:
        """Return the memories that revoking a source would end. Changes nothing."""
        if not source_ref:
            raise InvalidInput("would_revoke() needs the source_ref to revoke, as a non-empty string")
        return await self._revocations.preview(source_ref, limit)

    async def revocation(self, source_ref: str) -> Revoked | None:
        """Return how a source was revoked, None if it is believed."""
        return await self._revocations.revoked(source_ref)

    async def erase(
        self,
        *,
        memory_id: str | None = None,
        user_id: str | None = None,
        project_id: str | None = None,
        source_ref: str | None = None,
        derived: bool = False,
        by: str = "",
        reason: str = "",
        commit_id: str | None = None,
    ) -> Erased:
        """Leave nothing of a memory and its lineage, of an owner's memories, or of all that cites a source.

        What stays is the place, the times and that it was erased. Pending batches that speak of it are turned down.
        With `derived`, what was made from it goes too; else the receipt names it. Calling again finishes an
        interrupted erasure.
        """
        target = Target(memory_id, user_id, project_id, source_ref)
        erased = await self._eraser.erase(target, derived, by, reason, commit_id)
        return waiting(erased, await self._unheard())

    @property
    def _eraser(self) -> Erasure:
        return Erasure(self._scope, self._vectors)

    async def _unheard(self) -> str | None:
        """Have the index of vectors hear of an erasure, which is done whatever happens here; say why it did not."""
        if self._vectors.embedder is None:
            return None
        try:
            await self._vectors.catch_up()
        except Unavailable as problem:
            return f"the index of vectors is away, and drops them when it is back: {problem}"
        except Exception as problem:  # what was asked for is done, whatever becomes of this
            return f"the index of vectors has not dropped them yet: {problem}"
        return None

    async def sweep(self, *, commit_id: str | None = None) -> int:
        """Finish interrupted revocations and retire what has expired. Return how many memories ended."""
        return await self._revocations.sweep(commit_id)

    async def index(self) -> int:
        """Bring the vector index up to date now rather than at the next search. Return how many changes it took."""
        return await self._vectors.catch_up()

    async def health(self) -> SearchHealth:
        """Say what memories are searched by meaning with, what of it fails since when, and how many changes wait."""
        return await self._vectors.health()

    async def reembed(
        self,
        embedder: Embedder | Callable[..., Any],
        *,
        progress: Callable[[int, int], object] | None = None,
        commit_id: str | None = None,
    ) -> int:
        """Make every vector anew with another embedder, then use it. Return how many texts were embedded now.

        Searches go on with the old vectors until all new ones are stored. After an interruption, calling again
        continues: a text whose new vector is stored is not embedded twice. `progress` gets (done, total).
        """
        made = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
        return await self._vectors.reembed(made, progress, commit_id)

    async def pack_items(self, memory_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return memories as plain JSON, for a resume pack. Those that are not there or were revoked are left out."""
        found = await self._memories(set(memory_ids))
        return memory_packs.items(await self._search.standing([found[id] for id in memory_ids if id in found]))

    async def unpack_writes(self, items: Sequence[Mapping[str, Any]], *, new: bool = False) -> PackWrites:
        """Say what brings memories from a pack back. This writes nothing itself.

        Those already known stay as they are, or are a `Conflict` if all must be `new`.
        """
        memories = [memory_packs.read(item, place, self._policy) for place, item in enumerate(items)]
        contents = [keys.said(memory).claim for memory in memories]
        world = await world_of(self._scope, memory_packs.questions(self._scope.space, memories), contents)
        return memory_packs.decide(self._scope.space, memories, world, self._scope.clock(), new=new)

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def _memories(self, ids: set[str]) -> dict[str, Memory]:
        found = await self._scope.get_all([Get(self._scope.key(keys.MEMORY, id)) for id in sorted(ids)])
        memories = [load(document, Memory) for document in found if document is not None]
        return {memory.id: memory for memory in memories}
