"""What stays of memories and batches when they are erased: places, times, and that it was so. Pure."""

from __future__ import annotations

from collections.abc import Callable, Set

from msgspec.structs import replace

from strongroom.services.memories.requests import replaced
from strongroom.services.memories.targets import Targets
from strongroom.services.memories.values import Batch, Ended, Memory, Proposal, Revoked
from strongroom.values import moment

GONE = "(erased)"


def blanked(memory: Memory, by: str, now: int) -> Memory:
    """Return what stays of a memory: its id, its type, its times, its place among others."""
    at = moment(now)
    ended = [replace(one, by="", reason="") for one in memory.ended]
    return Memory(
        id=memory.id,
        type=memory.type,
        scope=memory.scope,
        content=GONE,
        rationale=GONE,
        confidence=0.0,
        status="erased",
        trust="untrusted",
        proposer=GONE,
        reviewer=GONE,
        batch_id=memory.batch_id,
        proposed_at=memory.proposed_at,
        created_at=memory.created_at,
        updated_at=at,
        supersedes=memory.supersedes,
        superseded_by=memory.superseded_by,
        ended=(*ended, Ended("erased", at, by)),
    )


def is_blank(memory: Memory) -> bool:
    """Tell whether a memory is what stays of one that was erased, and no more."""
    owned = memory.user_id or memory.project_id or memory.run_id
    more = memory.source_refs or memory.tags or memory.metadata or memory.edited_from is not None
    said = {memory.content, memory.rationale} - {GONE}
    return memory.status == "erased" and not (owned or more or said)


def is_about(proposal: Proposal, wanted: Targets, ids: Set[str], derived: bool) -> bool:
    """Tell whether a proposal speaks of what is to be erased, and still says something."""
    request = proposal.request
    if request.content == GONE and request.rationale == GONE:
        return False
    mentioned = {
        proposal.memory_id,
        proposal.duplicate_of,
        *replaced(request),
        *(request.source_refs if derived else ()),
    }
    return not ids.isdisjoint(mentioned) or wanted.include(request)


def cleared(batch: Batch, about: Callable[[Proposal], bool], by: str, now: int) -> Batch:
    """Return a batch that says nothing more in some of its proposals; one that was pending is turned down."""
    proposals = tuple([_without(one) if about(one) else one for one in batch.proposals])
    batch = replace(batch, proposals=proposals, reason="")
    if batch.status == "pending":
        refused = tuple([replace(one, outcome="rejected", reason=GONE) for one in proposals])
        batch = replace(batch, status="rejected", proposals=refused, reviewer=by, decided_at=moment(now), reason=GONE)
    return batch


def _without(proposal: Proposal) -> Proposal:
    request = replace(
        proposal.request,
        content=GONE,
        rationale=GONE,
        source_refs=(),
        user_id=None,
        project_id=None,
        tags=(),
        metadata={},
    )
    return replace(proposal, request=request, edited=None, reason="")


def nameless(revoked: Revoked) -> Revoked:
    """Return a revocation that does not say any more what was revoked, by whom and why. One that is under way keeps its
    source, from which whoever finishes it goes on; it is forgotten then (`finished`)."""
    source_ref = GONE if revoked.done else revoked.source_ref
    return replace(revoked, source_ref=source_ref, by=GONE, reason=GONE)


def finished(revoked: Revoked) -> Revoked:
    """Return what stays of a revocation that is done: all of it, unless it was to be forgotten while under way."""
    return nameless(revoked) if revoked.by == revoked.reason == GONE else revoked
