"""Events as a type checker sees them: their names, and what the payloads of those hold that a program records.

What is really allowed is in `schemas/ledger_event.json`, which these are held against by a test. No type says "begins
with custom.", so a name of one's own, or one that comes from elsewhere, is an `EventType`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NewType, NotRequired, TypedDict

EventType = NewType("EventType", str)
EventType.__doc__ = """The name of an event that is known only when the program runs; at run time it is text.

A `custom.` one, as `ctx.runs.register_event` returns it, or what a framework passed on. Whether there is such a type,
and its payload fits, is looked at when it is recorded.
"""

EventName = (
    Literal[
        "RUN_START",
        "STEP_REQUEST",
        "MODEL_ACTION",
        "TOOL_CALL",
        "TOOL_RESULT",
        "MODEL_UPDATE",
        "WS_UPDATE_APPLIED",
        "WS_UPDATE_REJECTED",
        "ERROR",
        "MILESTONE",
        "MEMORY_PROPOSED",
        "MEMORY_COMMITTED",
        "MEMORY_REJECTED",
        "SNAPSHOT",
        "RESTORED",
        "FORKED",
        "ROLLED_BACK",
        "ERASED",
        "OWNED",
    ]
    | EventType
)


class Said(TypedDict, total=False):
    """What is said of an event besides its payload, in a turn."""

    actor: str | None
    parent: str | None


class Recorded(Said, total=False):
    """What is said of an event besides its payload."""

    commit_id: str | None


class StepRequest(TypedDict):
    """The payload of a STEP_REQUEST event: what a model was asked, about which version of the working set.

    >>> run = strongroom.open("memory://").runs.create(objective="Answer a ticket")
    >>> asked: strongroom.StepRequest = {"ws_seq": run.seq, "model": "m-1"}
    >>> run.record("STEP_REQUEST", asked).payload["ws_seq"]
    0
    """

    ws_seq: int
    model: NotRequired[str]
    context_brief: NotRequired[str]


class Spent(TypedDict):
    """What a MODEL_ACTION or a TOOL_RESULT may say of what it took; `run.usage` sums it up."""

    model: NotRequired[str]
    tokens_in: NotRequired[int]
    tokens_out: NotRequired[int]
    tokens_cached: NotRequired[int]
    latency_ms: NotRequired[float]
    cost: NotRequired[float]
    error: NotRequired[str | None]


class ModelAction(Spent):
    """The payload of a MODEL_ACTION event: what a model did, and what that took.

    >>> run = strongroom.open("memory://").runs.create(objective="Answer a ticket")
    >>> done: strongroom.ModelAction = {"action": "answer", "model": "m-1", "tokens_in": 900, "cost": 0.004}
    >>> _ = run.record("MODEL_ACTION", done)
    >>> run.usage().total.tokens_in
    900
    """

    action: Any
    raw: NotRequired[Any]


class ToolCall(TypedDict):
    """The payload of a TOOL_CALL event.

    >>> run = strongroom.open("memory://").runs.create(objective="Answer a ticket")
    >>> call: strongroom.ToolCall = {"tool_name": "track", "arguments": {"order": 7}}
    >>> run.record("TOOL_CALL", call).payload["tool_name"]
    'track'
    """

    tool_name: str
    arguments: NotRequired[Any]


class ToolResult(Spent):
    """The payload of a TOOL_RESULT event: whether a tool did what it was to do, and what that took.

    >>> run = strongroom.open("memory://").runs.create(objective="Answer a ticket")
    >>> result: strongroom.ToolResult = {"tool_name": "track", "ok": False, "error": "HTTP 429"}
    >>> _ = run.record("TOOL_RESULT", result)
    >>> run.usage().tools["track"].errors
    1
    """

    tool_name: str
    ok: bool
    result: NotRequired[Any]


class ModelUpdate(TypedDict):
    """The payload of a MODEL_UPDATE event: the update that a model wants, about which version of the working set.

    >>> run = strongroom.open("memory://").runs.create(objective="Answer a ticket")
    >>> wanted: strongroom.ModelUpdate = {"expected_seq": run.seq, "ws_patch": {"status": "BUSY"}}
    >>> run.record("MODEL_UPDATE", wanted).payload["ws_patch"]
    {'status': 'BUSY'}
    """

    expected_seq: int
    ws_patch: NotRequired[Mapping[str, Any]]
    mcrs: NotRequired[Sequence[Mapping[str, Any]]]


class ErrorTold(TypedDict):
    """The payload of an ERROR event.

    >>> run = strongroom.open("memory://").runs.create(objective="Answer a ticket")
    >>> problem: strongroom.ErrorTold = {"error_type": "Timeout", "message": "the carrier did not answer"}
    >>> run.record("ERROR", problem).payload["error_type"]
    'Timeout'
    """

    error_type: str
    message: str
    details: NotRequired[Any]
