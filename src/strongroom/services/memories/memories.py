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

import msgspec

from strongroom.arguments import checked, require_positive
from strongroom.codec import encode, pack
from strongroom.embedders import Embedder
from strongroom.errors import InvalidInput, NotFound, StrongroomError, Unavailable
from strongroom.operations import Operation, Plan, perform
from strongroom.retrieval import Reranker
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories import packs as memory_packs
from strongroom.services.memories.batches import (
    Remembered,
    already_decided,
    recalled,
    receipt,
    remembered,
    same,
    stage_or_commit,
    told,
    turn_down,
)
from strongroom.services.memories.decisions import BatchWrites, decide, looks_around, world_of
from strongroom.services.memories.erasure import Erasure, Target
from strongroom.services.memories.keys import load
from strongroom.services.memories.learner import Learner
from strongroom.services.memories.oneline import OneLine
from strongroom.services.memories.packs import PackWrites
from strongroom.services.memories.policy import AUTO_REVIEWER, PROGRAM, Policy, require_not_program
from strongroom.services.memories.requests import normal, read_requests, stage
from strongroom.services.memories.revocations import Revocations
from strongroom.services.memories.search import Filters, Lens, Search, page
from strongroom.services.memories.values import (
    Batch,
    Change,
    Committed,
    Erased,
    Hit,
    Memory,
    MemoryRequest,
    Mode,
    Request,
    Results,
    Revoked,
    Status,
    Written,
    changes,
    unreadable,
)
from strongroom.services.memories.vectors import Vectors
from strongroom.store import Document, Expect, Get, Range, Receipt, Scan, Write, require_name
from strongroom.values import moment
from strongroom.vectors import VectorIndex


