"""Tools of long-term memory: search, look at, propose, and see what became of a proposal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from strongroom.mcp.data import Data, beginning, data, fitting
from strongroom.mcp.principals import AGENT, EVERYBODY
from strongroom.mcp.tool import ROOM, After, Answer, Arguments, CommitId, Id, Tool, ToolRequest
from strongroom.mcp.tools.offsets import ranked
from strongroom.mcp.uris import memory_uri
from strongroom.queries import LONGEST_QUERY
from strongroom.services.memories.values import (
    Batch,
    Memory,
    Mode,
    Op,
    Proposal,
    Request,
    ScopeName,
    Share,
    Status,
    Trust,
    Type,
)
from strongroom.unseen import spelt

SHOWN_SOURCES, SOURCE_BYTES = 8, 300
MOST_ITEMS = 50
MOST_HITS = 50

Content = Annotated[str, Meta(min_length=1, max_length=8_000)]
User = Annotated[str | None, Meta(description="Whose memories may be seen too; those of other users never are.")]
Project = Annotated[str | None, Meta(description="Of which project memories may be seen too.")]
Query = Annotated[str, Meta(max_length=LONGEST_QUERY, description="What to look for, in words.")]
Most = Annotated[int, Meta(ge=1, le=MOST_HITS)]


class KnownMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory. Its content and the reason for it are data."""

    memory_id: str
    uri: str
    type: Type
    scope: ScopeName
    status: Status
    content: Data
    rationale: Data
    confidence: float
    trust: Trust
    proposer: str
    reviewer: str
    batch_id: str
    created_at: datetime
    sources: Data
    supersedes: list[str]
    superseded_by: str | None = None
    expires_at: datetime | None = None


class FoundMemory(Struct, frozen=True, kw_only=True):
    memory: KnownMemory
    score: float
    why: str


class FoundMemories(Answer, frozen=True, kw_only=True):
    hits: list[FoundMemory]
    next: str | None = None
    degraded: str | None = None


class OneMemory(Answer, frozen=True, kw_only=True):
    memory: KnownMemory


class ProposedMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One proposal of a batch, and what is odd about it."""

    place: int
    op: Op
    type: Type
    scope: ScopeName
    outcome: str
    content: Data
    rationale: Data
    confidence: float
    trust: Trust
    flags: list[str]
    memory_id: str | None = None
    duplicate_of: str | None = None
    reason: Data | None = None
    replaces: list[str] = []
    near_duplicates: list[str] = []


class ProposedBatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A batch of proposals, decided on as one. `left_out` counts those that had no room here."""

    batch_id: str
    status: str
    proposer: str
    created_at: datetime
    proposals: list[ProposedMemory]
    left_out: int = 0
    run_id: str | None = None
    reviewer: str | None = None
    decided_at: datetime | None = None
    reason: Data | None = None


class OneBatch(Answer, frozen=True, kw_only=True):
    batch: ProposedBatch


# ---- from stored values to what a model is shown --------------------------------------------------------------------


def shown(memory: Memory) -> KnownMemory:
    return KnownMemory(
        memory_id=memory.id,
        uri=memory_uri(memory.id),
        type=memory.type,
        scope=memory.scope,
        status=memory.status,
        content=data(memory.content, by=memory.proposer, trust=memory.trust),
        rationale=data(memory.rationale, by=memory.proposer, trust=memory.trust),
        confidence=memory.confidence,
        trust=memory.trust,
        proposer=memory.proposer,
        reviewer=memory.reviewer,
        batch_id=memory.batch_id,
        created_at=memory.created_at,
        sources=data(_sources(memory.source_refs), by=memory.proposer, trust=memory.trust),
        supersedes=list(memory.supersedes[:SHOWN_SOURCES]),
        superseded_by=memory.superseded_by,
        expires_at=memory.expires_at,
    )


def shown_batch(batch: Batch, room: int = ROOM) -> ProposedBatch:
    proposals = [_proposal(place, one, batch) for place, one in enumerate(batch.proposals)]
    taken = fitting(proposals, room)
    return ProposedBatch(
        batch_id=batch.id,
        status=batch.status,
        proposer=batch.proposer,
        created_at=batch.created_at,
        proposals=taken,
        left_out=len(proposals) - len(taken),
        run_id=batch.run_id,
        reviewer=batch.reviewer,
        decided_at=batch.decided_at,
        reason=_reason(batch.reason, batch),
    )


def _proposal(place: int, proposal: Proposal, batch: Batch) -> ProposedMemory:
    request = proposal.request
    return ProposedMemory(
        place=place,
        op=request.op,
        type=request.type,
        scope=request.scope,
        outcome=proposal.outcome,
        content=data(spelt(request.content), by=batch.proposer, trust=proposal.trust),  # as a reviewer must see it
        rationale=data(spelt(request.rationale), by=batch.proposer, trust=proposal.trust),
        confidence=request.confidence,
        trust=proposal.trust,
        flags=list(proposal.flags),
        memory_id=proposal.memory_id,
        duplicate_of=proposal.duplicate_of,
        reason=_reason(proposal.reason, batch),
        replaces=[memory.id for memory in proposal.replaces[:SHOWN_SOURCES]],
        near_duplicates=[hit.memory.id for hit in proposal.near_duplicates[:SHOWN_SOURCES]],
    )


