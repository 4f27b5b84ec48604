"""What changes memories: propose, through a run or without, review, write in one line, revoke, erase.

A proposal that comes through a run is the run's, not the key's: the key's role decides who may commit it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.server.operations import said
from strongroom.server.paths import require_free
from strongroom.server.request import Request
from strongroom.server.router import Endpoints
from strongroom.services.memories.values import (
    Batch,
    Committed,
    Erased,
    MemoryRequest,
    Revoked,
    ScopeName,
    Type,
    Written,
)
from strongroom.services.person import ErasedPerson

endpoint = Endpoints("memories")

TAKEN = frozenset({"batches", "pending", "search", "sources"})  # what stands where an id would: see `paths`
OF_A_MEMORY = "the id of a memory"


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
    """`reject` leaves single proposals out: their places in the batch, each with a reason. `edit` accepts single
    proposals in other words: their places, each with the content that becomes known."""

    reject: dict[int, str] = {}
    edit: dict[int, str] = {}
    reviewer: str | None = None
    run_id: str | None = None


class Rejection(Struct, frozen=True, forbid_unknown_fields=True):
    reason: str
    reviewer: str | None = None


class Revocation(Struct, frozen=True, forbid_unknown_fields=True):
    source_ref: str
    reason: str = ""
    by: str | None = None


class NewMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """A memory in one line. Known at once if the policy lets this key, else it waits for a review."""

    content: str
    type: Type = "fact"
    scope: ScopeName | None = None
    user_id: str | None = None
    project_id: str | None = None
    confidence: float | None = None
    rationale: str | None = None
    source_refs: list[str] = []
    tags: list[str] = []
    metadata: dict[str, str | int | float | bool | None] = {}
    happened_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None
    memory_id: str | None = None
    proposer: str | None = None


class MemoryUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """What a memory is replaced by. What is not given stays as it was."""

    content: str
    rationale: str | None = None
    confidence: float | None = None
    tags: list[str] | None = None
    metadata: dict[str, str | int | float | bool | None] | None = None
    happened_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None
    proposer: str | None = None


class DeleteMemory(Struct, frozen=True, forbid_unknown_fields=True):
    reason: str | None = None
    proposer: str | None = None


class ErasePerson(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything of one user: memories, sessions, and what was learnt from those."""

    user_id: str
    by: str = ""
    reason: str = ""


class EraseMemories(Struct, frozen=True, forbid_unknown_fields=True):
    """One of these, or a user in a project. `derived` takes along what was made from it."""

    memory_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    source_ref: str | None = None
    derived: bool = False
    reason: str = ""
    by: str | None = None


class Sweep(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing to say."""


@endpoint("POST /runs/{run_id}/memory/propose", "write", "Propose memories")
async def propose(request: Request[NewProposal, None]) -> Proposed:
    run = await request.ctx.runs.get(request.path_params["run_id"])
    _require_free(request.content.mcrs)
    batch = await request.ctx.memories.propose(
        _scoped(request.content), proposer=f"run:{run.id}", run_id=run.id, commit_id=request.commit_id
    )
    return Proposed(True, batch.id, len(batch.proposals))


@endpoint("POST /memories", "write", "Remember something in one line")
async def add(request: Request[NewMemory, None]) -> Written:
    require_free(request.content.memory_id, TAKEN, OF_A_MEMORY)
    given = {name: getattr(request.content, name) for name in NewMemory.__struct_fields__}
    given["proposer"] = _author(request, request.content.proposer)
    return await request.ctx.memories.add(**given, commit_id=request.commit_id)


@endpoint("PATCH /memories/{memory_id}", "write", "Replace a memory")
async def update(request: Request[MemoryUpdate, None]) -> Written:
    given = {name: getattr(request.content, name) for name in MemoryUpdate.__struct_fields__}
    given["proposer"] = _author(request, request.content.proposer)
    return await request.ctx.memories.update(request.path_params["memory_id"], **given, commit_id=request.commit_id)


@endpoint("POST /memories/{memory_id}/delete", "write", "Stop finding a memory")
async def delete(request: Request[DeleteMemory, None]) -> Written:
    return await request.ctx.memories.delete(
        request.path_params["memory_id"],
        reason=request.content.reason,
        proposer=_author(request, request.content.proposer),
        commit_id=request.commit_id,
    )


@endpoint("POST /memories/erase", "admin", "Leave nothing of memories")
async def erase(request: Request[EraseMemories, None]) -> Erased:
    wanted = request.content
    return await request.ctx.memories.erase(
        memory_id=wanted.memory_id,
        user_id=wanted.user_id,
        project_id=wanted.project_id,
        source_ref=wanted.source_ref,
        derived=wanted.derived,
        reason=wanted.reason,
        by=_name(request, wanted.by),
        commit_id=request.commit_id,
    )


@endpoint("POST /people/erase", "admin", "Leave nothing of a person")
async def erase_person(request: Request[ErasePerson, None]) -> ErasedPerson:
    wanted = request.content
    return await request.ctx.erase(
        user_id=wanted.user_id, reason=wanted.reason, by=_name(request, wanted.by), commit_id=request.commit_id
    )


@endpoint("POST /memories/propose", "write", "Propose memories without a run")
async def propose_alone(request: Request[OpenProposal, None]) -> Batch:
    wanted = request.content
    _require_free(wanted.requests if isinstance(wanted.requests, list) else [wanted.requests])
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
    # What is known already is told by the memory that says so: who runs this twice gets an id each time.
    return Done(True, [*done.memory_ids, *done.duplicate_ids])


@endpoint("POST /memories/batches/{batch_id}/commit", "review", "Commit a batch")
async def commit(request: Request[Decision, None]) -> Committed:
    wanted = request.content
    return await request.ctx.memories.commit(
        request.path_params["batch_id"],
        reviewer=_name(request, wanted.reviewer),
        run_id=wanted.run_id,
        reject=wanted.reject,
        edit=wanted.edit,
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


def _author(request: Request[Any, Any], given: str | None) -> str | None:
    """Who proposes in one line: an administrator who names nobody is the program itself, which needs no review."""
    return None if given is None and request.caller.may("admin") else _name(request, given)


def _require_free(requests: list[Any]) -> None:
    for each in requests:
        id = each.get("memory_id") if isinstance(each, dict) else None
        require_free(id if isinstance(id, str) else None, TAKEN, OF_A_MEMORY)


def _scoped(proposal: NewProposal) -> list[MemoryRequest]:
    unknown = proposal.scope_filters.keys() - {"user_id", "project_id", "scope"}
    if unknown:
        raise InvalidInput(f"unknown scope filter {sorted(unknown)[0]!r:.60}; nothing changed", path="scope_filters")
    return [cast("MemoryRequest", {**proposal.scope_filters, **mcr}) for mcr in proposal.mcrs]
