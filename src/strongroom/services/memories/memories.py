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

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from msgspec.structs import replace

from strongroom.arguments import checked
from strongroom.embedders import Embedder
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, NotFound, StrongroomError
from strongroom.scope import Scope
from strongroom.services.memories import keys, listing
from strongroom.services.memories import packs as memory_packs
from strongroom.services.memories import writes as memory_writes
from strongroom.services.memories.deciding import already_decided, decide, same, stage_or_commit, told, world_of
from strongroom.services.memories.fresh import Fresh, Known
from strongroom.services.memories.history import changes
from strongroom.services.memories.packs import PackWrites
from strongroom.services.memories.policy import AUTO_REVIEWER, Policy
from strongroom.services.memories.requests import stage
from strongroom.services.memories.revocations import Revocations
from strongroom.services.memories.search import Filters, Lens, Search
from strongroom.services.memories.values import (
    Batch,
    Change,
    Committed,
    Hit,
    Memory,
    Mode,
    Results,
    Revoked,
    Status,
)
from strongroom.services.memories.vectors import Vectors
from strongroom.services.memories.writes import BatchWrites, load, receipt
from strongroom.store import Commit, Document, Expect, Get, Put, Range, Scan, new_id, require_name
from strongroom.values import moment
from strongroom.vectors import VectorIndex

ATTEMPTS = 20


