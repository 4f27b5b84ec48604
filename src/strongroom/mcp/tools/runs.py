"""Tools of runs: find, look, start, update under optimistic locking, record what happened."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from strongroom.errors import InvalidInput
from strongroom.mcp.data import Data, data, fitting
from strongroom.mcp.principals import AGENT, EVERYBODY
from strongroom.mcp.tool import ROOM, After, Answer, Arguments, CommitId, Id, Tool, ToolRequest
from strongroom.mcp.uris import run_uri
from strongroom.payloads import EventType
from strongroom.services.runs.run import AsyncRun
from strongroom.values import Event, Status, WorkingSet

KIB = 1024
Line = Annotated[str, Meta(max_length=4_000)]
Lines = Annotated[list[Line], Meta(max_length=100)]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
Limit = Annotated[int, Meta(ge=1, le=50)]
WORKING_SET_BYTES = 32 * KIB
EVENT_BYTES = 8 * KIB
SUMMARY_BYTES = 1 * KIB
ROUTINE = frozenset({"run_id", "task_id", "thread_id", "_schema_version", "_update_seq", "status"})


class KnownRun(Struct, frozen=True, kw_only=True):
    """A run as it is now. `seq` is what an update has to expect."""

    run_id: str
    uri: str
    seq: int
    status: Status
    working_set: Data


class RunSummary(Struct, frozen=True, kw_only=True):
    run_id: str
    uri: str
    seq: int
    status: Status
    objective: Data
    next_action: Data


class RecordedEvent(Struct, frozen=True, kw_only=True):
    """An entry of a run's ledger."""

    sequence_id: int
    event_id: str
    type: str
    actor: str
    at: datetime
    payload: Data
    erased: bool = False


def shown(run_id: str, state: WorkingSet) -> KnownRun:
    content = {name: value for name, value in state.to_dict().items() if name not in ROUTINE and value not in ("", [])}
    return KnownRun(
        run_id=run_id,
        uri=run_uri(run_id),
        seq=state.seq,
        status=state.status,
        working_set=data(content, by="run", most=WORKING_SET_BYTES),
    )


def shown_event(event: Event, most: int = EVENT_BYTES) -> RecordedEvent:
    outside = event.type == "TOOL_RESULT"
    return RecordedEvent(
        sequence_id=event.sequence_id,
        event_id=event.event_id,
        type=event.type,
        actor=event.actor,
        at=event.at,
        payload=data(event.payload, by=event.actor, trust="untrusted" if outside else "unverified", most=most),
        erased=event.erased,
    )


def summary(run: AsyncRun) -> RunSummary:
    state = run.working_set
    return RunSummary(
        run_id=run.id,
        uri=run_uri(run.id),
        seq=state.seq,
        status=state.status,
        objective=data(state.objective, by="run", most=SUMMARY_BYTES),
        next_action=data(state.next_action, by="run", most=SUMMARY_BYTES),
    )


# ---- looking --------------------------------------------------------------------------------------------------------


class ListRuns(Arguments, frozen=True, kw_only=True):
    status: Status | None = None
    limit: Limit = 20
    after: After = None


class RunPage(Answer, frozen=True, kw_only=True):
    runs: list[RunSummary]
    next: str | None = None


async def list_runs(call: ToolRequest, wanted: ListRuns) -> RunPage:
    page = await call.who.ctx.runs.list(status=wanted.status, after=wanted.after, limit=wanted.limit)
    return RunPage(runs=[summary(run) for run in page], next=page.next)


class GetRun(Arguments, frozen=True, kw_only=True):
    run_id: Id
    limit: Annotated[int, Meta(ge=0, le=50, description="How many events of its ledger to show.")] = 5
    after: Annotated[
        Seq | Annotated[str, Meta(max_length=20)] | None,
        Meta(description="Show the events after this sequence_id, or `next` of a page; without it the newest."),
    ] = None


class RunState(Answer, frozen=True, kw_only=True):
    run: KnownRun
    events: list[RecordedEvent]
    next: str | None = None


async def get(call: ToolRequest, wanted: GetRun) -> RunState:
    run = await call.who.ctx.runs.get(wanted.run_id, actor=call.who.name)
    known = shown(run.id, run.working_set)
    if not wanted.limit:
        return RunState(run=known, events=[])
    after = wanted.after
    if after is None:
        after = max(0, (await run.head()).length - wanted.limit)
    page = await run.events(after=after, limit=wanted.limit)
    taken = fitting([shown_event(event) for event in page], ROOM - len(msgspec.json.encode(known)))
    more = len(taken) < len(page) or page.next is not None
    return RunState(run=known, events=taken, next=str(taken[-1].sequence_id) if taken and more else None)


# ---- writing --------------------------------------------------------------------------------------------------------


class StartRun(Arguments, frozen=True, kw_only=True):
    objective: Annotated[str, Meta(min_length=1, max_length=8_000)]
    acceptance_criteria: Lines = []
    constraints: Lines = []
    run_id: Annotated[Id | None, Meta(description="A name of your own; one that is taken is refused.")] = None
    commit_id: CommitId = None


