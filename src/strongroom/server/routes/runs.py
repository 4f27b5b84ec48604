"""Runs: boot, look, update, record, travel in time."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta, Struct
from starlette.responses import Response

from strongroom.errors import Conflict, InvalidInput
from strongroom.operations import witnessing
from strongroom.payloads import EventType
from strongroom.server.request import Limit, Natural, Request
from strongroom.server.responses import Refusal, lost_race, reply
from strongroom.server.router import Endpoints
from strongroom.server.sse import Shown, Stream, last_seen
from strongroom.server.versions import tag
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.state import KIND as RUN
from strongroom.services.runs.working_set import LISTS, MUTABLE
from strongroom.store import Key
from strongroom.values import Brief, Diff, Episode, Erasure, Event, Status, Verification, WorkingSet

endpoint = Endpoints("runs")

OPTIONS = frozenset(
    {"expected_seq", "append", "remove", "state_patch", "actor", "parent", "commit_id"}
)  # of `AsyncRun.update`


class NewRun(Struct, frozen=True, forbid_unknown_fields=True):
    objective: str
    acceptance_criteria: list[str] = []
    constraints: list[str] = []
    run_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None
    state: dict[str, Any] | None = None
    user_id: str | None = None


class Started(Struct, frozen=True):
    run_id: str
    status: str


class Patch(Struct, frozen=True, forbid_unknown_fields=True):
    """`expected_seq` is the `_update_seq` you saw; the If-Match header can say it instead."""

    patch: Annotated[dict[str, Any], Meta(extra={"fields": (*MUTABLE, "state")})] = {}
    expected_seq: Natural | None = None
    append: Annotated[dict[str, list[Any]], Meta(extra={"fields": LISTS})] = {}
    remove: Annotated[dict[str, list[Any]], Meta(extra={"fields": LISTS})] = {}
    state_patch: dict[str, Any] | None = None


class Patched(Struct, frozen=True):
    ok: bool
    ws: WorkingSet
    error: str | None = None


class NewEvent(Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    payload: dict[str, Any] = {}
    parent: str | None = None


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    status: Status | None = None
    user_id: str | None = None
    after: str | None = None
    limit: Limit = 50
    reverse: bool = False


class EventQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: Natural = 0
    limit: Limit = 100
    types: tuple[str, ...] = ()


class RunPage(Struct, frozen=True):
    """`damaged` names what belongs on the page and cannot be read."""

    runs: list[WorkingSet]
    next: str | None
    damaged: tuple[str, ...] = ()


class EventPage(Struct, frozen=True):
    events: list[Event]
    next: str | None


class EpisodePage(Struct, frozen=True):
    episodes: list[Episode]
    next: str | None


class SeqQuery(Struct, frozen=True, forbid_unknown_fields=True):
    seq: Natural


class DiffQuery(Struct, frozen=True, forbid_unknown_fields=True):
    from_seq: Natural
    to_seq: Natural


class Rollback(Struct, frozen=True, forbid_unknown_fields=True):
    seq: Natural
    expected_seq: Natural | None = None


class BriefQuery(Struct, frozen=True, forbid_unknown_fields=True):
    max_tokens: Natural = 2000


class Fork(Struct, frozen=True, forbid_unknown_fields=True):
    seq: Natural | None = None
    run_id: str | None = None


class Erase(Struct, frozen=True, forbid_unknown_fields=True):
    reason: str


class FollowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: Natural | None = None


class Milestone(Struct, frozen=True):
    episode_id: str
    episode_path: str
    committed_memory_ids: list[str]
    milestone_token: str | None
    episode: Episode


class NewMilestone(Struct, frozen=True, forbid_unknown_fields=True):
    reason: str = "manual"
    memory_batch_id: str | None = None
    next_entry_point: str = ""


@endpoint("GET /runs/{run_id}", "read", "Get the working set of a run", answer=WorkingSet)
async def get(request: Request[None, None]) -> Response:
    run = await _run(request)
    now = tag(run.seq)
    if request.headers.get("if-none-match") == now["ETag"]:
        return Response(status_code=304, headers=now)
    return reply(run.working_set, headers=now)


@endpoint("PATCH /runs/{run_id}", "write", "Update the working set", answer=Patched)
async def update(request: Request[Patch, None]) -> Response:
    run, wanted = await _run(request), request.content
    edits: dict[str, Any] = {"append": wanted.append or None, "remove": wanted.remove or None}
    try:
        working_set = await run.update(
            expected_seq=_expected(wanted.expected_seq),
            state_patch=wanted.state_patch,
            actor=request.caller.name,
            commit_id=request.commit_id,
            **edits,
            **fields_of(wanted.patch),
        )
    except Conflict as conflict:
        # Only a conflict about the run itself knows where the run is.
        known = isinstance(conflict.key, Key) and conflict.key.kind == RUN
        raise lost_race(conflict, tag(conflict.actual) if known else None) from None
    return reply(Patched(True, working_set), headers=tag(working_set.seq))


@endpoint("POST /runs", "write", "Boot a run")
async def create(request: Request[NewRun, None]) -> Started:
    try:
        run = await started(request, request.content.run_id)
    except Conflict as taken:  # to reload and retry would be of no use
        raise lost_race(taken, told=str(taken)) from None
    return Started(run.id, (await at_first(run)).status)


async def started(request: Request[Any, None], run_id: str | None = None) -> AsyncRun:
    """Start a run, or find the one that the same request started before."""
    wanted = request.content
    return await request.ctx.runs.create(
        objective=wanted.objective,
        acceptance_criteria=wanted.acceptance_criteria,
        constraints=wanted.constraints,
        run_id=run_id,
        task_id=wanted.task_id,
        thread_id=wanted.thread_id,
        state=getattr(wanted, "state", None),
        user_id=getattr(wanted, "user_id", None),
        actor=request.caller.name,
        commit_id=request.commit_id,
    )


async def at_first(run: AsyncRun) -> WorkingSet:
    """Return what a run began as. It may be a repeat that started it."""
    return run.working_set if run.seq == 0 else await run.at(0)


@endpoint("GET /runs", "read", "List runs")
async def list_runs(request: Request[None, PageQuery]) -> RunPage:
    query = request.query
    found = await request.fewer(
        query.limit,
        lambda limit: request.ctx.runs.list(
            status=query.status, user_id=query.user_id, after=query.after, limit=limit, reverse=query.reverse
        ),
    )
    return RunPage([run.working_set for run in found], found.next, found.damaged)


@endpoint("POST /runs/{run_id}/events", "write", "Record an event")
async def record(request: Request[NewEvent, None]) -> Event:
    run = await _run(request)
    wanted = request.content
    with witnessing(request.commit_id or "") as witness:  # without an id, it is nobody's repeat
        made = await run.record(
            EventType(wanted.type),
            wanted.payload,
            actor=request.caller.name,
            parent=wanted.parent,
            commit_id=request.commit_id,
        )
    if witness.receipt is None or not witness.receipt.repeated:
        request.app.state.metrics.record(request.caller.space, wanted.type, wanted.payload)
    return made


@endpoint("GET /runs/{run_id}/events", "read", "Read the ledger")
async def events(request: Request[None, EventQuery]) -> EventPage:
    run = await _run(request)
    query = request.query
    types = [EventType(each) for each in query.types] or None
    found = await request.fewer(query.limit, lambda limit: run.events(after=query.after, limit=limit, types=types))
    return EventPage(list(found), found.next)


@endpoint("GET /runs/{run_id}/verify", "read", "Verify the ledger's hash chain")
async def verify(request: Request[None, None]) -> Verification:
    return await (await _run(request)).verify()


@endpoint("GET /runs/{run_id}/at", "read", "The working set as it was")
async def at(request: Request[None, SeqQuery]) -> WorkingSet:
    return await (await _run(request)).at(request.query.seq)


@endpoint("GET /runs/{run_id}/diff", "read", "What changed between two states")
async def diff(request: Request[None, DiffQuery]) -> Diff:
    return await (await _run(request)).diff(request.query.from_seq, request.query.to_seq)


@endpoint("POST /runs/{run_id}/rollback", "write", "Go back in time", answer=Patched)
async def rollback(request: Request[Rollback, None]) -> Response:
    run = await _run(request)
    wanted = request.content
    working_set = await run.rollback(
        wanted.seq,
        expected_seq=_expected(wanted.expected_seq),
        actor=request.caller.name,
        commit_id=request.commit_id,
    )
    return reply(Patched(True, working_set), headers=tag(working_set.seq))


@endpoint("GET /runs/{run_id}/brief", "read", "The context brief")
async def brief(request: Request[None, BriefQuery]) -> Brief:
    return await (await _run(request)).brief(max_tokens=request.query.max_tokens)


@endpoint("GET /runs/{run_id}/episodes", "read", "List episodes")
async def episodes(request: Request[None, EventQuery]) -> EpisodePage:
    run, query = await _run(request), request.query
    found = await request.fewer(query.limit, lambda limit: run.episodes(after=query.after, limit=limit))
    return EpisodePage(list(found), found.next)


@endpoint("POST /runs/{run_id}/milestone", "write", "Make a milestone")
async def milestone(request: Request[NewMilestone, None]) -> Milestone:
    wanted = request.content
    if wanted.memory_batch_id is not None and not request.caller.may("review"):
        raise Refusal(403, "forbidden", "committing memories needs the right to review; nothing changed")
    run = await _run(request)
    episode = await run.milestone(
        wanted.reason,
        memory_batch_id=wanted.memory_batch_id,
        next_entry_point=wanted.next_entry_point,
        reviewer=request.caller.name,
        actor=request.caller.name,
        commit_id=request.commit_id,
    )
    where = f"/runs/{quote(run.id, safe='')}/episodes"
    return Milestone(episode.episode_id, where, list(episode.memory_commits), None, episode)


@endpoint("POST /runs/{run_id}/fork", "write", "Start a new run from this one")
async def fork(request: Request[Fork, None]) -> Started:
    run, wanted = await _run(request), request.content
    made = await run.fork(wanted.seq, run_id=wanted.run_id, actor=request.caller.name, commit_id=request.commit_id)
    return Started(made.id, (await at_first(made)).status)


@endpoint("POST /runs/{run_id}/erase", "admin", "Erase content for good")
async def erase(request: Request[Erase, None]) -> Erasure:
    return await request.ctx.runs.erase(
        request.path_params["run_id"],
        reason=request.content.reason,
        actor=request.caller.name,
        commit_id=request.commit_id,
    )


@endpoint("GET /runs/{run_id}/follow", "read", "Events as they come", media="text/event-stream")
async def follow(request: Request[None, FollowQuery]) -> Stream:
    """Send events as they are recorded. The id of each is its sequence id."""
    run = await _run(request)
    after = last_seen(request, request.query.after)

    async def shown() -> Shown:
        async for event in run.follow(after=after or 0):
            yield event.sequence_id, event.type, event

    return Stream(request, shown())


async def _run(request: Request[Any, Any]) -> AsyncRun:
    return await request.ctx.runs.get(request.path_params["run_id"], actor=request.caller.name)


def fields_of(patch: dict[str, Any]) -> dict[str, Any]:
    """Keep a field of the patch from being mistaken for an option of the call."""
    if not OPTIONS.isdisjoint(patch):
        reserved = min(OPTIONS.intersection(patch))
        raise InvalidInput(
            f"a working set has no field {reserved!r}; it has {', '.join(MUTABLE)} and state; nothing changed",
            path="patch",
        )
    return patch


def _expected(given: int | None) -> int:
    """Return the sequence number the caller saw, as the body or If-Match says it."""
    if given is None:
        raise Refusal(428, "expected_seq_needed", "say which state you saw: expected_seq, or If-Match; nothing changed")
    return given
