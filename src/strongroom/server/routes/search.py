"""One search over everything in a space: by id, or by words."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from strongroom.errors import Damaged, InvalidInput, NotFound, StrongroomError
from strongroom.queries import require_query
from strongroom.retrieval import unreadable
from strongroom.server.request import Request
from strongroom.server.responses import shortened
from strongroom.server.router import Endpoints
from strongroom.services.memories.keys import BATCH, load
from strongroom.services.memories.values import Batch
from strongroom.store import Scan
from strongroom.tokens.relevance import plain_text
from strongroom.values import Listing

endpoint = Endpoints("search")

RUNS = 200  # the newest ones, whose objectives are looked through
BATCHES = 100  # the newest ones that wait
_short = partial(shortened, most=300)

Kind = Literal["run", "session", "message", "memory", "batch", "thread", "file"]


class Anything(Struct, frozen=True):
    """Something that was found. `title` is what it says or is about, cut short; `session_id` is a message's, `place`
    says which of a batch's proposals it is."""

    kind: Kind
    id: str
    title: str
    why: str
    session_id: str | None = None
    place: int | None = None


Looked = tuple[list[Anything], str | None]  # what was found, and what could not be looked at


class Everything(Struct, frozen=True):
    """Ids that fit come first. `degraded` says what could not be searched."""

    hits: list[Anything]
    degraded: str | None = None


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(min_length=1)]
    k: Annotated[int, Meta(ge=1, le=50)] = 8  # of each kind


@endpoint("GET /search", "read", "Find anything by id or words")
async def search(request: Request[None, SearchQuery]) -> Everything:
    query, k = require_query(request.query.q).strip(), request.query.k
    degraded: list[str] = []
    hits = [hit for looked in _by_id(request, query) if (hit := await _found(looked, degraded)) is not None]
    for name, words in (
        ("runs", _runs),
        ("memories", _memories),
        ("proposals", _proposals),
        ("messages", _messages),
        ("files", _files),
    ):
        try:
            found, lacking = await words(request, query, k)
            hits += found
            degraded += [f"{name}: {lacking}"] if lacking else []
        except InvalidInput:
            pass  # nothing in it that could be a word
        except StrongroomError as problem:
            degraded.append(f"{name}: {problem}")
    once: dict[tuple[str, str, str | None, int | None], Anything] = {}
    for hit in hits:
        once.setdefault((hit.kind, hit.id, hit.session_id, hit.place), hit)
    return Everything(list(once.values()), "; ".join(degraded) or None)


def _by_id(request: Request[Any, Any], id: str) -> list[Awaitable[Anything | None]]:
    ctx = request.ctx

    async def run() -> Anything:
        return Anything("run", id, _short((await ctx.runs.get(id)).working_set.objective), "its id")

    async def session() -> Anything:
        return Anything("session", id, _short((await (await ctx.sessions.get(id)).info()).title or ""), "its id")

    async def memory() -> Anything:
        return Anything("memory", id, _short((await ctx.memories.get(id)).content), "its id")

    async def batch() -> Anything:
        return Anything("batch", id, f"proposed by {(await ctx.memories.batch(id)).proposer}", "its id")

    async def thread() -> Anything | None:
        length = await (await ctx.threads.get(id)).length()
        return Anything("thread", id, f"{length} messages", "its id") if length else None

    async def file() -> Anything:
        return Anything("file", id, _short((await ctx.files.read(id)).text), "its path")

    return [run(), session(), memory(), batch(), thread(), file()]


async def _found(looked: Awaitable[Anything | None], degraded: list[str]) -> Anything | None:
    try:
        return await looked
    except (NotFound, InvalidInput):
        return None
    except Damaged as damage:
        degraded.append(str(damage))
        return None


async def _runs(request: Request[Any, Any], query: str, k: int) -> Looked:
    words = query.casefold().split()
    newest = await request.fewer(RUNS, lambda limit: request.ctx.runs.list(limit=limit, reverse=True))
    fits = [run for run in newest if all(word in run.working_set.objective.casefold() for word in words)]
    hits = [Anything("run", run.id, _short(run.working_set.objective), "its objective") for run in fits[:k]]
    return hits, unreadable(newest.damaged)


async def _memories(request: Request[Any, Any], query: str, k: int) -> Looked:
    found = await request.fewer(k, lambda k: request.ctx.memories.search(query, k))
    hits = [Anything("memory", hit.memory.id, _short(hit.memory.content), hit.why) for hit in found]
    return hits, found.degraded


async def _proposals(request: Request[Any, Any], query: str, k: int) -> Looked:
    """Of those that wait, the newest: once decided, they are memories or nothing."""
    words, scope = query.casefold().split(), request.ctx.scope

    async def waiting(limit: int) -> Listing[Batch]:
        scan = Scan(scope.space, BATCH, {"status": "pending"}, limit=limit, reverse=True)
        return Listing(*await scope.listed(scan, lambda document: load(document, Batch)))

    newest = await request.fewer(BATCHES, waiting)
    hits = [
        Anything("batch", batch.id, _short(each.request.content), "what it proposes", place=place)
        for batch in newest
        for place, each in enumerate(batch.proposals)
        if all(word in each.request.content.casefold() for word in words)
    ]
    return hits[:k], unreadable(newest.damaged)


async def _messages(request: Request[Any, Any], query: str, k: int) -> Looked:
    found = await request.fewer(k, lambda k: request.ctx.sessions.search(query, k=k))
    hits = [Anything("message", hit.message_id, _short(_said(hit.message)), hit.why, hit.session_id) for hit in found]
    return hits, found.degraded


def _said(message: Mapping[str, Any]) -> Any:
    """Return the text of a message; of one without, what it has instead."""
    return plain_text(message) or message.get("content") or message.get("tool_calls") or dict(message)


async def _files(request: Request[Any, Any], query: str, k: int) -> Looked:
    found = await request.fewer(k, lambda k: request.ctx.files.search(query, k=k))
    return [Anything("file", hit.path, _short(hit.excerpt), hit.why) for hit in found], found.degraded