class OneRun(Answer, frozen=True, kw_only=True):
    run: KnownRun


async def start(call: ToolRequest, wanted: StartRun) -> OneRun:
    who = call.who
    run = await who.ctx.runs.create(
        objective=wanted.objective,
        acceptance_criteria=wanted.acceptance_criteria,
        constraints=wanted.constraints,
        run_id=wanted.run_id,
        actor=who.name,
        commit_id=who.commit_id(wanted.commit_id),
    )
    return OneRun(run=shown(run.id, run.working_set))


class UpdateRun(Arguments, frozen=True, kw_only=True):
    run_id: Id
    expected_seq: Annotated[
        Seq | None,
        Meta(description="The `seq` you saw last. If somebody updated the run since, you are refused."),
    ] = None
    status: Status | None = None
    current_stage: Line | None = None
    next_action: Line | None = None
    last_action_summary: Line | None = None
    acceptance_criteria: Lines | None = None
    constraints: Lines | None = None
    blockers: Lines | None = None
    append: Annotated[
        dict[str, list[Any]] | None, Meta(description='Items to add to list fields: {"blockers": ["..."]}.')
    ] = None
    remove: Annotated[dict[str, list[Any]] | None, Meta(description="Items to take out of list fields.")] = None
    commit_id: CommitId = None


_FIELDS = (
    "status",
    "current_stage",
    "next_action",
    "last_action_summary",
    "acceptance_criteria",
    "constraints",
    "blockers",
)


async def update(call: ToolRequest, wanted: UpdateRun) -> OneRun:
    fields: dict[str, Any] = {name: value for name in _FIELDS if (value := getattr(wanted, name)) is not None}
    if fields and wanted.expected_seq is None:
        raise InvalidInput("to replace fields say expected_seq, the `seq` you saw last; nothing changed")
    if not fields and not wanted.append and not wanted.remove:
        raise InvalidInput(f"say what to change: {', '.join(_FIELDS)}, append or remove; nothing changed")
    run = await call.who.ctx.runs.get(wanted.run_id, actor=call.who.name)
    fields |= {"append": wanted.append, "remove": wanted.remove}
    state = await run.update(
        expected_seq=wanted.expected_seq,
        commit_id=call.who.commit_id(wanted.commit_id),
        **fields,
    )
    return OneRun(run=shown(run.id, state))


class RecordEvent(Arguments, frozen=True, kw_only=True):
    run_id: Id
    type: Annotated[str, Meta(max_length=100, description="TOOL_CALL, TOOL_RESULT, MODEL_ACTION, ERROR, ...")]
    payload: dict[str, Any]
    commit_id: CommitId = None


class OneEvent(Answer, frozen=True, kw_only=True):
    run_id: str
    event: RecordedEvent


async def record(call: ToolRequest, wanted: RecordEvent) -> OneEvent:
    run = await call.who.ctx.runs.get(wanted.run_id, actor=call.who.name)
    event = await run.record(EventType(wanted.type), wanted.payload, commit_id=call.who.commit_id(wanted.commit_id))
    return OneEvent(run_id=run.id, event=shown_event(event))


TOOLS = (
    Tool(
        name="run_list",
        title="List runs",
        description="List the tasks that agents work on or worked on, in order of creation, with what each does next.",
        profiles=EVERYBODY,
        kind="reads",
        takes=ListRuns,
        gives=RunPage,
        call=list_runs,
    ),
    Tool(
        name="run_get",
        title="Look at a run",
        description="Return a run: its state now, its `seq`, and the newest events of its ledger.",
        profiles=EVERYBODY,
        kind="reads",
        takes=GetRun,
        gives=RunState,
        call=get,
    ),
    Tool(
        name="run_start",
        title="Start a run",
        description="Begin a task that outlives this conversation: any agent can take up its state and ledger.",
        profiles=AGENT,
        kind="adds",
        takes=StartRun,
        gives=OneRun,
        call=start,
    ),
    Tool(
        name="run_update",
        title="Update a run",
        description=(
            "Change a run's state: status, stage, next action, blockers. Fields are replaced only if expected_seq is "
            "still current; if not you are told what is there, so look again and decide anew. append and remove need "
            "no expected_seq."
        ),
        profiles=AGENT,
        kind="changes",
        takes=UpdateRun,
        gives=OneRun,
        call=update,
    ),
    Tool(
        name="run_record",
        title="Record an event",
        description=(
            "Add an event to a run's ledger, which nobody can change later. TOOL_CALL takes tool_name and arguments; "
            "TOOL_RESULT tool_name, ok and result; MODEL_ACTION action; ERROR error_type and message."
        ),
        profiles=AGENT,
        kind="adds",
        takes=RecordEvent,
        gives=OneEvent,
        call=record,
    ),
)
