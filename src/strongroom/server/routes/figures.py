"""What lists for people show beside each thing, and what happened last: bounded reads, whatever the history.

A list asks for the things it shows, a few at a time. Nothing here is stored: sums are those that a run keeps as its
ledger grows, and the rest is read off the ends of what is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from strongroom.errors import Damaged, InvalidInput, NotFound
from strongroom.server.request import Request
from strongroom.server.responses import in_words, shortened
from strongroom.server.router import Endpoints
from strongroom.services.memories.keys import log_key
from strongroom.services.memories.values import Batch
from strongroom.services.runs.run import AsyncRun
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.values import Message
from strongroom.store import Tail
from strongroom.values import Event, moment

endpoint = Endpoints("figures")

MOST = 25  # things that one answer tells of
COUNTED = 200  # messages whose tokens are added up; where there are more, these stand for all
LATEST = 12  # things of each kind that are looked at for what happened last
_short = partial(shortened, most=160)

F = TypeVar("F")


class RunFigures(Struct, frozen=True):
    """`agent` is who recorded the newest event; `error` is what its newest ERROR says, if that is among the last ones.
    `worked_ms` is the time that models and tools took. `user_id` is whose run it is."""

    run_id: str
    events: int
    started_at: datetime
    last_at: datetime
    agent: str
    tokens: int
    cost: float
    worked_ms: float
    error: str | None = None
    user_id: str | None = None


class SessionFigures(Struct, frozen=True):
    """`first` is how the conversation began, cut short. `tokens` are projected from the newest messages if there are
    many; then they are not `exact`."""

    session_id: str
    first: str
    tokens: int
    exact: bool
    last_at: datetime | None


class RunsTold(Struct, frozen=True):
    """In the order in which they were asked for; what is not there, or damaged, is left out."""

    runs: list[RunFigures]


class SessionsTold(Struct, frozen=True):
    """In the order in which they were asked for; what is not there, or damaged, is left out."""

    sessions: list[SessionFigures]


class Happened(Struct, frozen=True):
    """Something that happened: `who` did it, `type` says what (an event's type, MESSAGE, or a change of memories), to
    the thing of this `kind` and `id`. `about` is a few words of it, cut short."""

    at: datetime
    kind: str
    id: str
    type: str
    who: str
    about: str


class Activity(Struct, frozen=True, omit_defaults=True):
    """The newest first. `damaged` names what was looked at and cannot be read."""

    activity: list[Happened]
    damaged: tuple[str, ...] = ()


class NamesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST)]


class ActivityQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


@endpoint("GET /figures/runs", "read", "What some runs came to")
async def runs(request: Request[None, NamesQuery]) -> RunsTold:
    told, _ = await _each(request.query.id, lambda id: _run(request, id))
    return RunsTold(told)


@endpoint("GET /figures/sessions", "read", "How large some sessions are, and how they began")
async def sessions(request: Request[None, NamesQuery]) -> SessionsTold:
    told, _ = await _each(request.query.id, lambda id: _session(request, id))
    return SessionsTold(told)


@endpoint("GET /activity", "read", "What happened last")
async def activity(request: Request[None, ActivityQuery]) -> Activity:
    """Tell the newest events of the newest runs and of those at work, messages of the newest sessions, and changes of
    memories. What is older, or in older things, is not looked for."""
    events, bad_runs = await _events(request)
    messages, bad_sessions = await _messages(request)
    found = [*events, *messages, *await _changes(request)]
    found.sort(key=lambda each: each.at, reverse=True)
    return Activity(found[: request.query.limit], tuple(dict.fromkeys([*bad_runs, *bad_sessions])))


# ---- figures --------------------------------------------------------------------------------------------------------


async def _each(ids: Iterable[str], figures: Callable[[str], Awaitable[F]]) -> tuple[list[F], list[str]]:
    """Return the figures of each thing that is there and can be read, and which ones cannot be read."""
    told, damaged = [], []
    for id in dict.fromkeys(ids):
        try:
            told.append(await figures(id))
        except (NotFound, InvalidInput):
            pass  # it is not there, or not any more
        except Damaged:
            damaged.append(id)
    return told, damaged


async def _run(request: Request[Any, Any], id: str) -> RunFigures:
    run = await request.ctx.runs.get(id)
    usage, newest = await run.usage(), await _newest(request, run, LATEST)
    [first] = await run.events(limit=1)
    last = newest[-1]
    failed = [each for each in newest if each.type == "ERROR"]
    total = usage.total
    return RunFigures(
        run.id,
        last.sequence_id,
        first.at,
        last.at,
        last.actor,
        total.tokens_in + total.tokens_out,
        total.cost,
        total.latency_ms,
        _about(failed[-1]) if failed else None,
        run.user_id,
    )


async def _newest(request: Request[Any, Any], run: AsyncRun, count: int) -> Sequence[Event]:
    length = (await run.head()).length
    return await request.fewer(count, lambda limit: run.events(after=max(0, length - limit), limit=limit))


async def _session(request: Request[Any, Any], id: str) -> SessionFigures:
    session = await request.ctx.sessions.get(id)
    newest = await _said_last(request, session, COUNTED)
    info = await session.info()
    whole = len(newest) >= info.messages
    begun = newest if whole else await request.fewer(LATEST, lambda limit: session.page(limit=limit))
    tokens = sum(each.tokens for each in newest)
    if not whole and newest:
        tokens = round(tokens * info.messages / len(newest))
    return SessionFigures(id, _first(begun), tokens, whole, newest[-1].at if newest else None)


async def _said_last(request: Request[Any, Any], session: AsyncSession, count: int) -> Sequence[Message]:
    return await request.fewer(count, lambda limit: session.page(limit=limit, reverse=True))


def _first(messages: Sequence[Message]) -> str:
    """Return how somebody began: the first words that are no rules."""
    texts = (each.get("content") for each in messages if each.get("role") not in ("system", "developer", "tool"))
    return next((_short(text) for text in texts if isinstance(text, str) and text.strip()), "")


# ---- what happened last ---------------------------------------------------------------------------------------------


async def _events(request: Request[Any, Any]) -> tuple[list[Happened], list[str]]:
    """Of runs that are at work too, however long ago they began."""
    listed = request.ctx.runs.list
    newest = await request.fewer(LATEST, lambda limit: listed(limit=limit, reverse=True))
    at_work = await request.fewer(LATEST, lambda limit: listed(status="BUSY", limit=limit, reverse=True))
    found = {run.id: run for run in (*newest, *at_work)}

    async def happened(id: str) -> list[Happened]:
        return [
            Happened(each.at, "run", id, each.type, each.actor, _about(each))
            for each in await _newest(request, found[id], LATEST)
            if not each.type.startswith("MEMORY_")  # which the log of memories tells
        ]

    told, damaged = await _each(found, happened)
    return [*chain.from_iterable(told)], [*newest.damaged, *at_work.damaged, *damaged]


async def _messages(request: Request[Any, Any]) -> tuple[list[Happened], list[str]]:
    ctx = request.ctx
    listed = await request.fewer(LATEST, lambda limit: ctx.sessions.list(limit=limit, reverse=True))
    titles = {info.id: info.title or info.id for info in listed}

    async def happened(id: str) -> list[Happened]:
        return [
            Happened(each.at, "session", id, "MESSAGE", _short(each.get("role")), titles[id])
            for each in await _said_last(request, await ctx.sessions.get(id), 1)
        ]

    told, damaged = await _each(titles, happened)
    return [*chain.from_iterable(told)], [*listed.damaged, *damaged]


async def _changes(request: Request[Any, Any]) -> list[Happened]:
    """From the log of memories, which holds every change and no content, and from the batches it names."""
    scope = request.ctx.scope
    records = (await scope.get(Tail(log_key(scope.space), LATEST))).records
    bodies = [{} if record.body is None else record.body.load() for record in records]
    asked = {body["batch_id"] for record, body in zip(records, bodies, strict=True) if record.type == "PROPOSED"}
    batches, _ = await _each(sorted(asked), request.ctx.memories.batch)
    asks = {batch.id: _asks(batch) for batch in batches}
    told = []
    for record, body in zip(records, bodies, strict=True):
        ids, batch = [*body.get("added", ()), *body.get("removed", ())], body.get("batch_id") or ""
        kind, id = ("memory", ids[0]) if ids else ("batch", batch)
        about = ", ".join(ids[:3]) if record.type != "PROPOSED" else asks.get(batch, "")
        told.append(Happened(moment(record.at), kind, id, record.type, record.sender or "", about))
    return told


def _asks(batch: Batch) -> str:
    """Return what a batch asks for, in words that are not its own: it may be erased, or hostile."""
    request, more = batch.proposals[0].request, len(batch.proposals) - 1
    match request.op:
        case "supersede":
            what = f"to replace {request.supersedes[0]}"
        case "deprecate":
            what = f"to end {request.target_memory_id}"
        case _:
            what = f"a {request.scope} {request.type}"
    return _short(what) + (f" and {more} more" if more else "")


def _about(event: Event) -> str:
    """Return the words of an event that say most in a line."""
    payload = event.payload
    match event.type:
        case "TOOL_CALL" | "TOOL_RESULT":
            return _short(payload.get("tool_name"))
        case "MODEL_ACTION":
            return _short(payload.get("action"))
        case "ERROR":
            return _short(f"{in_words(payload.get('error_type')) or 'Error'}: {in_words(payload.get('message'))}")
        case "MILESTONE":
            return _short(payload.get("reason"))
        case "WS_UPDATE_APPLIED" | "ROLLED_BACK":
            return _short(payload.get("new_seq", payload.get("to_seq")))
        case _:
            return ""