@checked
class AsyncMemories:
    """What is known for longer than a run, in one space."""

    def __init__(
        self,
        scope: Scope,
        *,
        policy: Policy = Policy(),
        embedder: Embedder | None = None,
        index: VectorIndex | None = None,
        threads: bool = True,
    ) -> None:
        self._scope = scope
        self._policy = policy
        self._vectors = Vectors(scope, embedder, index, threads)
        self._search = Search(scope, self._vectors)
        self._revocations = Revocations(scope)
        self._fresh = Fresh(scope)

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
            threads=self._vectors.threads,
        )

    def inline(self) -> AsyncMemories:
        """Return the same memories for code without an event loop: nothing is moved to another thread."""
        vectors = self._vectors
        return AsyncMemories(
            self._scope, policy=self._policy, embedder=vectors.embedder, index=vectors.index, threads=False
        )

    # ---- propose, review, commit ------------------------------------------------------------------------------------

    async def propose(
        self, mcrs: Sequence[Any], *, proposer: str, run_id: str | None = None, batch_id: str | None = None
    ) -> Batch:
        """Stage requests for review, or commit them now if the policy says so.

        Give a `batch_id` to make a repeat safe: the same requests return the batch that is there.
        """
        id = "batch_" + os.urandom(10).hex() if batch_id is None else require_name(batch_id, "a batch_id")
        now = self._scope.clock()
        proposals = stage(mcrs, id, require_name(proposer, "a proposer"), self._policy, moment(now))
        batch = Batch(
            id=id,
            status="pending",
            proposer=proposer,
            created_at=moment(now),
            proposals=proposals,
            run_id=None if run_id is None else require_name(run_id, "a run_id"),
        )
        # What is staged claims nothing, so whether it is known already is a question for the commit.
        at_once = proposer in self._policy.auto_commit
        lost: StrongroomError
        for _ in range(ATTEMPTS):
            counted = self._fresh.decided(proposer) if batch_id is None else None
            stored, decided = await self._staged(batch) if counted is None else (None, counted)
            if stored is not None:
                return same(batch, load(stored, Batch))
            decision = None
            if at_once or memory_writes.looks_around(batch):
                decision = await decide(self._scope, self._policy, batch, 0, AUTO_REVIEWER, None, {}, contents=at_once)
                if decision is None:
                    continue
            commit, result = stage_or_commit(self._scope, self._policy, batch, decision, decided, now, at_once=at_once)
            try:
                done = await self._scope.store.commit(await told(self._scope, commit, result, proposer, proposed=True))
            except Conflict as conflict:
                lost = conflict
                continue
            except BudgetExceeded as refusal:
                if counted is None:
                    raise
                lost = refusal  # more may have been decided since they were counted
                self._fresh.forget(proposer)
                continue
            if isinstance(put := commit.writes[0], Put):  # it was staged, not committed at once
                self._fresh.keep(Known(result, done.versions[0]), len(put.value))
            return result
        raise lost

    async def batch(self, batch_id: str) -> Batch:
        """Return a batch, whatever became of it."""
        return (await self._read(batch_id)).batch

    async def pending(
        self, *, proposer: str | None = None, after: str | None = None, limit: int = 50
    ) -> Results[Batch]:
        """Return the batches that wait for a decision, oldest first, each with what it resembles and would replace."""
        tags = {"status": "pending"}
        if proposer is not None:
            tags["proposer"] = keys.digest(require_name(proposer, "a proposer"))[:32]
        [page] = await self._scope.store.read([Scan(self._scope.space, keys.BATCH, tags, after, limit)])
        batches = [load(document, Batch) for document in page.documents]
        return Results([await self._search.review(batch) for batch in batches], next=page.next)

    async def commit(
        self, batch_id: str, *, reviewer: str, run_id: str | None = None, reject: Mapping[int, str] | None = None
    ) -> Committed:
        """Make a whole batch known, once. `reject` leaves single proposals out: their places, each with a reason.

        Committing it again returns the same receipt. A batch of a run can be committed only with that `run_id` or none.
        """
        require_name(reviewer, "a reviewer")
        lost: StrongroomError
        for attempt in range(ATTEMPTS):
            known = self._fresh.take(batch_id)
            try:
                # At first nobody looks whether a content is known: the commit expects that it is not, or is refused.
                plan = await self._plan(batch_id, reviewer, run_id, reject or {}, contents=attempt > 0, known=known)
            except StrongroomError as refusal:
                if known is None:
                    raise
                lost = refusal  # of what is remembered; before anybody is refused, the batch is read
                continue
            if not plan.writes:
                return receipt(plan.batch)
            commit = Commit(new_id(), plan.expects, plan.writes)
            try:
                await self._scope.store.commit(await told(self._scope, commit, plan.batch, reviewer))
            except Conflict as conflict:
                lost = conflict
                continue
            return receipt(plan.batch)
        raise lost

    async def batch_writes(
        self, batch_id: str, *, reviewer: str, run_id: str | None = None, reject: Mapping[int, str] | None = None
    ) -> BatchWrites:
        """Say what to join to a commit of your own so that it commits this batch too. This writes nothing itself.

        A batch that is already committed needs no writes: they come back empty, with its memory ids.
        """
        return await self._plan(batch_id, reviewer, run_id, reject or {}, contents=True)

    async def _plan(
        self,
        batch_id: str,
        reviewer: str,
        run_id: str | None,
        reject: Mapping[int, str],
        *,
        contents: bool,
        known: Known | None = None,
    ) -> BatchWrites:
        decision = None
        while decision is None:
            (batch, version), known = known or await self._read(batch_id), None
            if batch.status == "committed":
                done = receipt(batch)
                unchanged = Expect(self._scope.key(keys.BATCH, batch_id), version)
                return BatchWrites((unchanged,), (), done.memory_ids, batch)
            if batch.status == "rejected":
                raise already_decided(batch, version)
            self._policy.check_reviewer(batch, reviewer)
            if run_id is not None and batch.run_id is not None and run_id != batch.run_id:
                raise InvalidInput(f"batch {batch_id!r} is of run {batch.run_id!r}, not {run_id!r}; nothing changed")
            decision = await decide(
                self._scope, self._policy, batch, version, reviewer, run_id, reject, contents=contents
            )
        return decision.writes(version)

    async def reject(self, batch_id: str, *, reason: str, reviewer: str = "") -> Batch:
        """Decline a whole batch. Rejecting it again changes nothing; one that is committed can not be rejected."""
        batch, version = await self._read(batch_id)
        if batch.status == "rejected":
            return batch
        if batch.status == "committed":
            raise already_decided(batch, version)
        self._policy.check_rejecter(batch, reviewer)
        now = self._scope.clock()
        space = self._scope.space
        refused = tuple(replace(proposal, outcome="rejected", reason=reason) for proposal in batch.proposals)
        batch = replace(
            batch, status="rejected", proposals=refused, reviewer=reviewer, decided_at=moment(now), reason=reason
        )
        writes = (
            keys.put_batch(space, batch),
            keys.log(space, "REJECTED", now, reviewer, batch_id=batch_id, reason=reason),
            keys.tally(space, keys.DECIDED, batch, now),
        )
        commit = Commit(new_id(), (Expect(self._scope.key(keys.BATCH, batch_id), version),), writes)
        try:
            await self._scope.store.commit(await told(self._scope, commit, batch, reviewer or batch.proposer))
        except Conflict:
            return await self.reject(batch_id, reason=reason, reviewer=reviewer)
        return batch

    # ---- looking ----------------------------------------------------------------------------------------------------

    async def search(
        self, query: str, k: int = 8, *, mode: Mode = "hybrid", **filters: Unpack[Filters]
    ) -> Results[Hit]:
        """Return the `k` active memories that answer a query best.

        Without an embedder a hybrid search is a lexical one. If vectors can not be had right now, the result's
        `degraded` says why and the words alone decide.
        """
        return await self._search.search(query, k, mode, Lens.of(filters))

    async def get(self, memory_id: str) -> Memory:
        """Return a memory, whatever its status."""
        return load(await self._document(keys.MEMORY, memory_id), Memory)

    async def list(
        self, *, status: Status = "active", after: str | None = None, limit: int = 50, **filters: Unpack[Filters]
    ) -> Results[Memory]:
        """Return memories a page at a time: nobody's, then those of whom the filters name, each by order of creation.

        A page may be short and still have a `next`.
        """
        lens = Lens.of(filters)
        now = moment(self._scope.clock())
        memories, next = await listing.page(self._scope, lens, {"status": status}, after, limit)
        return Results([memory for memory in memories if lens.shows(memory, now, status=status)], next=next)

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
        self, time: datetime, *, after: str | None = None, limit: int = 50, **filters: Unpack[Filters]
    ) -> Results[Memory]:
        """Return the memories that were active at that time, a page at a time, as `list` does."""
        if time.tzinfo is None:
            raise InvalidInput("at() needs an aware time, such as datetime.now(UTC)")
        lens = Lens.of(filters)
        memories, next = await listing.page(self._scope, lens, {}, after, limit)
        return Results([memory for memory in memories if lens.showed(memory, time)], next=next)

    # ---- letting go, and keeping up ---------------------------------------------------------------------------------

    async def revoke(self, *, source_ref: str, by: str = "", reason: str = "") -> Revoked:
        """Stop believing a source: whatever was derived from it, directly or not, is found no more.

        The source may be anything that stands in `source_refs`, or a memory's own id. If the process dies meanwhile,
        nothing of it is found either way; calling again finishes the work.
        """
        return await self._revocations.revoke(source_ref, by, reason)

    async def sweep(self) -> int:
        """Finish interrupted revocations and retire what has expired. Return how many memories ended."""
        return await self._revocations.sweep()

    async def index(self) -> int:
        """Bring the vector index up to date now rather than at the next search. Return how many changes it took."""
        return await self._vectors.catch_up()

    async def reembed(
        self, embedder: Embedder | Callable[..., Any], *, progress: Callable[[int, int], object] | None = None
    ) -> int:
        """Make every vector anew with another embedder, then use it. Return how many texts were embedded now.

        Searches go on with the old vectors until all new ones are stored. After an interruption, calling again
        continues: a text whose new vector is stored is not embedded twice. `progress` gets (done, total).
        """
        made = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
        return await self._vectors.reembed(made, progress)

    async def pack_items(self, memory_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return memories as plain JSON, for a resume pack. Ids that are not there are left out."""
        found = await self._memories(set(memory_ids))
        return memory_packs.items([found[id] for id in memory_ids if id in found])

    async def unpack_writes(self, items: Sequence[Mapping[str, Any]]) -> PackWrites:
        """Say what brings memories from a pack back, leaving those already known alone. This writes nothing itself."""
        memories = [memory_packs.read(item, place) for place, item in enumerate(items)]
        contents = [keys.said(memory).claim for memory in memories]
        world = await world_of(self._scope, memory_packs.questions(self._scope.space, memories), contents)
        return memory_packs.decide(self._scope.space, memories, world, self._scope.clock())

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def _document(self, kind: str, id: str) -> Document:
        [document] = await self._scope.store.read([Get(self._scope.key(kind, id))])
        if document is None:
            what = kind.replace("_", " ")
            raise NotFound(f"there is no {what} {id!r:.80}; nothing changed", kind=kind, id=id)
        found: Document = document
        return found

    async def _memories(self, ids: set[str]) -> dict[str, Memory]:
        if not ids:
            return {}
        questions = [Get(self._scope.key(keys.MEMORY, id)) for id in sorted(ids)]
        found = [load(document, Memory) for document in await self._scope.store.read(questions) if document]
        return {memory.id: memory for memory in found}

    async def _read(self, batch_id: str) -> Known:
        stored = await self._document(keys.BATCH, batch_id)
        return Known(load(stored, Batch), stored.version)

    async def _staged(self, batch: Batch) -> tuple[Document | None, int]:
        """Return the batch if it is already there, and how many of the proposer's batches have been decided."""
        decided = Range(self._scope.key(keys.DECIDED, keys.digest(batch.proposer)), limit=0)
        stored, slice = await self._scope.store.read([Get(self._scope.key(keys.BATCH, batch.id)), decided])
        self._fresh.count(batch.proposer, slice.length)
        return stored, slice.length
