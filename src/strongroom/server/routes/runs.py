"""Runs: boot, look, update, record, travel in time."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from strongroom.errors import Conflict, InvalidInput
from strongroom.server.endpoint import Call, Endpoint, Limit, Natural, Nothing
from strongroom.server.sse import Shown, last_seen, stream
from strongroom.server.wire import Refusal, lost, reply
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.working_set import LISTS, MUTABLE
from strongroom.values import Brief, Diff, Episode, Erasure, Event, Status, Verification, WorkingSet

OPTIONS = frozenset({"expected_seq", "append", "remove", "actor", "parent", "commit_id"})  # of `AsyncRun.update`


class NewRun(Struct, frozen=True, forbid_unknown_fields=True):
    objective: str
    acceptance_criteria: list[str] = []
    constraints: list[str] = []
    run_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None


class Started(Struct, frozen=True):
    run_id: str
    status: str


class Patch(Struct, frozen=True, forbid_unknown_fields=True):
    """`expected_seq` is the `_update_seq` you saw; the If-Match header can say it instead."""

    patch: Annotated[dict[str, Any], Meta(extra={"fields": MUTABLE})] = {}
    expected_seq: Natural | None = None
    append: Annotated[dict[str, list[Any]], Meta(extra={"fields": LISTS})] = {}
    remove: Annotated[dict[str, list[Any]], Meta(extra={"fields": LISTS})] = {}


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
    after: str | None = None
    limit: Limit = 50


class EventQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: Natural = 0
    limit: Limit = 100
    types: tuple[str, ...] = ()


class RunPage(Struct, frozen=True):
    """`damaged` names what belongs on the page and can not be read."""

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


async def create(call: Call[NewRun, Nothing]) -> Started:
    run = await started(call, call.body.run_id)
    return Started(run.id, (await at_first(run)).status)


async def started(call: Call[Any, Nothing], run_id: str | None = None) -> AsyncRun:
    """Start a run, or find the one that the same request started before."""
    wanted = call.body
    return await call.ctx.runs.create(
        objective=wanted.objective,
        acceptance_criteria=wanted.acceptance_criteria,
        constraints=wanted.constraints,
        run_id=run_id,
        task_id=wanted.task_id,
        thread_id=wanted.thread_id,
        actor=call.caller.name,
        commit_id=call.commit_id,
    )


async def at_first(run: AsyncRun) -> WorkingSet:
    """Return what a run began as. It may be a repeat that started it."""
    return run.working_set if run.seq == 0 else await run.at(0)


async def get(call: Call[None, Nothing]) -> Any:
    run = await _run(call)
    tag = _tag(run.seq)
    if call.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return reply(run.working_set, headers={"ETag": tag})


async def list_runs(call: Call[None, PageQuery]) -> RunPage:
    query = call.query
    found = await call.fewer(
        query.limit, lambda limit: call.ctx.runs.list(status=query.status, after=query.after, limit=limit)
    )
    return RunPage([run.working_set for run in found], found.next, found.damaged)


async def update(call: Call[Patch, Nothing]) -> Any:
    run = call.state.handles.take(call.caller, call.path["run_id"]) or await _run(call)
    wanted = call.body
    try:
        working_set = await run.update(
            expected_seq=_expected(call, wanted.expected_seq),
            append=wanted.append or None,
            remove=wanted.remove or None,
            actor=call.caller.name,
            commit_id=call.commit_id,
            **fields_of(wanted.patch),
        )
    except Conflict as conflict:
        raise lost(conflict, {"ETag": _tag(conflict.actual)}) from None
    answer = reply(Patched(True, working_set), headers={"ETag": _tag(working_set.seq)})
    call.state.handles.keep(call.caller, run, len(answer.body))
    return answer


async def record(call: Call[NewEvent, Nothing]) -> Event:
    run = await _run(call)
    wanted = call.body
    return await run.record(
        wanted.type, wanted.payload, actor=call.caller.name, parent=wanted.parent, commit_id=call.commit_id
    )


async def events(call: Call[None, EventQuery]) -> EventPage:
    run = await _run(call)
    query = call.query
    found = await call.fewer(
        query.limit, lambda limit: run.events(after=query.after, limit=limit, types=query.types or None)
    )
    return EventPage(list(found), found.next)


async def verify(call: Call[None, Nothing]) -> Verification:
    return await (await _run(call)).verify()


async def at(call: Call[None, SeqQuery]) -> WorkingSet:
    return await (await _run(call)).at(call.query.seq)


async def diff(call: Call[None, DiffQuery]) -> Diff:
    return await (await _run(call)).diff(call.query.from_seq, call.query.to_seq)


async def rollback(call: Call[Rollback, Nothing]) -> Any:
    run = await _run(call)
    wanted = call.body
    working_set = await run.rollback(
        wanted.seq,
        expected_seq=_expected(call, wanted.expected_seq),
        actor=call.caller.name,
        commit_id=call.commit_id,
    )
    return reply(Patched(True, working_set), headers={"ETag": _tag(working_set.seq)})


async def brief(call: Call[None, BriefQuery]) -> Brief:
    return await (await _run(call)).brief(max_tokens=call.query.max_tokens)


async def episodes(call: Call[None, EventQuery]) -> EpisodePage:
    run, query = await _run(call), call.query
    found = await call.fewer(query.limit, lambda limit: run.episodes(after=query.after, limit=limit))
    return EpisodePage(list(found), found.next)


async def milestone(call: Call[NewMilestone, Nothing]) -> Milestone:
    wanted = call.body
    if wanted.memory_batch_id is not None and not call.caller.may("review"):
        raise Refusal(403, "forbidden", "committing memories needs the right to review; nothing changed")
    run = await _run(call)
    episode = await run.milestone(
        wanted.reason,
        memory_batch_id=wanted.memory_batch_id,
        next_entry_point=wanted.next_entry_point,
        reviewer=call.caller.name,
        actor=call.caller.name,
        commit_id=call.commit_id,
    )
    where = f"/runs/{run.id}/episodes"
    return Milestone(episode.episode_id, where, list(episode.memory_commits), None, episode)


async def fork(call: Call[Fork, Nothing]) -> Started:
    run, wanted = await _run(call), call.body
    made = await run.fork(wanted.seq, run_id=wanted.run_id, actor=call.caller.name, commit_id=call.commit_id)
    return Started(made.id, (await at_first(made)).status)


async def erase(call: Call[Erase, Nothing]) -> Erasure:
    return await call.ctx.runs.erase(
        call.path["run_id"], reason=call.body.reason, actor=call.caller.name, commit_id=call.commit_id
    )


async def follow(call: Call[None, FollowQuery]) -> Any:
    """Send events as they are recorded. The id of each is its sequence id."""
    run = await _run(call)
    after = last_seen(call, call.query.after)

    async def shown() -> Shown:
        async for event in run.follow(after=after or 0):
            yield event.sequence_id, event.type, event

    return stream(call, shown())


async def _run(call: Call[Any, Any]) -> AsyncRun:
    return await call.ctx.runs.get(call.path["run_id"], actor=call.caller.name)


def fields_of(patch: dict[str, Any]) -> dict[str, Any]:
    """Keep a field of the patch from being mistaken for an option of the call."""
    if not OPTIONS.isdisjoint(patch):
        reserved = min(OPTIONS.intersection(patch))
        raise InvalidInput(
            f"a working set has no field {reserved!r}; it has {', '.join(MUTABLE)}; nothing changed", path="patch"
        )
    return patch


def _tag(seq: int) -> str:
    return f'"{seq}"'


def _expected(call: Call[Any, Any], given: int | None) -> int:
    """Return the sequence number the caller saw, from the body or from If-Match."""
    header = call.request.headers.get("if-match", "").strip()
    if header:
        number = header.removeprefix("W/").strip('"')
        if not number.isdecimal() or (given is not None and given != int(number)):
            raise InvalidInput("If-Match must be the ETag of a run, and agree with expected_seq; nothing changed")
        return int(number)
    if given is None:
        raise Refusal(428, "expected_seq_needed", "say which state you saw: expected_seq, or If-Match; nothing changed")
    return given


def _endpoint(method: str, path: str, call: Any, right: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(method=method, path=path, call=call, right=right, summary=summary, group="runs", **more)


ONE = "/runs/{run_id}"
ENDPOINTS = (
    _endpoint("POST", "/runs", create, "write", "Boot a run", body=NewRun, answer=Started),
    _endpoint("GET", "/runs", list_runs, "read", "List runs", query=PageQuery, answer=RunPage),
    _endpoint("GET", ONE, get, "read", "Get the working set of a run", answer=WorkingSet),
    _endpoint(
        "PATCH", ONE, update, "write", "Update the working set", body=Patch, answer=Patched
    ),
    _endpoint("POST", f"{ONE}/events", record, "write", "Record an event", body=NewEvent, answer=Event),
    _endpoint("GET", f"{ONE}/events", events, "read", "Read the ledger", query=EventQuery, answer=EventPage),
    _endpoint("GET", f"{ONE}/verify", verify, "read", "Verify the ledger's hash chain", answer=Verification),
    _endpoint("GET", f"{ONE}/at", at, "read", "The working set as it was", query=SeqQuery, answer=WorkingSet),
    _endpoint("GET", f"{ONE}/diff", diff, "read", "What changed between two states", query=DiffQuery, answer=Diff),
    _endpoint(
        "POST", f"{ONE}/rollback", rollback, "write", "Go back in time", body=Rollback, answer=Patched
    ),
    _endpoint("GET", f"{ONE}/brief", brief, "read", "The context brief", query=BriefQuery, answer=Brief),
    _endpoint("GET", f"{ONE}/episodes", episodes, "read", "List episodes", query=EventQuery, answer=EpisodePage),
    _endpoint(
        "POST", f"{ONE}/milestone", milestone, "write", "Make a milestone", body=NewMilestone, answer=Milestone,
    ),
    _endpoint(
        "POST", f"{ONE}/fork", fork, "write", "Start a new run from this one", body=Fork, answer=Started
    ),
    _endpoint("POST", f"{ONE}/erase", erase, "admin", "Erase content for good", body=Erase, answer=Erasure),
    _endpoint(
        "GET", f"{ONE}/follow", follow, "read", "Events as they come", query=FollowQuery, media="text/event-stream"
    ),
)  # fmt: skip
