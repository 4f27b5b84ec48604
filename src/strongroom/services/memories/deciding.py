"""From a batch to the commit that stages it or makes it known: read what matters, decide, say what to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from strongroom.errors import NotFound, StrongroomError
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories import writes as memory_writes
from strongroom.services.memories.history import run_events
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import Batch
from strongroom.services.memories.writes import BatchWrites, Decision, World
from strongroom.services.runs.state import event_writes
from strongroom.store import Document, Expect, Get, Key, Write


async def decide(
    scope: Scope,
    policy: Policy,
    batch: Batch,
    version: int,
    reviewer: str,
    run_id: str | None,
    reject: Mapping[int, str],
    *,
    contents: bool,
) -> Decision | None:
    """Decide what committing a batch writes; None if somebody decided the batch itself meanwhile."""
    space = scope.space
    kept = [proposal for place, proposal in enumerate(batch.proposals) if place not in reject]
    requests = [proposal.request for proposal in kept]
    ids = [proposal.memory_id for proposal in kept]
    said = [keys.said(proposal.request).claim for proposal in kept if proposal.memory_id is not None and contents]
    world = await world_of(scope, memory_writes.keys_to_read(space, requests, ids), said)
    try:
        return Decision(
            space,
            batch,
            world,
            policy=policy,
            reviewer=reviewer,
            run_id=run_id,
            reject=reject,
            now=scope.clock(),
        )
    except StrongroomError:
        # What stands in the way may be this very batch, committed since we read it.
        stored = await scope.get(Get(scope.key(keys.BATCH, batch.id)))
        if (stored.version if stored else 0) != version:
            return None
        raise


async def world_of(scope: Scope, wanted: Sequence[Key], contents: Sequence[str]) -> World:
    """Return what the keys hold and who says the contents, from one snapshot."""
    said = list(dict.fromkeys(contents))
    holding = [keys.holder(scope.space, content) for content in said]
    found, pages = await scope.read_all([Get(key) for key in wanted], holding)
    documents: dict[Key, Document | None] = dict(zip(wanted, found, strict=True))
    holders = {}
    for content, page in zip(said, pages, strict=True):
        for document in page.documents:
            holders[content] = document.key.id
            documents[document.key] = document
    return World(documents, holders)


async def told(
    scope: Scope, plan: BatchWrites, actor: str, *, proposed: bool = False
) -> tuple[Sequence[Expect], Sequence[Write]]:
    """Join to what is written the events that tell it in the ledger of the batch's run, if there is such a run."""
    expects, writes, batch = plan.expects, plan.writes, plan.batch
    if batch.run_id is None or not writes:
        return expects, writes
    for type, payload in run_events(batch, proposed):
        try:
            more = await event_writes(scope, batch.run_id, type, payload, actor=actor)
        except NotFound:
            return plan.expects, plan.writes
        expects, writes = (*expects, *more[0]), (*writes, *more[1])
    return expects, writes


def stage_or_commit(
    scope: Scope, policy: Policy, batch: Batch, decision: Decision | None, decided: int, now: int, *, at_once: bool
) -> BatchWrites:
    """Stage the batch, or commit it at once if its proposer is trusted with that and nothing in it is odd."""
    space = scope.space
    staged = keys.tally(space, keys.STAGED, batch, now, decided + policy.max_pending_batches)
    note = keys.log(space, "PROPOSED", now, batch.proposer, batch_id=batch.id)
    if decision is not None:
        settled = decision.settled.proposals
        if at_once and not any(proposal.flags for proposal in settled):
            plan = decision.writes(0)
            return replace(plan, writes=(staged, note, *plan.writes))
        waiting = tuple([replace(proposal, outcome="pending", duplicate_of=None) for proposal in settled])
        batch = replace(batch, proposals=waiting)
    absent = Expect(scope.key(keys.BATCH, batch.id), 0)
    return BatchWrites((absent,), (keys.put_batch(space, batch), staged, note), (), batch)
