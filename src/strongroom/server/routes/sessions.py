"""Sessions: conversations under a token budget."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from strongroom.server.paths import require_free
from strongroom.server.request import Limit, Natural, Request
from strongroom.server.responses import reply
from strongroom.server.router import Endpoints
from strongroom.server.sse import LOOK_SECONDS, Shown, Stream, last_seen
from strongroom.server.versions import tag
from strongroom.services.sessions.begun import append_to
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import MESSAGE
from strongroom.services.sessions.values import Cut, ErasedMessages, Message, SessionInfo
from strongroom.services.sessions.values import Hits as SessionHits
from strongroom.store import Range
from strongroom.tokens.windows import Window
from strongroom.values import Listing

endpoint = Endpoints("sessions")

PAGE = 200
TAKEN = frozenset({"search"})  # what stands where an id would: see `paths`
Tokens = Annotated[int, Meta(ge=0, le=10_000_000)]  # more than any model reads, less than what fills a server


class MessageView(Struct, frozen=True):
    """A message, and beside it what the store knows."""

    id: str
    index: int
    at: datetime
    tokens: int
    message: dict[str, Any]
    sidecar: Any = None


class NewSession(Struct, frozen=True, forbid_unknown_fields=True):
    id: str | None = None
    user_id: str | None = None
    tokenizer: str | None = None
    title: str | None = None
    metadata: dict[str, Any] = {}


class NewMessages(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages, or one alone."""

    messages: list[dict[str, Any]] | dict[str, Any]
    sidecars: list[Any] | None = None
    ids: Literal["unique", "repeat"] = "unique"
    expected_revision: str | None = None


class Messages(Struct, frozen=True):
    messages: list[MessageView]
    next: str | None = None


class SessionPage(Struct, frozen=True):
    """`damaged` names what belongs on the page and cannot be read."""

    sessions: list[SessionInfo]
    next: str | None
    damaged: tuple[str, ...] = ()


class WindowView(Struct, frozen=True):
    messages: list[MessageView]
    total_tokens: int
    approximate: bool
    receipt: Any


class HitView(Struct, frozen=True):
    message_id: str
    session_id: str
    score: float
    why: str
    message: MessageView


class Hits(Struct, frozen=True):
    hits: list[HitView]
    degraded: str | None = None


class Truncation(Struct, frozen=True, forbid_unknown_fields=True):
    message_id: str


class Erasing(Struct, frozen=True, forbid_unknown_fields=True):
    """The messages named, and all that came before one of them; or `all`, which leaves nothing of the session."""

    message_ids: list[str] = []
    before: str | None = None
    all: bool = False


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    user_id: str | None = None
    after: str | None = None
    limit: Limit = 50
    reverse: bool = False


class LoadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`k` asks for the newest ones; without it, a page from `after` on."""

    k: Limit | None = None
    after: str | None = None
    limit: Limit = 100
    reverse: bool = False


class WindowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    max_tokens: Tokens
    strategy: Literal["truncate_oldest", "recent_only", "priority", "relevant"] = "truncate_oldest"
    q: str | None = None
    reserve_tokens: Natural = 0


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: str
    k: Limit = 5


class FollowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: Natural | None = None


@endpoint("POST /sessions", "write", "Open a session")
async def open_session(request: Request[NewSession, None]) -> SessionInfo:
    wanted = request.content
    require_free(wanted.id, TAKEN, "the id of a session")
    session = await request.ctx.sessions.open(
        wanted.id,
        user_id=wanted.user_id,
        tokenizer=wanted.tokenizer,
        title=wanted.title,
        metadata=wanted.metadata,
        commit_id=request.commit_id,
    )
    return await session.info()


@endpoint("GET /sessions", "read", "List sessions")
async def list_sessions(request: Request[None, ListQuery]) -> SessionPage:
    query = request.query
    found = await request.fewer(
        query.limit,
        lambda limit: request.ctx.sessions.list(
            user_id=query.user_id, after=query.after, limit=limit, reverse=query.reverse
        ),
    )
    return SessionPage(list(found), found.next, found.damaged)


@endpoint("GET /sessions/search", "read", "Search all sessions")
async def search_all(request: Request[None, SearchQuery]) -> Hits:
    query = request.query
    return _hits(*await request.best(query.k, lambda k: request.ctx.sessions.search(query.q, k=k)))


@endpoint("GET /sessions/{session_id}", "read", "About a session", answer=SessionInfo)
async def info(request: Request[None, None]) -> Response:
    found = await (await _session(request)).info()
    return reply(found, headers=tag(found.revision))


@endpoint("POST /sessions/{session_id}/messages", "write", "Append messages")
async def append(request: Request[NewMessages, None]) -> Messages:
    id = request.path_params["session_id"]
    if id in TAKEN:  # found if somebody made it, and never made here
        await _session(request)
    return Messages([view_of(message) for message in await append_to(request.ctx.sessions, id, **_new(request))])


@endpoint("PUT /sessions/{session_id}/messages", "write", "Replace messages")
async def replace(request: Request[NewMessages, None]) -> Messages:
    return Messages([view_of(message) for message in await (await _session(request)).replace(**_new(request))])


def _new(request: Request[NewMessages, None]) -> dict[str, Any]:
    given = request.content.messages
    messages = [given] if isinstance(given, dict) else given
    return msgspec.structs.asdict(request.content) | {"messages": messages, "commit_id": request.commit_id}


@endpoint("GET /sessions/{session_id}/messages", "read", "Read messages")
async def load(request: Request[None, LoadQuery]) -> Messages:
    session, query = await _session(request), request.query
    if query.k is not None:
        newest = await request.fewer(query.k, lambda k: session.page(limit=k, reverse=True))
        return Messages([view_of(message) for message in newest], newest.next if len(newest) < query.k else None)
    page = await request.fewer(
        query.limit, lambda limit: session.page(after=query.after, limit=limit, reverse=query.reverse)
    )
    return Messages([view_of(message) for message in page], page.next)


@endpoint("GET /sessions/{session_id}/window", "read", "A window that fits")
async def window(request: Request[None, WindowQuery]) -> WindowView:
    query = request.query
    made: Window = await (await _session(request)).window(
        max_tokens=query.max_tokens, strategy=query.strategy, query=query.q, reserve_tokens=query.reserve_tokens
    )
    messages = [view_of(message) for message in made.messages if isinstance(message, Message)]
    return WindowView(messages, made.total_tokens, made.approximate, made.receipt)


@endpoint("GET /sessions/{session_id}/search", "read", "Search a session")
async def search(request: Request[None, SearchQuery]) -> Hits:
    session, query = await _session(request), request.query
    return _hits(*await request.best(query.k, lambda k: session.search(query.q, k=k)))


@endpoint("POST /sessions/{session_id}/truncate", "write", "Hide from a message on")
async def truncate(request: Request[Truncation, None]) -> Cut:
    return await (await _session(request)).truncate_from(request.content.message_id, commit_id=request.commit_id)


@endpoint("POST /sessions/{session_id}/restore", "write", "Undo the last truncation")
async def restore(request: Request[None, None]) -> Cut:
    return await (await _session(request)).restore(commit_id=request.commit_id)


@endpoint("POST /sessions/{session_id}/erase", "admin", "Leave nothing of messages, or of a session")
async def erase(request: Request[Erasing, None]) -> ErasedMessages:
    wanted = request.content
    session = await request.ctx.sessions._handle(request.path_params["session_id"])  # gone, if this is a repeat
    return await session.erase(wanted.message_ids, before=wanted.before, all=wanted.all, commit_id=request.commit_id)


@endpoint("DELETE /sessions/{session_id}", "write", "Delete a session")
async def delete(request: Request[None, None]) -> dict[str, bool]:
    await request.ctx.sessions.delete(request.path_params["session_id"], commit_id=request.commit_id)
    return {"ok": True}


@endpoint("GET /sessions/{session_id}/follow", "read", "Messages as they come", media="text/event-stream")
async def follow(request: Request[None, FollowQuery]) -> Stream:
    """Send visible messages as they arrive. The id of each is its index."""
    session = await _session(request)
    after = last_seen(request, request.query.after)
    store: Any = request.ctx.store
    key = request.ctx.scope.key(MESSAGE, session.id)

    async def shown() -> Shown:
        start = 0 if after is None else after + 1
        while True:
            [end] = await store.read([Range(key, 0, 0)])
            page = await request.fewer(PAGE, partial(_page, session, str(start)))
            for message in page:
                yield message.index, "message", view_of(message)
                start = message.index + 1
            if page.next is None:
                start = max(start, end.length)
                await store.wait(key, start, LOOK_SECONDS)

    return Stream(request, shown())


async def _page(session: AsyncSession, after: str, limit: int) -> Listing[Message]:
    return await session.page(after=after, limit=limit)


async def _session(request: Request[Any, Any]) -> AsyncSession:
    return await request.ctx.sessions.get(request.path_params["session_id"])


def view_of(message: Message) -> MessageView:
    return MessageView(message.id, message.index, message.at, message.tokens, dict(message), message.sidecar)


def _hits(found: SessionHits, degraded: str | None) -> Hits:
    hits = [HitView(hit.message_id, hit.session_id, hit.score, hit.why, view_of(hit.message)) for hit in found]
    return Hits(hits, degraded)
