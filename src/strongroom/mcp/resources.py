"""What can be read by address: a table of `strongroom://` templates, each with how it is read and watched.

Everything is JSON with the same marks as the answers of tools. The space is the caller's; an address cannot name one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import mcp_types as types
import msgspec
from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.mcp.data import Data, data, fitting
from strongroom.mcp.principals import Principal
from strongroom.mcp.tool import KIB, Answer
from strongroom.mcp.tools.files import MOST_LINES, FileView, KnownFile, part_of
from strongroom.mcp.tools.files import shown as shown_file
from strongroom.mcp.tools.memories import OneBatch, OneMemory, ProposedBatch, shown_batch
from strongroom.mcp.tools.memories import shown as shown_memory
from strongroom.mcp.tools.runs import (
    KnownRun,
    RecordedEvent,
    RunPage,
    shown_event,
    summary,
)
from strongroom.mcp.tools.runs import shown as shown_run
from strongroom.mcp.tools.sessions import SaidMessage, newest
from strongroom.mcp.tools.sessions import shown as shown_message
from strongroom.mcp.uris import SCHEME, Address, path_of, run_uri, session_uri
from strongroom.mcp.watching import (
    file_changes,
    files_changes,
    memory_changes,
    run_changes,
    runs_changes,
    session_changes,
    sessions_changes,
)

BOUND = 256 * KIB
ROOM = BOUND - 8 * KIB
PAGE = 50
JSON = "application/json"
BRIEF_TOKENS = 2_000


class Resource(Struct, frozen=True, kw_only=True):
    """A row of the table. `shape` is the address, with `*` for an id; `**` at its end takes all that follows."""

    shape: tuple[str, ...]
    template: str
    name: str
    description: str
    read: Callable[[Principal, Address], Awaitable[Struct]]
    changes: Callable[[Principal, Address], AsyncIterator[None]] | None = None
    completes: tuple[str, ...] = ()  # the kind of id that each variable is, for completion

    @property
    def fixed(self) -> bool:
        return "{" not in self.template

    def fits(self, address: Address) -> bool:
        given = (address.kind, *address.parts)
        if self.shape[-1] == "**":
            return given[: len(self.shape) - 1] == self.shape[:-1] and len(given) >= len(self.shape)
        return len(given) == len(self.shape) and all(
            wanted in ("*", part) for wanted, part in zip(self.shape, given, strict=True)
        )


# ---- what is read ---------------------------------------------------------------------------------------------------


class RunResource(Answer, frozen=True, kw_only=True):
    run: KnownRun


class Ledger(Answer, frozen=True, kw_only=True):
    run_id: str
    events: list[RecordedEvent]
    next: str | None = None


class BriefResource(Answer, frozen=True, kw_only=True):
    run_id: str
    brief: Data
    total_tokens: int


class KnownSession(Struct, frozen=True, kw_only=True):
    session_id: str
    uri: str
    title: Data
    messages: int


class SessionPage(Answer, frozen=True, kw_only=True):
    sessions: list[KnownSession]
    next: str | None = None


class SessionResource(Answer, frozen=True, kw_only=True):
    session_id: str
    messages: list[SaidMessage]
    messages_before: int


class MessageResource(Answer, frozen=True, kw_only=True):
    message: SaidMessage


class FilePage(Answer, frozen=True, kw_only=True):
    files: list[KnownFile]
    next: str | None = None


class PendingResource(Answer, frozen=True, kw_only=True):
    batches: list[ProposedBatch]
    next: str | None = None


async def read_memory(who: Principal, address: Address) -> OneMemory:
    return OneMemory(memory=shown_memory(await who.ctx.memories.get(address.parts[0])))


async def read_batch(who: Principal, address: Address) -> OneBatch:
    return OneBatch(batch=shown_batch(await who.ctx.memories.batch(address.parts[0]), ROOM))


async def read_pending(who: Principal, address: Address) -> PendingResource:
    found = await who.ctx.memories.pending(limit=10, after=address.query.get("after"))
    return PendingResource(batches=[shown_batch(batch, ROOM // 10) for batch in found], next=found.next)


async def read_runs(who: Principal, address: Address) -> RunPage:
    page = await who.ctx.runs.list(limit=PAGE, after=address.query.get("after"))
    return RunPage(runs=[summary(run) for run in page], next=page.next)


async def read_run(who: Principal, address: Address) -> RunResource:
    run = await who.ctx.runs.get(address.parts[0])
    return RunResource(run=shown_run(run.id, run.working_set))


async def read_ledger(who: Principal, address: Address) -> Ledger:
    run = await who.ctx.runs.get(address.parts[0])
    page = await run.events(after=address.query.get("after"), limit=PAGE)
    taken = fitting([shown_event(event) for event in page], ROOM)
    more = len(taken) < len(page) or page.next is not None
    return Ledger(run_id=run.id, events=taken, next=str(taken[-1].sequence_id) if taken and more else None)


async def read_brief(who: Principal, address: Address) -> BriefResource:
    run = await who.ctx.runs.get(address.parts[0])
    brief = await run.brief(BRIEF_TOKENS)
    return BriefResource(run_id=run.id, brief=data(brief.text, by="run"), total_tokens=brief.total_tokens)


async def read_sessions(who: Principal, address: Address) -> SessionPage:
    page = await who.ctx.sessions.list(limit=PAGE, after=address.query.get("after"), reverse=True)
    sessions = [
        KnownSession(
            session_id=one.id,
            uri=session_uri(one.id),
            title=data(one.title, by="session", most=KIB),
            messages=one.messages,
        )
        for one in page
    ]
    return SessionPage(sessions=sessions, next=page.next)


async def read_session(who: Principal, address: Address) -> SessionResource:
    session = await who.ctx.sessions.get(address.parts[0])
    page = await session.page(limit=PAGE, reverse=True)
    messages = newest([shown_message(message, session.id) for message in page], ROOM)
    before = (await session.info()).messages
    return SessionResource(session_id=session.id, messages=messages, messages_before=max(0, before - len(messages)))


async def read_message(who: Principal, address: Address) -> MessageResource:
    session = await who.ctx.sessions.get(address.parts[0])
    message = await session.get(address.parts[2])
    return MessageResource(message=shown_message(message, session.id, most=ROOM - 8 * KIB))


async def read_files(who: Principal, address: Address) -> FilePage:
    page = await who.ctx.files.list(limit=PAGE, after=address.query.get("after"))
    return FilePage(files=[shown_file(info) for info in page], next=page.next)


async def read_file(who: Principal, address: Address) -> FileView:
    return part_of(await who.ctx.files.read(path_of(address)), 1, MOST_LINES, ROOM)


# ---- the table ------------------------------------------------------------------------------------------------------

RESOURCES: tuple[Resource, ...] = (
    Resource(
        shape=("runs",),
        template=f"{SCHEME}runs",
        name="runs",
        description="The runs of this space, in order of creation; ?after= takes `next`.",
        read=read_runs,
        changes=runs_changes,
    ),
    Resource(
        shape=("sessions",),
        template=f"{SCHEME}sessions",
        name="sessions",
        description="The stored conversations of this space, newest first; ?after= takes `next`.",
        read=read_sessions,
        changes=sessions_changes,
    ),
    Resource(
        shape=("files",),
        template=f"{SCHEME}files",
        name="files",
        description="The files that agents keep, in the order in which they were first written; ?after= takes `next`.",
        read=read_files,
        changes=files_changes,
    ),
    Resource(
        shape=("pending",),
        template=f"{SCHEME}pending",
        name="pending",
        description="The proposed memories that wait for a reviewer, oldest first; ?after= takes `next`.",
        read=read_pending,
        changes=memory_changes,
    ),
    Resource(
        shape=("memories", "*"),
        template=f"{SCHEME}memories/{{memory_id}}",
        name="memory",
        description="One memory, with who proposed and who approved it.",
        read=read_memory,
        changes=memory_changes,
        completes=("memory_id",),
    ),
    Resource(
        shape=("batches", "*"),
        template=f"{SCHEME}batches/{{batch_id}}",
        name="batch",
        description="A batch of proposed memories, and what became of it.",
        read=read_batch,
        changes=memory_changes,
        completes=("batch_id",),
    ),
    Resource(
        shape=("runs", "*"),
        template=f"{SCHEME}runs/{{run_id}}",
        name="run",
        description="A run as it is now.",
        read=read_run,
        changes=run_changes,
        completes=("run_id",),
    ),
    Resource(
        shape=("runs", "*", "ledger"),
        template=f"{SCHEME}runs/{{run_id}}/ledger{{?after}}",
        name="ledger",
        description="What happened in a run, in order; ?after= takes `next`, or a sequence_id.",
        read=read_ledger,
        changes=run_changes,
        completes=("run_id",),
    ),
    Resource(
        shape=("runs", "*", "brief"),
        template=f"{SCHEME}runs/{{run_id}}/brief",
        name="brief",
        description="What an agent has to know to go on with a run, under a token budget.",
        read=read_brief,
        changes=run_changes,
        completes=("run_id",),
    ),
    Resource(
        shape=("sessions", "*"),
        template=f"{SCHEME}sessions/{{session_id}}",
        name="session",
        description="The newest messages of a stored conversation, in order.",
        read=read_session,
        changes=session_changes,
        completes=("session_id",),
    ),
    Resource(
        shape=("sessions", "*", "messages", "*"),
        template=f"{SCHEME}sessions/{{session_id}}/messages/{{message_id}}",
        name="message",
        description="One message of a stored conversation.",
        read=read_message,
        completes=("session_id",),
    ),
    Resource(
        shape=("files", "**"),
        template=f"{SCHEME}files/{{+path}}",
        name="file",
        description="A file that agents keep.",
        read=read_file,
        changes=file_changes,
    ),
)


def find(address: Address, table: Sequence[Resource] = RESOURCES) -> Resource:
    """Return the row of an address, or raise `InvalidInput`."""
    for resource in table:
        if resource.fits(address):
            return resource
    raise InvalidInput(f"there is no resource of this kind; there are {', '.join(row.template for row in table)}")


def listed(resource: Resource) -> types.Resource:
    return types.Resource(uri=resource.template, name=resource.name, description=resource.description, mime_type=JSON)


def listed_template(resource: Resource) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=resource.template, name=resource.name, description=resource.description, mime_type=JSON
    )


async def page(who: Principal, cursor: str | None) -> types.ListResourcesResult:
    """Return a page of what there is: the fixed addresses, then every run, then every conversation."""
    part, _, after = (cursor or "").partition(":")
    if part not in ("", "runs", "sessions"):
        raise InvalidInput("a cursor must be the nextCursor of a page before", path="cursor")
    if part == "":
        fixed = [listed(row) for row in RESOURCES if row.fixed]
        return types.ListResourcesResult(resources=fixed, next_cursor="runs:")
    found: list[types.Resource]
    if part == "runs":
        runs = await who.ctx.runs.list(limit=PAGE, after=after or None)
        found = [_one(run_uri(run.id), run.id, "A run.") for run in runs]
        following = f"runs:{runs.next}" if runs.next is not None else "sessions:"
        return types.ListResourcesResult(resources=found, next_cursor=following)
    sessions = await who.ctx.sessions.list(limit=PAGE, after=after or None, reverse=True)
    found = [_one(session_uri(one.id), one.id, "A stored conversation.") for one in sessions]
    return types.ListResourcesResult(
        resources=found, next_cursor=f"sessions:{sessions.next}" if sessions.next is not None else None
    )


def _one(uri: str, name: str, description: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, description=description, mime_type=JSON)


def contents(uri: str, value: Struct) -> types.ReadResourceResult:
    """Return what was read as JSON, within the bound."""
    encoded = msgspec.json.encode(value)
    if len(encoded) > BOUND:
        raise InvalidInput(
            f"what is stored at {uri!r:.200} is larger than {BOUND} bytes; use the tools, a part at a time"
        )
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=JSON, text=encoded.decode())]
    )
