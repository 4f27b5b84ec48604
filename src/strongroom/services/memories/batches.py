"""The life of a batch: staged, or committed at once; committed or turned down; told in its run's ledger; told again.

Pure but for `told`, which reads the run it tells, and `waits_in`, which looks through what is pending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import Json, pack
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.decisions import BatchWrites, Decision, require_places
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.requests import edited, replaced
from strongroom.services.memories.values import Batch, Committed, Proposal, Trust
from strongroom.services.runs.events import event_writes
from strongroom.store import Expect, Scan, Write
from strongroom.values import moment

NEWEST = 500


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


def receipt(batch: Batch) -> Committed:
    """Return what committing this batch did: a function of the batch, so every asker gets the same."""
    assert batch.reviewer is not None and batch.decided_at is not None
    done = [proposal for proposal in batch.proposals if proposal.outcome in ("committed", "duplicate")]
    return Committed(
        batch.id,
        batch.reviewer,
        batch.decided_at,
        tuple([p.memory_id for p in done if p.outcome == "committed" and p.memory_id]),
        tuple([target for p in done for target in replaced(p.request)]),
        tuple([p.duplicate_of for p in done if p.duplicate_of]),
        tuple([place for place, p in enumerate(batch.proposals) if p.outcome == "rejected"]),
        tuple([place for place, p in enumerate(batch.proposals) if p.edited is not None]),
    )


def reworded(batch: Batch, edit: Mapping[int, str], reject: Mapping[int, str], policy: Policy) -> Batch:
    """Return the batch with a reviewer's words for some of its proposals. What they were stays in their requests."""
    require_places(batch, edit)
    proposals = list(batch.proposals)
    for place, content in edit.items():
        try:
            if place in reject:
                raise InvalidInput("it is edited and rejected: decide for one")
            proposals[place] = edited(proposals[place], content, policy)
        except InvalidInput as problem:
            raise InvalidInput(f"{problem}; nothing changed", path=f"$[{place}]") from None
    return replace(batch, proposals=tuple(proposals))


PLACE = "0|[1-9][0-9]{0,3}"  # of a proposal where it is named by a text: of one spelling, so that none is said twice


def says(batch: Batch, edit: Mapping[int, str]) -> bool:
    """Tell whether a batch that is committed says what these edits ask for: nobody's words are dropped in silence."""
    require_places(batch, edit)
    return all(_settled(batch.proposals[place]) == text for place, text in edit.items())


def _settled(proposal: Proposal) -> str | None:
    """Return the words in which a proposal was committed, None if it was rejected."""
    if proposal.outcome == "rejected":
        return None
    return proposal.request.content if proposal.edited is None else proposal.edited


class Remembered(Struct, frozen=True):
    """What the receipt of a proposal keeps, so that the batch can be shown as it was even after it was decided.

    Requests and ids never change; trust and flags may, so they are kept: each kind once, and for each place its kind.
    """

    batch_id: str
    pending: bool
    kinds: list[tuple[Trust, tuple[str, ...]]]
    places: list[int]


def remembered(batch: Batch) -> Json:
    found = [(proposal.trust, proposal.flags) for proposal in batch.proposals]
    kinds = {kind: place for place, kind in enumerate(dict.fromkeys(found))}
    return pack(Remembered(batch.id, batch.status == "pending", list(kinds), [kinds[kind] for kind in found]))


def recalled(answer: Remembered, batch: Batch) -> Batch:
    """Return the batch as it was when the answer was kept. Once decided, only an erasure changes it."""
    if not answer.pending or batch.status == "pending":
        return batch
    proposals = [
        Proposal(request=proposal.request, memory_id=proposal.memory_id, trust=trust, flags=flags)
        for proposal, (trust, flags) in zip(batch.proposals, [answer.kinds[n] for n in answer.places], strict=True)
    ]
    return replace(batch, status="pending", proposals=tuple(proposals), reviewer=None, decided_at=None, reason="")


def same(wanted: Batch, found: Batch) -> Batch:
    """Return the batch that is there if it asks for the same, else raise."""
    asked = [(proposal.request, proposal.memory_id) for proposal in wanted.proposals]
    if wanted.proposer == found.proposer and asked == [(p.request, p.memory_id) for p in found.proposals]:
        return found
    raise Conflict(f"there already is another batch {found.id!r}; nothing changed", expected=0, actual=1)


def already_decided(batch: Batch, version: int) -> Conflict:
    return Conflict(
        f"batch {batch.id!r} was {batch.status} by {batch.reviewer!r}; nothing changed", expected=1, actual=version
    )


def turn_down(
    space: str, batch: Batch, expects: tuple[Expect, ...], reviewer: str, reason: str, now: int
) -> BatchWrites:
    """Return what to commit so that a batch is rejected."""
    refused = tuple([replace(proposal, outcome="rejected", reason=reason) for proposal in batch.proposals])
    batch = replace(
        batch, status="rejected", proposals=refused, reviewer=reviewer, decided_at=moment(now), reason=reason
    )
    note = keys.log(space, "REJECTED", now, reviewer, batch_id=batch.id)
    writes = (keys.put_batch(space, batch), note, keys.tally(space, keys.DECIDED, batch, now))
    return BatchWrites(expects, writes, (), batch)


async def waits_in(scope: Scope, memory_id: str) -> str | None:
    """Return which of the newest pending batches would make this memory, None if none of them would."""
    scan = Scan(scope.space, keys.BATCH, {"status": "pending"}, limit=NEWEST, reverse=True)
    batches, _, _ = await scope.listed(scan, lambda document: keys.load(document, Batch))
    return next((batch.id for batch in batches for one in batch.proposals if one.memory_id == memory_id), None)


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


def run_events(batch: Batch, proposed: bool) -> list[tuple[str, dict[str, Any]]]:
    """Say what happened to a batch, in the words of a run's ledger."""
    events: list[tuple[str, dict[str, Any]]] = []
    decided = {"batch_id": batch.id, "reviewer": batch.reviewer or ""}
    if proposed:
        told = {"batch_id": batch.id, "proposer": batch.proposer, "count": len(batch.proposals)}
        events.append(("MEMORY_PROPOSED", told))
    if batch.status == "committed":
        events.append(("MEMORY_COMMITTED", decided | {"memory_ids": list(receipt(batch).memory_ids)}))
    if batch.status == "rejected":
        events.append(("MEMORY_REJECTED", decided | {"reason": batch.reason}))
    return events
