"""Memories: look, search, and see what waits and where it came from. `memory_writes.py` has what changes them."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strongroom.errors import InvalidInput, NotFound
from strongroom.server.request import Limit, Request
from strongroom.server.router import Endpoints
from strongroom.server.routes.sessions import MessageView, view_of
from strongroom.services.memories.lens import Filters
from strongroom.services.memories.values import Batch, Change, Hit, Memory, Revoked, Trust

endpoint = Endpoints("memories")

AROUND = 2  # messages shown before and after the one that is a source


class BatchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    proposer: str | None = None
    after: str | None = None
    limit: Limit = 50


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: str
    k: Limit = 8
    mode: Literal["lexical", "vector", "hybrid"] | None = None
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
    degraded: str | None = None


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
    return MemoryPage(list(found), found.next, found.degraded)


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
    found, degraded = await request.best(
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
    return HitPage(list(found), degraded)


@endpoint("GET /memories/{memory_id}", "read", "Get a memory")
async def get(request: Request[None, None]) -> Memory:
    return await request.ctx.memories.get(request.path_params["memory_id"])


@endpoint("GET /memories/{memory_id}/history", "read", "How a memory came about")
async def history(request: Request[None, None]) -> History:
    return History(list(await request.ctx.memories.history(request.path_params["memory_id"])))


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


def _tags(tag: str | None) -> list[str]:
    return [] if tag is None else [tag]


def _where(text: str | None) -> dict[str, Any] | None:
    """Read a condition, which a query can only hold as text."""
    try:
        return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise InvalidInput(f"where is a condition as JSON, not {text!r:.60}", path="where") from None
