"""Memories: propose through a run, review, commit, look, revoke.

A proposal that comes through a run is the run's, not the key's: the key's role decides who may commit it.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.server.operations import said
from strongroom.server.request import Limit, Request
from strongroom.server.router import Endpoints
from strongroom.services.memories.values import Batch, Change, Committed, Hit, Memory, MemoryRequest, Revoked, Trust

endpoint = Endpoints("memories")


class Proposed(Struct, frozen=True):
    ok: bool
    batch_id: str
    staged_count: int
    error: str | None = None


class NewProposal(Struct, frozen=True, forbid_unknown_fields=True):
    """Memory change requests, version 2.1. `scope_filters` fills in what the requests leave out."""

    mcrs: list[dict[str, Any]]
    scope_filters: dict[str, str] = {}


class OpenProposal(Struct, frozen=True, forbid_unknown_fields=True):
    """Memory change requests of a proposer. Names are for people; what a caller may do is the key's business."""

    requests: list[Any] | dict[str, Any]
    proposer: str | None = None
    run_id: str | None = None
    batch_id: str | None = None


class CommitBatch(Struct, frozen=True, forbid_unknown_fields=True):
    batch_id: str


class Done(Struct, frozen=True):
    ok: bool
    committed_ids: list[str]
    error: str | None = None


class Decision(Struct, frozen=True, forbid_unknown_fields=True):
    """`reject` leaves single proposals out: their places in the batch, each with a reason."""

    reject: dict[int, str] = {}
    reviewer: str | None = None
    run_id: str | None = None


class Rejection(Struct, frozen=True, forbid_unknown_fields=True):
    reason: str
    reviewer: str | None = None


class Revocation(Struct, frozen=True, forbid_unknown_fields=True):
    source_ref: str
    reason: str = ""
    by: str | None = None


class Sweep(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing to say."""


class BatchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    proposer: str | None = None
    after: str | None = None
    limit: Limit = 50


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: str
    k: Limit = 8
    mode: Literal["lexical", "vector", "hybrid"] = "hybrid"
    scope: Literal["user", "project", "global"] | None = None
    user_id: str | None = None
    project_id: str | None = None
    type: Literal["fact", "preference", "policy", "decision", "invariant"] | None = None
    min_confidence: float = 0.0
    min_trust: Trust = "untrusted"


class BatchPage(Struct, frozen=True):
    batches: list[Batch]
    next: str | None
    degraded: str | None = None


class HitPage(Struct, frozen=True):
    hits: list[Hit]
    degraded: str | None


class History(Struct, frozen=True):
    changes: list[Change]


@endpoint("POST /runs/{run_id}/memory/propose", "write", "Propose memories")
async def propose(request: Request[NewProposal, None]) -> Proposed:
    run = await request.ctx.runs.get(request.path_params["run_id"])
    batch = await request.ctx.memories.propose(
        _scoped(request.content), proposer=f"run:{run.id}", run_id=run.id, commit_id=request.commit_id
    )
    return Proposed(True, batch.id, len(batch.proposals))


@endpoint("POST /memories/propose", "write", "Propose memories without a run")
async def propose_alone(request: Request[OpenProposal, None]) -> Batch:
    wanted = request.content
    return await request.ctx.memories.propose(
        wanted.requests,  # type: ignore[arg-type]  # whatever is wrong with them is said there
        proposer=_name(request, wanted.proposer),
        run_id=wanted.run_id,
        batch_id=wanted.batch_id,
        commit_id=request.commit_id,
    )


@endpoint("POST /runs/{run_id}/memory/commit", "review", "Commit a batch of this run")
async def commit_for_run(request: Request[CommitBatch, None]) -> Done:
    done = await request.ctx.memories.commit(
        request.content.batch_id,
        reviewer=request.caller.name,
        run_id=request.path_params["run_id"],
        commit_id=request.commit_id,
    )
    return Done(True, list(done.memory_ids))


@endpoint("GET /memories/pending", "read", "What waits for review")
async def pending(request: Request[None, BatchQuery]) -> BatchPage:
    query = request.query
    found = await request.fewer(
        query.limit,
        lambda limit: request.ctx.memories.pending(proposer=query.proposer, after=query.after, limit=limit),
    )
    return BatchPage(list(found), found.next, found.degraded)


@endpoint("GET /memories/batches/{batch_id}", "read", "Get a batch")
async def get_batch(request: Request[None, None]) -> Batch:
    return await request.ctx.memories.batch(request.path_params["batch_id"])


@endpoint("POST /memories/batches/{batch_id}/commit", "review", "Commit a batch")
async def commit(request: Request[Decision, None]) -> Committed:
    wanted = request.content
    return await request.ctx.memories.commit(
        request.path_params["batch_id"],
        reviewer=_name(request, wanted.reviewer),
        run_id=wanted.run_id,
        reject=wanted.reject,
        commit_id=request.commit_id,
    )


@endpoint("POST /memories/batches/{batch_id}/reject", "review", "Reject a batch")
async def reject(request: Request[Rejection, None]) -> Batch:
    return await request.ctx.memories.reject(
        request.path_params["batch_id"],
        reason=request.content.reason,
        reviewer=_name(request, request.content.reviewer),
        commit_id=request.commit_id,
    )


@endpoint("GET /memories/search", "read", "Search memories")
async def search(request: Request[None, SearchQuery]) -> HitPage:
    query = request.query
    found = await request.fewer(
        query.k,
        lambda k: request.ctx.memories.search(
            query.q,
            k,
            mode=query.mode,
            scope=query.scope,
            user_id=query.user_id,
            project_id=query.project_id,
            type=query.type,
            min_confidence=query.min_confidence,
            min_trust=query.min_trust,
        ),
    )
    return HitPage(list(found), found.degraded)


@endpoint("GET /memories/{memory_id}", "read", "Get a memory")
async def get(request: Request[None, None]) -> Memory:
    return await request.ctx.memories.get(request.path_params["memory_id"])


@endpoint("GET /memories/{memory_id}/history", "read", "How a memory came about")
async def history(request: Request[None, None]) -> History:
    return History(list(await request.ctx.memories.history(request.path_params["memory_id"])))


@endpoint("POST /memories/revoke", "review", "Stop believing a source")
async def revoke(request: Request[Revocation, None]) -> Revoked:
    wanted = request.content
    return await request.ctx.memories.revoke(
        source_ref=wanted.source_ref, by=_name(request, wanted.by), reason=wanted.reason, commit_id=request.commit_id
    )


@endpoint("POST /memories/sweep", "review", "Retire what has expired")
async def sweep(request: Request[Sweep, None]) -> int:
    return await request.ctx.memories.sweep(commit_id=request.commit_id)


def _name(request: Request[Any, Any], given: str | None) -> str:
    """Who is recorded: the key, and after it the person behind it, if the caller says who that is."""
    return said(request.caller, given)


def _scoped(proposal: NewProposal) -> list[MemoryRequest]:
    unknown = proposal.scope_filters.keys() - {"user_id", "project_id", "scope"}
    if unknown:
        raise InvalidInput(f"unknown scope filter {sorted(unknown)[0]!r:.60}; nothing changed", path="scope_filters")
    return [cast("MemoryRequest", {**proposal.scope_filters, **mcr}) for mcr in proposal.mcrs]
