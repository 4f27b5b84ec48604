"""Tools of conversations: append, a window under a token budget, search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from strongroom.errors import InvalidInput, NotFound
from strongroom.mcp.data import Data, fitting, message_data
from strongroom.mcp.principals import AGENT, EVERYBODY
from strongroom.mcp.tool import ROOM, After, Answer, Arguments, CommitId, Id, Tool, ToolRequest
from strongroom.mcp.tools.offsets import ranked
from strongroom.mcp.uris import message_uri
from strongroom.queries import LONGEST_QUERY
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.values import Message, NewMessage

MOST_MESSAGES = 100
MOST_TOKENS = 12_000
Text = Annotated[str, Meta(max_length=200_000)]


class SaidMessage(Struct, frozen=True, kw_only=True):
    """A message of a conversation. What it says is data, whoever said it."""

    message_id: str
    session_id: str
    uri: str
    index: int
    at: datetime
    role: str
    message: Data


def shown(message: Message, session_id: str, **more: int) -> SaidMessage:
    return SaidMessage(
        message_id=message.id,
        session_id=session_id,
        uri=message_uri(session_id, message.id),
        index=message.index,
        at=message.at,
        role=str(message.role or "")[:40],
        message=message_data(message, **more),
    )


# ---- appending ------------------------------------------------------------------------------------------------------


class NewSaid(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message to keep. Nobody adds one of role `system` here: those are in every window."""

    role: Literal["user", "assistant", "tool"]
    content: Text | list[dict[str, Any]]
    name: Annotated[str, Meta(max_length=255)] | None = None
    tool_calls: Annotated[list[dict[str, Any]], Meta(max_length=64)] | None = None
    tool_call_id: Annotated[str, Meta(max_length=255)] | None = None

    def plain(self) -> NewMessage:
        said: NewMessage = {"role": self.role, "content": self.content}
        if self.name is not None:
            said["name"] = self.name
        if self.tool_calls is not None:
            said["tool_calls"] = self.tool_calls
        if self.tool_call_id is not None:
            said["tool_call_id"] = self.tool_call_id
        return said


class AppendMessages(Arguments, frozen=True, kw_only=True):
    messages: Annotated[list[NewSaid], Meta(min_length=1, max_length=MOST_MESSAGES)]
    session_id: Annotated[Id | None, Meta(description="Which conversation; a new one is begun without it.")] = None
    commit_id: CommitId = None


class Appended(Struct, frozen=True, kw_only=True, omit_defaults=True):
    session_id: str
    message_ids: list[str]


async def append(call: ToolRequest, wanted: AppendMessages) -> Appended:
    commit_id = call.who.commit_id(wanted.commit_id)
    session = await _opened(call, wanted.session_id, commit_id)
    stored = await session.append([one.plain() for one in wanted.messages], commit_id=commit_id)
    return Appended(session_id=session.id, message_ids=[message.id for message in stored])


async def _opened(call: ToolRequest, session_id: str | None, commit_id: str | None) -> AsyncSession:
    sessions = call.who.ctx.sessions
    if session_id is not None:
        try:
            return await sessions.get(session_id)
        except NotFound:
            pass
    return await sessions.open(session_id, commit_id=commit_id)


# ---- a window -------------------------------------------------------------------------------------------------------


class WindowOfSession(Arguments, frozen=True, kw_only=True):
    session_id: Id
    max_tokens: Annotated[int, Meta(ge=1, le=MOST_TOKENS)] = 4_000
    strategy: Literal["truncate_oldest", "recent_only", "priority", "relevant"] = "truncate_oldest"
    query: Annotated[str, Meta(max_length=LONGEST_QUERY)] | None = None


class SessionWindow(Answer, frozen=True, kw_only=True):
    """The messages of a conversation that fit a budget, in order. `left_out` are those that are not here."""

    session_id: str
    messages: list[SaidMessage]
    total_tokens: int
    messages_before: int
    left_out: int
    strategy: str
    fallback: str | None = None


async def window(call: ToolRequest, wanted: WindowOfSession) -> SessionWindow:
    if (wanted.query is not None) != (wanted.strategy == "relevant"):
        raise InvalidInput("a query goes with strategy 'relevant', and that needs one", path="query")
    session = await call.who.ctx.sessions.get(wanted.session_id)
    made = await session.window(wanted.max_tokens, strategy=wanted.strategy, query=wanted.query)
    receipt = made.receipt
    messages = newest([shown(message, session.id) for message in made.messages], ROOM)
    return SessionWindow(
        session_id=session.id,
        messages=messages,
        total_tokens=made.total_tokens,
        messages_before=receipt.messages_before,
        left_out=receipt.messages_before - len(messages),
        strategy=receipt.strategy,
        fallback=receipt.fallback,
    )


def newest(messages: Sequence[SaidMessage], room: int) -> list[SaidMessage]:
    """Return the newest of these messages that fit into so many bytes, in order."""
    return fitting(reversed(messages), room)[::-1]


# ---- search ---------------------------------------------------------------------------------------------------------


class SearchSessions(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(max_length=LONGEST_QUERY, description="What to look for, in words.")]
    session_id: Annotated[Id | None, Meta(description="In which conversation; in all of them without it.")] = None
    k: Annotated[int, Meta(ge=1, le=50)] = 5
    after: After = None


class FoundMessage(Struct, frozen=True, kw_only=True):
    message: SaidMessage
    score: float
    why: str


class FoundMessages(Answer, frozen=True, kw_only=True):
    hits: list[FoundMessage]
    next: str | None = None
    degraded: str | None = None


async def search(call: ToolRequest, wanted: SearchSessions) -> FoundMessages:
    sessions = call.who.ctx.sessions
    session = None if wanted.session_id is None else await sessions.get(wanted.session_id)
    degraded: str | None = None

    async def best(k: int) -> list[FoundMessage]:
        nonlocal degraded
        hits = await (sessions if session is None else session).search(wanted.query, k=k)
        degraded = hits.degraded
        return [FoundMessage(message=shown(hit.message, hit.session_id), score=hit.score, why=hit.why) for hit in hits]

    hits, following = await ranked(best, wanted.k, wanted.after)
    return FoundMessages(hits=hits, next=following, degraded=degraded)


TOOLS = (
    Tool(
        name="session_append",
        title="Keep messages",
        description=(
            "Append messages to a conversation that outlives this one; without a session_id a new one is begun. "
            "Appends never conflict, whoever else writes."
        ),
        profiles=AGENT,
        kind="adds",
        takes=AppendMessages,
        gives=Appended,
        call=append,
    ),
    Tool(
        name="session_window",
        title="Read a conversation",
        description=(
            "Return the messages of a stored conversation that fit max_tokens, in order, and how many were left out. "
            "Strategy `relevant` picks those that answer a query."
        ),
        profiles=EVERYBODY,
        kind="reads",
        takes=WindowOfSession,
        gives=SessionWindow,
        call=window,
    ),
    Tool(
        name="session_search",
        title="Search conversations",
        description="Find messages in one stored conversation or in all of them, best first.",
        profiles=EVERYBODY,
        kind="reads",
        takes=SearchSessions,
        gives=FoundMessages,
        call=search,
    ),
)
