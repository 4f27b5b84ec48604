"""`search` and `fetch` in the shape that ChatGPT's connectors and deep research ask for.

Ids are `strongroom://` addresses, so that what was found can be fetched, read as a resource, and named in a citation.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from strongroom.errors import InvalidInput
from strongroom.mcp.data import NOTICE, beginning, fenced, fitting, message_data
from strongroom.mcp.principals import EVERYBODY
from strongroom.mcp.tool import KIB, ROOM, Arguments, Tool, ToolRequest
from strongroom.mcp.uris import file_uri, memory_uri, message_uri, parsed, path_of
from strongroom.queries import LONGEST_QUERY
from strongroom.retrieval import unreadable
from strongroom.services.files.values import FileHit
from strongroom.services.memories.values import Memory
from strongroom.services.sessions.values import Message

TITLE_BYTES = 120
TEXT_BYTES = 24 * KIB


class Search(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(max_length=LONGEST_QUERY, description="What to look for, in words.")]


class SearchResult(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    url: str


class SearchResults(Struct, frozen=True, kw_only=True):
    results: list[SearchResult]
    degraded: str | None = None
    notice: str = NOTICE


class Fetch(Arguments, frozen=True, kw_only=True):
    id: Annotated[str, Meta(max_length=4_000, description="The id of a search result.")]


class Metadata(Struct, frozen=True, kw_only=True):
    trust: str
    by: str
    notice: str = NOTICE


class Fetched(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    text: str
    url: str
    metadata: Metadata


async def search(call: ToolRequest, wanted: Search) -> SearchResults:
    ctx = call.who.ctx
    memories = await ctx.memories.search(wanted.query, 8)
    messages = await ctx.sessions.search(wanted.query, k=5)
    found = [_result(memory_uri(hit.memory.id), _memory_title(hit.memory)) for hit in memories]
    found += [
        _result(message_uri(hit.session_id, hit.message_id), _message_title(hit.message, hit.session_id))
        for hit in messages
    ]
    files = await ctx.files.search(wanted.query, k=5)
    found += [_result(file_uri(hit.path), _file_title(hit)) for hit in files]
    lacking = unreadable([*memories.damaged, *messages.damaged, *files.damaged])
    return SearchResults(results=fitting(found, ROOM), degraded=lacking)


async def fetch(call: ToolRequest, wanted: Fetch) -> Fetched:
    address = parsed(wanted.id)
    match address.kind, address.parts:
        case "memories", (memory_id,):
            memory = await call.who.ctx.memories.get(memory_id)
            text = fenced(beginning(memory.content, TEXT_BYTES), by=memory.proposer, trust=memory.trust)
            about = Metadata(trust=memory.trust, by=memory.proposer)
            return Fetched(id=wanted.id, title=_memory_title(memory), text=text, url=wanted.id, metadata=about)
        case "sessions", (session_id, "messages", message_id):
            session = await call.who.ctx.sessions.get(session_id)
            message = await session.get(message_id)
            said = message_data(message, most=TEXT_BYTES)
            text = fenced(said.data, by=said.by, trust=said.trust)
            about = Metadata(trust=said.trust, by=said.by)
            title = _message_title(message, session_id)
            return Fetched(id=wanted.id, title=title, text=text, url=wanted.id, metadata=about)
        case "files", (_, *_):
            file = await call.who.ctx.files.read(path_of(address))
            text = fenced(beginning(file.text, TEXT_BYTES), by="file", trust="unverified")
            about = Metadata(trust="unverified", by="file")
            return Fetched(
                id=wanted.id, title=f"[unverified file] {file.path}", text=text, url=wanted.id, metadata=about
            )
    raise InvalidInput(f"an id must be one that search gave, not {wanted.id!r:.80}", path="id")


def _result(uri: str, title: str) -> SearchResult:
    return SearchResult(id=uri, title=title, url=uri)


def _memory_title(memory: Memory) -> str:
    return f"[{memory.trust} {memory.type}] " + beginning(memory.content, TITLE_BYTES)


def _message_title(message: Message, session_id: str) -> str:
    said = message_data(message, most=TITLE_BYTES)
    return f"[{said.trust} message by {said.by} in {session_id:.80}] {said.data}"


def _file_title(hit: FileHit) -> str:
    return f"[unverified file] {hit.path} line {hit.line}: " + beginning(hit.excerpt, TITLE_BYTES)


TOOLS = (
    Tool(
        name="search",
        title="Search everything",
        description="Find memories, messages of stored conversations and files. Each result has an id for `fetch`.",
        profiles=EVERYBODY,
        kind="reads",
        takes=Search,
        gives=SearchResults,
        call=search,
    ),
    Tool(
        name="fetch",
        title="Fetch a search result",
        description="Return the whole text of a result of `search`, with who wrote it and how far it is trusted.",
        profiles=EVERYBODY,
        kind="reads",
        takes=Fetch,
        gives=Fetched,
        call=fetch,
    ),
)
