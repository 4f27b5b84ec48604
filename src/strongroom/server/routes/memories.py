"""Memories: propose through a run, review, commit, look, revoke.

A proposal that comes through a run is the run's, not the key's: the key's role decides who may commit it.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strongroom.errors import InvalidInput, NotFound
from strongroom.server.operations import said
from strongroom.server.request import Limit, Request
from strongroom.server.router import Endpoints
from strongroom.server.routes.sessions import MessageView, view_of
from strongroom.services.memories.search import Filters
from strongroom.services.memories.values import (
    Batch,
    Change,
    Committed,
    Erased,
    Hit,
    Memory,
    MemoryRequest,
    Revoked,
    ScopeName,
    Trust,
    Type,
    Written,
)
from strongroom.services.person import ErasedPerson

endpoint = Endpoints("memories")

AROUND = 2  # messages shown before and after the one that is a source


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
    tag: str | None = None
    where: str | None = None
    as_of: datetime | None = None
    happened_after: datetime | None = None
    happened_before: datetime | None = None


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`status=any` lists all, whatever became of them; `everyone` across owners: a filter, no right. `where` is a
    condition as JSON. `as_of` keeps what was so at that instant; `known_at` lists what was known then, whatever became
    of it since, and takes no `status`.
    """

    status: Literal["active", "superseded", "deprecated", "expired", "revoked", "erased", "any"] = "active"
    tag: str | None = None
    where: str | None = None
    everyone: bool = False
    after: str | None = None
    limit: Limit = 50
    scope: Literal["user", "project", "global"] | None = None
    user_id: str | None = None
    project_id: str | None = None
    type: Literal["fact", "preference", "policy", "decision", "invariant"] | None = None
    min_trust: Trust = "untrusted"
    as_of: datetime | None = None
    known_at: datetime | None = None


class MemoryPage(Struct, frozen=True):
    memories: list[Memory]
    next: str | None


class PreviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    source_ref: Annotated[str, Meta(min_length=1)]
    limit: Limit = 1000


class Falling(Struct, frozen=True):
    """What revoking the source would end. `complete` is false if there is more."""

    source_ref: str
    memories: list[Memory]
    complete: bool


class SourcesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    ref: Annotated[tuple[str, ...], Meta(min_length=1, max_length=20)]


class Source(Struct, frozen=True):
    """What a source is: a memory, with its trust; a message (`session#message`), with those around it; or anything.

    `left_out`: it may be a message, for which there was no room. Ask for it alone.
    """

    ref: str
    kind: Literal["memory", "message", "other"]
    trust: Trust | None = None
    revoked: Revoked | None = None
    memory: Memory | None = None
    session_id: str | None = None
    message_id: str | None = None
    messages: list[MessageView] = []
    left_out: bool = False


class Sources(Struct, frozen=True):
    sources: list[Source]


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


@endpoint("POST /memories", "write", "Remember something in one line")
async def add(request: Request[NewMemory, None]) -> Written:
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


@endpoint("GET /memories", "read", "List memories")
async def list_memories(request: Request[None, ListQuery]) -> MemoryPage:
    """List what is known: what is everybody's, and what is of whom the filters name."""
    query = request.query
    filters: Filters = {
        "scope": query.scope,
        "user_id": query.user_id,
        "project_id": query.project_id,
        "type": query.type,
        "min_trust": query.min_trust,
        "tags": _tags(query.tag),
        "where": _where(query.where),
        "as_of": query.as_of,
    }
    if query.known_at is None:
        status = None if query.status == "any" else query.status
        ask = partial(request.ctx.memories.list, status=status)
    elif query.status == "active":
        ask = partial(request.ctx.memories.at, query.known_at)
    else:
        raise InvalidInput("what was known then was active then: known_at takes no status", path="status")
    found = await request.fewer(
        query.limit, lambda limit: ask(after=query.after, limit=limit, everyone=query.everyone, **filters)
    )
    return MemoryPage(list(found), found.next)


@endpoint("GET /memories/revoke/preview", "read", "What would fall with a source")
async def preview(request: Request[None, PreviewQuery]) -> Falling:
    query = request.query
    found = await request.fewer(
        query.limit, lambda limit: request.ctx.memories.would_revoke(source_ref=query.source_ref, limit=limit)
    )
    return Falling(query.source_ref, list(found), found.degraded is None)


@endpoint("GET /memories/sources", "read", "Where proposals and memories come from")
async def sources(request: Request[None, SourcesQuery]) -> Sources:
    """Tell of all of them; messages of the first ones alone if they do not fit into one answer together."""
    refs = request.query.ref

    async def ask(limit: int) -> Sources:
        return Sources([await _source(request, ref, look=place < limit) for place, ref in enumerate(refs)])

    return await request.fewer(len(refs), ask)


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
            tags=_tags(query.tag),
            where=_where(query.where),
            as_of=query.as_of,
            happened_after=query.happened_after,
            happened_before=query.happened_before,
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


async def _source(request: Request[Any, Any], ref: str, *, look: bool) -> Source:
    """Find out what a source names, if it is anything of this space; `look` for messages too."""
    memories = request.ctx.memories
    found = Source(ref, "other", revoked=await memories.revocation(ref))
    try:
        memory = await memories.get(ref)
        return replace(found, kind="memory", memory=memory, trust=memory.trust)
    except (NotFound, InvalidInput):
        pass
    session_id, _, place = ref.rpartition("#")
    if not session_id or not place:
        return found
    if not look:
        return replace(found, left_out=True)
    try:
        session = await request.ctx.sessions.get(session_id)
        index = int(place) if place.isdecimal() and len(place) < 16 else (await session.get(place)).index
        around = await session.page(after=str(max(0, index - AROUND)), limit=2 * AROUND + 1)
    except (NotFound, InvalidInput):
        return found
    named = next((message.id for message in around if message.index == index), None)
    if named is None:
        return found
    return replace(
        found, kind="message", session_id=session_id, message_id=named, messages=[view_of(each) for each in around]
    )


def _name(request: Request[Any, Any], given: str | None) -> str:
    """Who is recorded: the key, and after it the person behind it, if the caller says who that is."""
    return said(request.caller, given)


def _author(request: Request[Any, Any], given: str | None) -> str | None:
    """Who proposes in one line: an administrator who names nobody is the program itself, which needs no review."""
    return None if given is None and request.caller.may("admin") else _name(request, given)


def _tags(tag: str | None) -> list[str]:
    return [] if tag is None else [tag]


def _where(text: str | None) -> dict[str, Any] | None:
    """Read a condition, which a query can only hold as text."""
    try:
        return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise InvalidInput(f"where is a condition as JSON, not {text!r:.60}", path="where") from None


def _scoped(proposal: NewProposal) -> list[MemoryRequest]:
    unknown = proposal.scope_filters.keys() - {"user_id", "project_id", "scope"}
    if unknown:
        raise InvalidInput(f"unknown scope filter {sorted(unknown)[0]!r:.60}; nothing changed", path="scope_filters")
    return [cast("MemoryRequest", {**proposal.scope_filters, **mcr}) for mcr in proposal.mcrs]
