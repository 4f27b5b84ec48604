"""The run API under its second set of names: boot, ws, step/update, memory search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.server.endpoint import Call, Endpoint, Limit, Nothing
from strongroom.server.routes.runs import at_first, fields_of, started
from strongroom.services.memories.values import Hit
from strongroom.values import WorkingSet


class Boot(Struct, frozen=True, forbid_unknown_fields=True):
    objective: str
    task_id: str | None = None
    thread_id: str | None = None
    acceptance_criteria: list[str] = []
    constraints: list[str] = []


class Booted(Struct, frozen=True):
    run_id: str
    ws: WorkingSet


class StepUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """`patch` is a whole ws_patch: {"_schema_version": "2.1", "expected_seq": 0, "set": {...}}."""

    patch: dict[str, Any]


class Stepped(Struct, frozen=True):
    ws: WorkingSet
    context_brief: str


class Items(Struct, frozen=True):
    ok: bool
    items: list[dict[str, Any]]
    count: int
    error: str | None = None


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: str = ""
    top_k: Limit = 8
    scope: Literal["user", "project", "global"] | None = None
    status: Literal["active"] = "active"


async def boot(call: Call[Boot, Nothing]) -> Booted:
    run = await started(call)
    return Booted(run.id, await at_first(run))


async def working_set(call: Call[None, Nothing]) -> WorkingSet:
    return (await call.ctx.runs.get(call.path["run_id"])).working_set


async def step_update(call: Call[StepUpdate, Nothing]) -> Any:
    patch = call.body.patch
    fields = patch.get("set")
    expected = patch.get("expected_seq")
    if not isinstance(fields, dict) or type(expected) is not int or patch.get("_schema_version") != "2.1":
        raise InvalidInput('must be {"_schema_version": "2.1", "expected_seq": ..., "set": {...}}', path="patch")
    run = await call.ctx.runs.get(call.path["run_id"], actor=call.caller.name)
    changed = await run.update(
        expected_seq=expected, actor=call.caller.name, commit_id=call.commit_id, **fields_of(fields)
    )
    return Stepped(changed, str((await run.brief(max_tokens=run.config.ws_max_tokens)).text))


async def memory_search(call: Call[None, SearchQuery]) -> Items:
    await call.ctx.runs.get(call.path["run_id"])
    query = call.query
    found: Sequence[Hit] = []
    if query.q:
        found = await call.fewer(query.top_k, lambda k: call.ctx.memories.search(query.q, k, scope=query.scope))
    items = [{**hit.memory.to_dict(), "score": hit.score} for hit in found]
    return Items(True, items, len(items))


def _endpoint(method: str, path: str, call: Any, right: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(method=method, path=path, call=call, right=right, summary=summary, group="runs", **more)


ONE = "/runs/{run_id}"
ENDPOINTS = (
    _endpoint("POST", "/runs/boot", boot, "write", "Boot a run and see it", body=Boot, answer=Booted),
    _endpoint("GET", f"{ONE}/ws", working_set, "read", "Get the working set", answer=WorkingSet),
    _endpoint(
        "POST", f"{ONE}/step/update", step_update, "write", "Apply a ws_patch", body=StepUpdate, answer=Stepped,
    ),
    _endpoint("GET", f"{ONE}/memory/search", memory_search, "read", "Search memories", query=SearchQuery, answer=Items),
)  # fmt: skip
