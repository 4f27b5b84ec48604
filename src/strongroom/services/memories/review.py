"""Propose, review, commit: what somebody wants to be known waits for a decision, and is decided wholly and once.

See `memories.py` for the rules.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from strongroom.arguments import Count, checked
from strongroom.codec import encode, pack
from strongroom.errors import Damaged, InvalidInput, NotFound, StrongroomError, Unavailable
from strongroom.operations import Operation, Plan, Prepared, perform, unchanged
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.batches import (
    Remembered,
    already_decided,
    recalled,
    receipt,
    remembered,
    reworded,
    same,
    says,
    stage_or_commit,
    told,
    turn_down,
    waits_in,
)
from strongroom.services.memories.decisions import BatchWrites, decide, looks_around
from strongroom.services.memories.keys import load
from strongroom.services.memories.oneline import NO_NAMES, as_given
from strongroom.services.memories.policy import AUTO_REVIEWER, PROGRAM, Policy, require_not_program
from strongroom.services.memories.requests import (
    UNCHANGED,
    keeping,
    normal,
    read_requests,
    replaced,
    require_kept,
    stage,
)
from strongroom.services.memories.search import Search
from strongroom.services.memories.values import (
    Batch,
    Committed,
    Memory,
    MemoryRequest,
    Request,
    Results,
    Written,
    id_of,
)
from strongroom.store import Document, Expect, Get, Receipt, Scan, Write, require_name
from strongroom.values import moment


@checked
class Review:
    """What memories do with batches of requests."""

    _scope: Scope
    _policy: Policy
    _search: Search

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
        who = require_not_program(proposer)
        return await self._propose(
            requests, proposer=who, run_id=run_id, batch_id=batch_id, about=about, commit_id=commit_id
        )

    async def _propose(
        self,
        requests: Any,
        *,
        proposer: str,
        run_id: str | None = None,
        batch_id: str | None = None,
        about: str = "",
        kept: Sequence[str] = (),
        commit_id: str | None = None,
    ) -> Batch:
        """Stage or commit requests, also those of the program itself, which say what they are about. What is `kept` of
        the memory that a request is about is looked up when it is made: a repeat says the same, whatever became of it.
        """
        prepared = self._proposing(requests, proposer, run_id, batch_id, about, kept, commit_id)
        return await perform(self._scope, *prepared)

    def _proposing(
        self,
        requests: Any,
        proposer: str,
        run_id: str | None,
        batch_id: str | None,
        about: str = "",
        kept: Sequence[str] = (),
        commit_id: str | None = None,
    ) -> Prepared[Batch]:
        """Look at the form of requests, and say how they are staged or committed."""
        wanted = read_requests(requests)
        require_kept(wanted, kept)
        id = "batch_" + os.urandom(10).hex() if batch_id is None else require_name(batch_id, "a batch_id")
        require_name(proposer, "a proposer")
        if run_id is not None:
            require_name(run_id, "a run_id")
        said = {"proposer": proposer, "run_id": run_id, "batch_id": batch_id} | ({"about": about} if about else {})
        try:
            content = pack({"requests": normal(wanted), **said, **({"kept": kept} if kept else {})})
        except InvalidInput as problem:  # a lone surrogate, say, which is told by its place in what the caller gave
            path = problem.path.replace("$.requests", "$", 1)
            raise InvalidInput(f"{str(problem).partition(': ')[2]}; {UNCHANGED}", path=path) from None

        async def attempt() -> Plan[Batch] | None:
            whole = [keeping(one, await self._replaced(one), kept) for one in wanted] if kept else wanted
            staged = await self._staged(whole, id, proposer, run_id, about, named=batch_id is not None)
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
        return Prepared(operation, attempt, replay)

    async def _staged(
        self, wanted: Sequence[Request], id: str, proposer: str, run_id: str | None, about: str, *, named: bool = False
    ) -> tuple[Sequence[Expect], Sequence[Write], Batch] | None:
        """Say what stages a batch of these requests, or commits it at once; None if things changed meanwhile.

        A batch that its proposer has `named` may be there already.
        """
        scope, policy, now = self._scope, self._policy, self._scope.clock()
        decided, at = keys.decided_by(scope.space, proposer), moment(now)
        if named:
            stored, tally = await scope.read(Get(scope.key(keys.BATCH, id)), decided)
        else:
            stored, tally = None, await scope.get(decided)
        size = sum([len(one.content or "") + len(one.rationale) for one in wanted])
        proposals = await scope.compute(size, lambda: stage(wanted, id, proposer, policy, at))
        batch = Batch(id=id, status="pending", proposer=proposer, created_at=at, proposals=proposals, run_id=run_id)
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
        self,
        request: Any,
        about: str,
        proposer: str | None,
        run_id: str | None,
        commit_id: str | None,
        kept: Sequence[str] = (),
        names: Mapping[str, str] = NO_NAMES,
    ) -> Batch:
        who = PROGRAM if proposer is None else require_not_program(proposer)
        try:
            return await self._propose(
                request, proposer=who, run_id=run_id, about=about, kept=kept, commit_id=commit_id
            )
        except StrongroomError as problem:  # of one request, its place in a list tells nothing
            if str(problem).startswith("$[0]"):
                problem.args = (as_given(str(problem), names),)
                if isinstance(problem, InvalidInput):
                    problem.path = ""
            if isinstance(problem, InvalidInput):
                unchanged(problem)
            raise

    async def _replaced(self, request: Request) -> Memory:
        """Return the memory that a request would end, or say where it waits to become one."""
        [id] = replaced(request)
        try:
            return load(await self._document(keys.MEMORY, id, writing=True), Memory)
        except NotFound:
            batch_id = await waits_in(self._scope, id)
            if batch_id is None:
                raise
            raise NotFound(
                f"memory {id!r} is not known yet: it waits for a review in batch {batch_id!r}; nothing changed",
                kind="pending_memory",
                id=id,
            ) from None

    async def batch(self, batch_id: Batch | Written | str) -> Batch:
        """Return a batch, whatever became of it."""
        return load(await self._document(keys.BATCH, id_of(batch_id)), Batch)

    async def pending(
        self, *, proposer: str | None = None, after: str | None = None, limit: Count = 50
    ) -> Results[Batch]:
        """Return the batches that wait for a decision, oldest first, each with what it resembles and would replace.

        Where a file that is opened read-only cannot be searched, or something in it is damaged, they come without
        that, and `degraded` says so.
        """
        tags = {"status": "pending"}
        if proposer is not None:
            tags["proposer"] = keys.named(require_name(proposer, "a proposer"))[:32]
        scan = Scan(self._scope.space, keys.BATCH, tags, after, limit)
        batches, following, damaged = await self._scope.listed(scan, lambda document: load(document, Batch))
        told = None
        try:
            batches = [await self._search.review(batch) for batch in batches]
        except (Unavailable, Damaged) as problem:
            if isinstance(problem, Unavailable) and problem.reason != "read_only":
                raise
            told = f"what they resemble was not looked for: {problem}"
        return Results(batches, next=following, degraded=told, damaged=damaged)

    async def commit(
        self,
        batch: Batch | Written | str,
        *,
        reviewer: str,
        run_id: str | None = None,
        reject: Mapping[int, str] | None = None,
        edit: Mapping[int, str] | None = None,
        commit_id: str | None = None,
    ) -> Committed:
        """Make a whole batch known, once. `reject` leaves single proposals out: their places, each with a reason.
        `edit` accepts single proposals in other words: their places, each with the content that becomes known.

        Whoever proposed an edited text stays its proposer, and what they had said stays with it (`edited_from`); it is
        trusted no more than its proposer and its reviewer are. Committing a batch again returns the same receipt, and
        is a `Conflict` if it asks for words that are not what was committed. A batch of a run can be committed only
        with that `run_id` or none.
        """
        id, contents = id_of(batch), False
        content = encode(
            {"reviewer": reviewer, "run_id": run_id, "reject": _spelt(reject)}
            | ({"edit": _spelt(edit)} if edit else {})
        )

        async def attempt() -> Plan[Committed] | None:
            # At first nobody looks whether a content is known: the commit expects that it is not, or is refused.
            nonlocal contents
            plan = await self._plan(id, reviewer, run_id, reject or {}, edit or {}, contents=contents)
            if plan is None:
                return None
            contents = True
            expects, writes = await told(self._scope, plan, reviewer)
            return Plan(expects, writes, lambda _: receipt(plan.batch))

        async def replay(_: Receipt) -> Committed:
            return receipt(await self.batch(id))  # which nothing but an erasure changes once it is decided

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
        edit: Mapping[int, str] | None = None,
    ) -> BatchWrites:
        """Say what to join to a commit of your own so that it commits this batch too. This writes nothing itself.

        A batch that is already committed needs no writes: they come back empty, with its memory ids.
        """
        id = id_of(batch)
        for _ in attempts(f"batch {id!r}"):
            plan = await self._plan(id, reviewer, run_id, reject or {}, edit or {}, contents=True)
            if plan is not None:
                return plan
        raise AssertionError("attempts() raises when it is enough")

    async def _plan(
        self,
        id: str,
        reviewer: str,
        run_id: str | None,
        reject: Mapping[int, str],
        edit: Mapping[int, str],
        *,
        contents: bool,
    ) -> BatchWrites | None:
        require_name(reviewer, "a reviewer")
        stored = await self._document(keys.BATCH, id, writing=True)
        batch, version = load(stored, Batch), stored.version
        if batch.status == "committed" and says(batch, edit):
            return BatchWrites((Expect(stored.key, version),), (), receipt(batch).memory_ids, batch)
        if batch.status != "pending":
            raise already_decided(batch, version)
        self._policy.check_reviewer(batch, reviewer)
        if run_id is not None and batch.run_id is not None and run_id != batch.run_id:
            raise InvalidInput(f"batch {id!r} is of run {batch.run_id!r}, not {run_id!r}; nothing changed")
        if edit:
            batch = reworded(batch, edit, reject, self._policy)
        decision = await decide(self._scope, self._policy, batch, version, reviewer, run_id, reject, contents=contents)
        return None if decision is None else decision.writes(version)

    async def reject(
        self, batch: Batch | Written | str, *, reason: str, reviewer: str = "", commit_id: str | None = None
    ) -> Batch:
        """Decline a whole batch. Rejecting it again changes nothing; one that is committed cannot be rejected."""
        id = id_of(batch)

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
            return await self.batch(id)  # which nothing but an erasure changes once it is decided

        content = encode({"reason": reason, "reviewer": reviewer})
        target = self._scope.key(keys.BATCH, id)
        operation = Operation("memories.reject", target, content, commit_id, self._policy.told)
        return await perform(self._scope, operation, attempt, replay)

    async def _document(self, kind: str, id: str, *, writing: bool = False) -> Document:
        document = await self._scope.get(Get(self._scope.key(kind, id)))
        if document is None:
            unchanged = "; nothing changed" if writing else ""
            told = f"there is no {kind.replace('_', ' ')} {id!r:.80}"
            if kind == keys.BATCH and (batch_id := await waits_in(self._scope, id)) is not None:
                told += f": it is a memory, which waits for a review in batch {batch_id!r}"
            raise NotFound(f"{told}{unchanged}", kind=kind, id=id)
        return document


def _spelt(places: Mapping[int, str] | None) -> dict[str, str]:
    return {str(place): text for place, text in (places or {}).items()}