@checked
class AsyncMemories(OneLine, Learner):
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
        self,
        requests: MemoryRequest | Request | Sequence[MemoryRequest | Request],
        *,
        proposer: str,
        run_id: str | None = None,
        batch_id: str | None = None,
        about: str = "",
        commit_id: str | None = None,
    ) -> Batch:
        """Stage requests, one or a list, for review, or commit them now if the policy says so.

        A `batch_id` names the batch: the same requests return the one that is there, whatever became of it. A
        `commit_id` makes a repeat safe without naming it, and gives the first answer again; one id may be used by a
        proposer once for each thing that it is `about`.
        """
        if about:
            require_not_program(proposer)
        return await self._propose(
            requests, proposer=proposer, run_id=run_id, batch_id=batch_id, about=about, commit_id=commit_id
        )

    async def _propose(
        self,
        requests: Any,
        *,
        proposer: str,
        run_id: str | None = None,
        batch_id: str | None = None,
        about: str = "",
        commit_id: str | None = None,
    ) -> Batch:
        """Stage or commit requests, also those of the program itself, which say what they are about."""
        wanted = read_requests(requests)
        id = "batch_" + os.urandom(10).hex() if batch_id is None else require_name(batch_id, "a batch_id")
        require_name(proposer, "a proposer")
        if run_id is not None:
            require_name(run_id, "a run_id")
        said = {"proposer": proposer, "run_id": run_id, "batch_id": batch_id} | ({"about": about} if about else {})
        content = pack({"requests": normal(wanted), **said})

        async def attempt() -> Plan[Batch] | None:
            staged = await self._staged(wanted, id, proposer, run_id, about)
            if staged is None:
                return None
            expects, writes, batch = staged
            return Plan(expects, writes, lambda _: batch, remembered(batch))

        async def replay(receipt: Receipt) -> Batch:
            assert receipt.answer is not None
            answer = msgspec.json.decode(receipt.answer, type=Remembered)
            return recalled(answer, await self.batch(answer.batch_id))

        target = self._scope.key(keys.STAGED, proposer)
        operation = Operation("memories.propose", target, content, commit_id, self._policy.told, life=about)
        return await perform(self._scope, operation, attempt, replay)

    async def _staged(
        self, wanted: Sequence[Request], id: str, proposer: str, run_id: str | None, about: str
    ) -> tuple[Sequence[Expect], Sequence[Write], Batch] | None:
        """Say what stages a batch of these requests, or commits it at once; None if things changed meanwhile."""
        scope, policy, now = self._scope, self._policy, self._scope.clock()
        decided = Range(scope.key(keys.DECIDED, keys.digest(proposer)), limit=0)
        stored, tally = await scope.read(Get(scope.key(keys.BATCH, id)), decided)
        proposals = stage(wanted, id, proposer, policy, moment(now))
        batch = Batch(
            id=id, status="pending", proposer=proposer, created_at=moment(now), proposals=proposals, run_id=run_id
        )
        if stored is not None:
            found = same(batch, load(stored, Batch))
            return (Expect(stored.key, stored.version),), (), found
        # What is staged claims nothing, so whether it is known already is a question for the commit.
        at_once = policy.commits_at_once(proposer, about)
        decision = None
        if at_once or looks_around(batch):
            decision = await decide(scope, policy, batch, 0, AUTO_REVIEWER, None, {}, contents=at_once)
            if decision is None:
                return None
        made = stage_or_commit(scope, policy, batch, decision, tally.length, now, at_once=at_once)
        return *await told(scope, made, proposer, proposed=True), made.batch

    async def _one(
        self, request: Any, about: str, proposer: str | None, run_id: str | None, commit_id: str | None
    ) -> Batch:
        who = PROGRAM if proposer is None else require_not_program(proposer)
        try:
            return await self._propose(request, proposer=who, run_id=run_id, about=about, commit_id=commit_id)
        except StrongroomError as problem:  # of one request, its place in a list tells nothing
            if str(problem).startswith("$[0]"):
                problem.args = (str(problem).removeprefix("$[0]: "),)
                if isinstance(problem, InvalidInput):
                    problem.path = ""
            raise

    async def batch(self, batch_id: str) -> Batch:
        """Return a batch, whatever became of it."""
        return load(await self._document(keys.BATCH, batch_id), Batch)

    async def pending(
        self, *, proposer: str | None = None, after: str | None = None, limit: int = 50
    ) -> Results[Batch]:
        """Return the batches that wait for a decision, oldest first, each with what it resembles and would replace."""
        tags = {"status": "pending"}
        if proposer is not None:
            tags["proposer"] = keys.digest(require_name(proposer, "a proposer"))[:32]
        scan = Scan(self._scope.space, keys.BATCH, tags, after, limit)
        batches, following, damaged = await self._scope.listed(scan, lambda document: load(document, Batch))
        reviewed = [await self._search.review(batch) for batch in batches]
        return Results(reviewed, next=following, degraded=unreadable(damaged))

    async def commit(
        self,
        batch: Batch | Written | str,
        *,
        reviewer: str,
        run_id: str | None = None,
        reject: Mapping[int, str] | None = None,
        commit_id: str | None = None,
    ) -> Committed:
        """Make a whole batch known, once. `reject` leaves single proposals out: their places, each with a reason.

        Committing it again returns the same receipt. A batch of a run can be committed only with that `run_id` or none.
        """
        id, contents = _id(batch), False
        left_out = {str(place): reason for place, reason in (reject or {}).items()}
        content = encode({"reviewer": reviewer, "run_id": run_id, "reject": left_out})

        async def attempt() -> Plan[Committed] | None:
            # At first nobody looks whether a content is known: the commit expects that it is not, or is refused.
            nonlocal contents
            plan = await self._plan(id, reviewer, run_id, reject or {}, contents=contents)
            if plan is None:
                return None
            contents = True
            expects, writes = await told(self._scope, plan, reviewer)
            return Plan(expects, writes, lambda _: receipt(plan.batch))

        async def replay(_: Receipt) -> Committed:
            return receipt(await self.batch(id))  # which has not changed since

        target = self._scope.key(keys.BATCH, id)
        operation = Operation("memories.commit", target, content, commit_id, self._policy.told)
        return await perform(self._scope, operation, attempt, replay)

    async def batch_writes(
        self,
        batch: Batch | Written | str,
        *,
        reviewer: str,
        run_id: str | None = None,
        reject: Mapping[int, str] | None = None,
    ) -> BatchWrites:
        """Say what to join to a commit of your own so that it commits this batch too. This writes nothing itself.

        A batch that is already committed needs no writes: they come back empty, with its memory ids.
        """
        id = _id(batch)
        for _ in attempts(f"batch {id!r}"):
            plan = await self._plan(id, reviewer, run_id, reject or {}, contents=True)
            if plan is not None:
                return plan
        raise AssertionError("attempts() raises when it is enough")

    async def _plan(
        self, id: str, reviewer: str, run_id: str | None, reject: Mapping[int, str], *, contents: bool
    ) -> BatchWrites | None:
        require_name(reviewer, "a reviewer")
        stored = await self._document(keys.BATCH, id, writing=True)
        batch, version = load(stored, Batch), stored.version
        if batch.status == "committed":
            return BatchWrites((Expect(stored.key, version),), (), receipt(batch).memory_ids, batch)
        if batch.status == "rejected":
            raise already_decided(batch, version)
        self._policy.check_reviewer(batch, reviewer)
        if run_id is not None and batch.run_id is not None and run_id != batch.run_id:
            raise InvalidInput(f"batch {id!r} is of run {batch.run_id!r}, not {run_id!r}; nothing changed")
        decision = await decide(self._scope, self._policy, batch, version, reviewer, run_id, reject, contents=contents)
        return None if decision is None else decision.writes(version)

    async def reject(
        self, batch: Batch | Written | str, *, reason: str, reviewer: str = "", commit_id: str | None = None
    ) -> Batch:
        """Decline a whole batch. Rejecting it again changes nothing; one that is committed cannot be rejected."""
        id = _id(batch)

        async def attempt() -> Plan[Batch]:
            stored = await self._document(keys.BATCH, id, writing=True)
            found, unchanged = load(stored, Batch), (Expect(stored.key, stored.version),)
            if found.status == "rejected":
                return Plan(unchanged, (), lambda _: found)
            if found.status == "committed":
                raise already_decided(found, stored.version)
            self._policy.check_rejecter(found, reviewer)
            plan = turn_down(self._scope.space, found, unchanged, reviewer, reason, self._scope.clock())
            expects, writes = await told(self._scope, plan, reviewer or found.proposer)
            return Plan(expects, writes, lambda _: plan.batch)

        async def replay(_: Receipt) -> Batch:
            return await self.batch(id)  # which has not changed since

        content = encode({"reason": reason, "reviewer": reviewer})
        target = self._scope.key(keys.BATCH, id)
        operation = Operation("memories.reject", target, content, commit_id, self._policy.told)
        return await perform(self._scope, operation, attempt, replay)

    # ---- looking ----------------------------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        k: int = 8,
        *,
        mode: Mode = "hybrid",
        rerank: Reranker | None = None,
        half_life_days: float | None = None,
        now: datetime | None = None,
        **filters: Unpack[Filters],
    ) -> Results[Hit]:
        """Return the `k` active memories that answer a query best.

        Without an embedder a hybrid search is a lexical one. If vectors cannot be had right now, the result's
        `degraded` says why and the words alone decide. `rerank(query, texts)` may give the best fifty scores of its
        own; if it fails, `degraded` says so. With `half_life_days`, what is recent at `now` gets a little more.
        """
        require_positive(half_life_days=half_life_days)
        if now is not None and now.tzinfo is None:
            raise InvalidInput("now must be an aware time, such as datetime.now(UTC)")
        recent = None if half_life_days is None else (half_life_days, now)
        return await self._search.search(query, k, mode, Lens.of(filters), rerank, recent)

    async def get(self, memory_id: str) -> Memory:
        """Return a memory, whatever its status."""
        return load(await self._document(keys.MEMORY, memory_id), Memory)

    async def list(
        self,
        *,
        status: Status | None = "active",
        after: str | None = None,
        limit: int = 50,
        everyone: bool = False,
        **filters: Unpack[Filters],
    ) -> Results[Memory]:
        """Return memories a page at a time: nobody's, then those of whom the filters name, each by order of creation.

        `status=None` lists all of them, whatever became of them; `everyone` those of all users and projects of
        the space. A page may be short and still have a `next`.
        """
        lens = Lens.of(filters, everyone=everyone)
        now = moment(self._scope.clock())
        memories, next = await page(self._scope, lens, {"status": status} if status else {}, after, limit)
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
        memories, next = await page(self._scope, lens, {}, after, limit)
        return Results([memory for memory in memories if lens.showed(memory, time)], next=next)

    # ---- letting go, and keeping up ---------------------------------------------------------------------------------

    async def revoke(self, *, source_ref: str, by: str = "", reason: str = "", commit_id: str | None = None) -> Revoked:
        """Stop believing a source: whatever was derived from it, directly or not, is found no more.

        The source may be anything that stands in `source_refs`, or a memory's own id. If the process dies meanwhile,
        nothing of it is found either way; calling again finishes the work.
        """
        return await self._revocations.revoke(source_ref, by, reason, commit_id)

    async def would_revoke(self, *, source_ref: str, limit: int = 1_000) -> Results[Memory]:
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
        away = await self._unheard()
        if away is None:
            return erased
        pending = "; ".join(filter(None, (erased.pending, away)))
        return msgspec.structs.replace(erased, complete=False, pending=pending)

    @property
    def _eraser(self) -> Erasure:
        return Erasure(self._scope, self._vectors.keys_of)

    async def _unheard(self) -> str | None:
        """Have the index of vectors hear of an erasure; say why it did not."""
        if self._vectors.embedder is None:
            return None
        try:
            await self._vectors.catch_up()
        except Unavailable as problem:
            return f"the index of vectors is away, and drops them when it is back: {problem}"
        return None

    async def sweep(self, *, commit_id: str | None = None) -> int:
        """Finish interrupted revocations and retire what has expired. Return how many memories ended."""
        return await self._revocations.sweep(commit_id)

    async def index(self) -> int:
        """Bring the vector index up to date now rather than at the next search. Return how many changes it took."""
        return await self._vectors.catch_up()

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

    async def _document(self, kind: str, id: str, *, writing: bool = False) -> Document:
        document = await self._scope.get(Get(self._scope.key(kind, id)))
        if document is None:
            unchanged = "; nothing changed" if writing else ""
            raise NotFound(f"there is no {kind.replace('_', ' ')} {id!r:.80}{unchanged}", kind=kind, id=id)
        return document

    async def _memories(self, ids: set[str]) -> dict[str, Memory]:
        found = await self._scope.get_all([Get(self._scope.key(keys.MEMORY, id)) for id in sorted(ids)])
        memories = [load(document, Memory) for document in found if document is not None]
        return {memory.id: memory for memory in memories}


def _id(batch: Batch | Written | str) -> str:
    if isinstance(batch, Written):
        return batch.batch_id
    return batch.id if isinstance(batch, Batch) else batch
