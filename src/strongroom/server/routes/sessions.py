"""Sessions: conversations under a token budget."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from strongroom.operations import is_ours
from strongroom.server.endpoint import Call, Endpoint, Limit, Natural, Nothing
from strongroom.server.sse import HEARTBEAT_SECONDS, Shown, last_seen, stream
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import MESSAGE
from strongroom.services.sessions.values import Cut, Message, SessionInfo
from strongroom.services.sessions.values import Hits as Found
from strongroom.store import Range
from strongroom.tokens.windows import Window
from strongroom.values import Listing

PAGE = 200
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
    tokenizer: str | None = None
    title: str | None = None
    metadata: dict[str, Any] = {}


class NewMessages(Struct, frozen=True, forbid_unknown_fields=True):
    messages: list[dict[str, Any]]
    sidecars: list[Any] | None = None
    ids: Literal["unique", "repeat"] = "unique"
    expected_revision: str | None = None


class Messages(Struct, frozen=True):
    messages: list[MessageView]
    next: str | None = None


class SessionPage(Struct, frozen=True):
    """`damaged` names what belongs on the page and can not be read."""

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


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
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


async def open_session(call: Call[NewSession, Nothing]) -> SessionInfo:
    wanted = call.body
    session = await call.ctx.sessions.open(
        wanted.id,
        tokenizer=wanted.tokenizer,
        title=wanted.title,
        metadata=wanted.metadata,
        commit_id=call.commit_id,
    )
    return await session.info()


async def list_sessions(call: Call[None, ListQuery]) -> SessionPage:
    query = call.query
    found = await call.fewer(
        query.limit, lambda limit: call.ctx.sessions.list(after=query.after, limit=limit, reverse=query.reverse)
    )
    return SessionPage(list(found), found.next, found.damaged)


async def info(call: Call[None, Nothing]) -> SessionInfo:
    return await (await _session(call)).info()


async def append(call: Call[NewMessages, Nothing]) -> Messages:
    # The key stands for both, so that a repeat does not open anew what was deleted since; an id of ours for one alone.
    key = call.commit_id
    session = await call.ctx.sessions.open(
        call.path["session_id"], commit_id=None if key is None or is_ours(key) else key
    )
    return Messages([_view(message) for message in await session.append(**_new(call))])


async def replace(call: Call[NewMessages, Nothing]) -> Messages:
    return Messages([_view(message) for message in await (await _session(call)).replace(**_new(call))])


def _new(call: Call[NewMessages, Nothing]) -> dict[str, Any]:
    return msgspec.structs.asdict(call.body) | {"commit_id": call.commit_id}


async def load(call: Call[None, LoadQuery]) -> Messages:
    session, query = await _session(call), call.query
    if query.k is not None:
        newest = await call.fewer(query.k, lambda k: session.page(limit=k, reverse=True))
        return Messages([_view(message) for message in newest], newest.next if len(newest) < query.k else None)
    page = await call.fewer(
        query.limit, lambda limit: session.page(after=query.after, limit=limit, reverse=query.reverse)
    )
    return Messages([_view(message) for message in page], page.next)


async def window(call: Call[None, WindowQuery]) -> WindowView:
    query = call.query
    made: Window = await (await _session(call)).window(
        max_tokens=query.max_tokens, strategy=query.strategy, query=query.q, reserve_tokens=query.reserve_tokens
    )
    messages = [_view(message) for message in made.messages if isinstance(message, Message)]
    return WindowView(messages, made.total_tokens, made.approximate, made.receipt)


async def search(call: Call[None, SearchQuery]) -> Hits:
    session, query = await _session(call), call.query
    return _hits(await call.fewer(query.k, lambda k: session.search(query.q, k=k)))


async def search_all(call: Call[None, SearchQuery]) -> Hits:
    query = call.query
    return _hits(await call.fewer(query.k, lambda k: call.ctx.sessions.search(query.q, k=k)))


async def truncate(call: Call[Truncation, Nothing]) -> Cut:
    return await (await _session(call)).truncate_from(call.body.message_id, commit_id=call.commit_id)


async def restore(call: Call[None, Nothing]) -> Cut:
    return await (await _session(call)).restore(commit_id=call.commit_id)


async def delete(call: Call[None, Nothing]) -> dict[str, bool]:
    await call.ctx.sessions.delete(call.path["session_id"], commit_id=call.commit_id)
    return {"ok": True}


async def follow(call: Call[None, FollowQuery]) -> Any:
    """Send visible messages as they arrive. The id of each is its index."""
    session = await _session(call)
    after = last_seen(call, call.query.after)
    store: Any = call.ctx.store
    key = call.ctx.scope.key(MESSAGE, session.id)

    async def shown() -> Shown:
        start = 0 if after is None else after + 1
        while True:
            [end] = await store.read([Range(key, 0, 0)])
            page = await call.fewer(PAGE, partial(_page, session, str(start)))
            for message in page:
                yield message.index, "message", _view(message)
                start = message.index + 1
            if page.next is None:
                start = max(start, end.length)
                await store.wait(key, start, HEARTBEAT_SECONDS)

    return stream(call, shown())


async def _page(session: AsyncSession, after: str, limit: int) -> Listing[Message]:
    return await session.page(after=after, limit=limit)


async def _session(call: Call[Any, Any]) -> AsyncSession:
    return await call.ctx.sessions.get(call.path["session_id"])


def _view(message: Message) -> MessageView:
    return MessageView(message.id, message.index, message.at, message.tokens, dict(message), message.sidecar)


def _hits(found: Found) -> Hits:
    hits = [HitView(hit.message_id, hit.session_id, hit.score, hit.why, _view(hit.message)) for hit in found]
    return Hits(hits, found.degraded)


def _endpoint(method: str, path: str, call: Any, right: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(method=method, path=path, call=call, right=right, summary=summary, group="sessions", **more)


ONE = "/sessions/{session_id}"
ENDPOINTS = (
    _endpoint(
        "POST", "/sessions", open_session, "write", "Open a session", body=NewSession, answer=SessionInfo
    ),
    _endpoint("GET", "/sessions", list_sessions, "read", "List sessions", query=ListQuery, answer=SessionPage),
    _endpoint("GET", "/sessions/search", search_all, "read", "Search all sessions", query=SearchQuery, answer=Hits),
    _endpoint("GET", ONE, info, "read", "About a session", answer=SessionInfo),
    _endpoint("DELETE", ONE, delete, "write", "Delete a session", answer=dict[str, bool]),
    _endpoint(
        "POST", f"{ONE}/messages", append, "write", "Append messages", body=NewMessages, answer=Messages
    ),
    _endpoint("PUT", f"{ONE}/messages", replace, "write", "Replace messages", body=NewMessages, answer=Messages),
    _endpoint("GET", f"{ONE}/messages", load, "read", "Read messages", query=LoadQuery, answer=Messages),
    _endpoint("GET", f"{ONE}/window", window, "read", "A window that fits", query=WindowQuery, answer=WindowView),
    _endpoint("GET", f"{ONE}/search", search, "read", "Search a session", query=SearchQuery, answer=Hits),
    _endpoint("POST", f"{ONE}/truncate", truncate, "write", "Hide from a message on", body=Truncation, answer=Cut),
    _endpoint("POST", f"{ONE}/restore", restore, "write", "Undo the last truncation", answer=Cut),
    _endpoint(
        "GET", f"{ONE}/follow", follow, "read", "Messages as they come", query=FollowQuery, media="text/event-stream"
    ),
)  # fmt: skip