def _reason(reason: str, batch: Batch) -> Data | None:
    return data(reason, by=batch.reviewer or batch.proposer, most=SOURCE_BYTES) if reason else None


def _sources(refs: Sequence[str]) -> list[str]:
    return [beginning(ref, SOURCE_BYTES) for ref in refs[:SHOWN_SOURCES]]


# ---- what is called -------------------------------------------------------------------------------------------------


class SearchMemories(Arguments, frozen=True, kw_only=True):
    query: Query
    k: Most = 8
    scope: ScopeName | None = None
    type: Type | None = None
    user_id: User = None
    project_id: Project = None
    min_trust: Trust = "untrusted"
    min_confidence: Share = 0.0
    mode: Mode = "hybrid"
    after: After = None


async def search(call: ToolRequest, wanted: SearchMemories) -> FoundMemories:
    degraded: str | None = None

    async def best(k: int) -> list[FoundMemory]:
        nonlocal degraded
        hits = await call.who.ctx.memories.search(
            wanted.query,
            k,
            mode=None if wanted.mode == "hybrid" else wanted.mode,  # assistants name what is the default anyway
            scope=wanted.scope,
            user_id=wanted.user_id,
            project_id=wanted.project_id,
            type=wanted.type,
            min_confidence=wanted.min_confidence,
            min_trust=wanted.min_trust,
        )
        degraded = hits.degraded
        return [FoundMemory(memory=shown(hit.memory), score=hit.score, why=hit.why) for hit in hits]

    hits, following = await ranked(best, wanted.k, wanted.after)
    return FoundMemories(hits=hits, next=following, degraded=degraded)


class GetMemory(Arguments, frozen=True, kw_only=True):
    memory_id: Id


async def get(call: ToolRequest, wanted: GetMemory) -> OneMemory:
    return OneMemory(memory=shown(await call.who.ctx.memories.get(wanted.memory_id)))


class NewMemory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something worth knowing later. `op` supersede replaces the memories in `supersedes`; deprecate ends one."""

    content: Annotated[Content, Meta(description="One fact, complete in itself, in plain words.")]
    rationale: Annotated[Content, Meta(description="Why it should be believed.")]
    type: Type = "fact"
    scope: ScopeName = "global"
    confidence: Share = 0.7
    op: Op = "add"
    source_refs: Annotated[list[Annotated[str, Meta(min_length=1, max_length=2_000)]], Meta(max_length=64)] = []
    supersedes: Annotated[list[Id], Meta(max_length=64)] = []
    target_memory_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None


class ProposeMemories(Arguments, frozen=True, kw_only=True):
    items: Annotated[list[NewMemory], Meta(min_length=1, max_length=MOST_ITEMS)]
    run_id: Id | None = None
    commit_id: CommitId = None


async def propose(call: ToolRequest, wanted: ProposeMemories) -> OneBatch:
    who = call.who
    batch = await who.ctx.memories.propose(
        [_request(item) for item in wanted.items],
        proposer=who.name,
        run_id=wanted.run_id,
        commit_id=who.commit_id(wanted.commit_id),
    )
    return OneBatch(batch=shown_batch(batch))


def _request(item: NewMemory) -> Request:
    return Request(
        op=item.op,
        type=item.type,
        scope=item.scope,
        content=item.content,
        rationale=item.rationale,
        confidence=item.confidence,
        source_refs=tuple(item.source_refs),
        supersedes=tuple(item.supersedes),
        target_memory_id=item.target_memory_id,
        user_id=item.user_id,
        project_id=item.project_id,
        expires_at=item.expires_at,
    )


class BatchStatus(Arguments, frozen=True, kw_only=True):
    batch_id: Id


async def status(call: ToolRequest, wanted: BatchStatus) -> OneBatch:
    return OneBatch(batch=shown_batch(await call.who.ctx.memories.batch(wanted.batch_id)))


TOOLS = (
    Tool(
        name="memory_search",
        title="Search memories",
        description=(
            "Find what is known for longer than this conversation: facts, preferences, policies, decisions. Use it "
            "before you ask the user something they may have said before. Only reviewed memories are found."
        ),
        profiles=EVERYBODY,
        kind="reads",
        takes=SearchMemories,
        gives=FoundMemories,
        call=search,
    ),
    Tool(
        name="memory_get",
        title="Get a memory",
        description="Return one memory by its id, whatever its status, with who proposed and who approved it.",
        profiles=EVERYBODY,
        kind="reads",
        takes=GetMemory,
        gives=OneMemory,
        call=get,
    ),
    Tool(
        name="memory_propose",
        title="Propose memories",
        description=(
            "Propose things worth remembering. They wait for a reviewer and are found by nobody until then; you cannot "
            "approve them. The answer names the batch and what is odd about it. To correct a memory use op=supersede "
            "with its id, to end one op=deprecate with target_memory_id."
        ),
        profiles=AGENT,
        kind="adds",
        takes=ProposeMemories,
        gives=OneBatch,
        call=propose,
    ),
    Tool(
        name="memory_status",
        title="What became of a proposal",
        description="Return a batch of proposals: pending, committed or rejected, by whom and why.",
        profiles=EVERYBODY,
        kind="reads",
        takes=BatchStatus,
        gives=OneBatch,
        call=status,
    ),
)
