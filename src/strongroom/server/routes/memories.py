"""Memories: propose through a run, review, commit, look, revoke.

A proposal that comes through a run is the run's, not the key's: the key's role decides who may commit it.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.server.endpoint import Call, Endpoint, Limit, Nothing
from strongroom.server.operations import said
from strongroom.services.memories.values import Batch, Change, Committed, Hit, Memory, MemoryRequest, Revoked, Trust


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


async def propose(call: Call[NewProposal, Nothing]) -> Proposed:
    run = await call.ctx.runs.get(call.path["run_id"])
    batch = await call.ctx.memories.propose(
        _scoped(call.body), proposer=f"run:{run.id}", run_id=run.id, commit_id=call.commit_id
    )
    return Proposed(True, batch.id, len(batch.proposals))


async def propose_alone(call: Call[OpenProposal, Nothing]) -> Batch:
    wanted = call.body
    return await call.ctx.memories.propose(
        wanted.requests,  # type: ignore[arg-type]  # whatever is wrong with them is said there
        proposer=_name(call, wanted.proposer),
        run_id=wanted.run_id,
        batch_id=wanted.batch_id,
        commit_id=call.commit_id,
    )


async def commit_for_run(call: Call[CommitBatch, Nothing]) -> Done:
    done = await call.ctx.memories.commit(
        call.body.batch_id, reviewer=call.caller.name, run_id=call.path["run_id"], commit_id=call.commit_id
    )
    return Done(True, list(done.memory_ids))


async def pending(call: Call[None, BatchQuery]) -> BatchPage:
    query = call.query
    found = await call.fewer(
        query.limit,
        lambda limit: call.ctx.memories.pending(proposer=query.proposer, after=query.after, limit=limit),
    )
    return BatchPage(list(found), found.next, found.degraded)


async def get_batch(call: Call[None, Nothing]) -> Batch:
    return await call.ctx.memories.batch(call.path["batch_id"])


async def commit(call: Call[Decision, Nothing]) -> Committed:
    wanted = call.body
    return await call.ctx.memories.commit(
        call.path["batch_id"],
        reviewer=_name(call, wanted.reviewer),
        run_id=wanted.run_id,
        reject=wanted.reject,
        commit_id=call.commit_id,
    )


async def reject(call: Call[Rejection, Nothing]) -> Batch:
    return await call.ctx.memories.reject(
        call.path["batch_id"],
        reason=call.body.reason,
        reviewer=_name(call, call.body.reviewer),
        commit_id=call.commit_id,
    )


async def search(call: Call[None, SearchQuery]) -> HitPage:
    query = call.query
    found = await call.fewer(
        query.k,
        lambda k: call.ctx.memories.search(
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


async def get(call: Call[None, Nothing]) -> Memory:
    return await call.ctx.memories.get(call.path["memory_id"])


async def history(call: Call[None, Nothing]) -> History:
    return History(list(await call.ctx.memories.history(call.path["memory_id"])))


async def revoke(call: Call[Revocation, Nothing]) -> Revoked:
    wanted = call.body
    return await call.ctx.memories.revoke(
        source_ref=wanted.source_ref, by=_name(call, wanted.by), reason=wanted.reason, commit_id=call.commit_id
    )


async def sweep(call: Call[Sweep, Nothing]) -> int:
    return await call.ctx.memories.sweep(commit_id=call.commit_id)


def _name(call: Call[Any, Any], given: str | None) -> str:
    """Who is recorded: the key, and after it the person behind it, if the caller says who that is."""
    return said(call.caller, given)


def _scoped(proposal: NewProposal) -> list[MemoryRequest]:
    unknown = proposal.scope_filters.keys() - {"user_id", "project_id", "scope"}
    if unknown:
        raise InvalidInput(f"unknown scope filter {sorted(unknown)[0]!r:.60}; nothing changed", path="scope_filters")
    return [cast("MemoryRequest", {**proposal.scope_filters, **mcr}) for mcr in proposal.mcrs]


def _endpoint(method: str, path: str, call: Any, right: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(method=method, path=path, call=call, right=right, summary=summary, group="memories", **more)


RUN = "/runs/{run_id}/memory"
ENDPOINTS = (
    _endpoint(
        "POST", f"{RUN}/propose", propose, "write", "Propose memories", body=NewProposal, answer=Proposed
    ),
    _endpoint(
        "POST", f"{RUN}/commit", commit_for_run, "review", "Commit a batch of this run", body=CommitBatch, answer=Done,
    ),
    _endpoint(
        "POST", "/memories/propose", propose_alone, "write", "Propose memories without a run", body=OpenProposal,
        answer=Batch
    ),
    _endpoint("GET", "/memories/pending", pending, "read", "What waits for review", query=BatchQuery, answer=BatchPage),
    _endpoint("GET", "/memories/batches/{batch_id}", get_batch, "read", "Get a batch", answer=Batch),
    _endpoint(
        "POST", "/memories/batches/{batch_id}/commit", commit, "review", "Commit a batch", body=Decision,
        answer=Committed
    ),
    _endpoint(
        "POST", "/memories/batches/{batch_id}/reject", reject, "review", "Reject a batch", body=Rejection, answer=Batch,
    ),
    _endpoint("GET", "/memories/search", search, "read", "Search memories", query=SearchQuery, answer=HitPage),
    _endpoint(
        "POST", "/memories/revoke", revoke, "review", "Stop believing a source", body=Revocation, answer=Revoked,
    ),
    _endpoint(
        "POST", "/memories/sweep", sweep, "review", "Retire what has expired", body=Sweep, answer=int
    ),
    _endpoint("GET", "/memories/{memory_id}", get, "read", "Get a memory", answer=Memory),
    _endpoint("GET", "/memories/{memory_id}/history", history, "read", "How a memory came about", answer=History),
)  # fmt: skip
