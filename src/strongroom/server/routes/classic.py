"""The run API under its second set of names: boot, ws, step/update, memory search."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.retrieval import unreadable
from strongroom.server.request import Limit, Request
from strongroom.server.router import Endpoints
from strongroom.server.routes.runs import at_first, fields_of, started
from strongroom.services.memories.values import Hit, Results
from strongroom.values import WorkingSet

endpoint = Endpoints("runs")


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


@endpoint("POST /runs/boot", "write", "Boot a run and see it")
async def boot(request: Request[Boot, None]) -> Booted:
    run = await started(request)
    return Booted(run.id, await at_first(run))


@endpoint("GET /runs/{run_id}/ws", "read", "Get the working set")
async def working_set(request: Request[None, None]) -> WorkingSet:
    # As it was specified: without the run's own state.
    found = (await request.ctx.runs.get(request.path_params["run_id"])).working_set
    return msgspec.structs.replace(found, own_state=msgspec.UNSET)


@endpoint("POST /runs/{run_id}/step/update", "write", "Apply a ws_patch")
async def step_update(request: Request[StepUpdate, None]) -> Stepped:
    patch = request.content.patch
    fields = patch.get("set")
    expected = patch.get("expected_seq")
    if not isinstance(fields, dict) or type(expected) is not int or patch.get("_schema_version") != "2.1":
        raise InvalidInput('must be {"_schema_version": "2.1", "expected_seq": ..., "set": {...}}', path="patch")
    run = await request.ctx.runs.get(request.path_params["run_id"], actor=request.caller.name)
    by = request.caller.name
    if fields:
        wanted = fields_of(fields)
        changed = await run.update(expected_seq=expected, actor=by, commit_id=request.commit_id, **wanted)
    else:  # as it was specified: a patch that sets nothing counts too
        changed = await run._count(expected_seq=expected, actor=by, commit_id=request.commit_id)
    return Stepped(changed, str((await run.brief(max_tokens=run.config.ws_max_tokens)).text))


@endpoint("GET /runs/{run_id}/memory/search", "read", "Search memories")
async def memory_search(request: Request[None, SearchQuery]) -> Items:
    await request.ctx.runs.get(request.path_params["run_id"])
    query = request.query
    found: Results[Hit] = Results()
    if query.q:
        found = await request.fewer(query.top_k, lambda k: request.ctx.memories.search(query.q, k, scope=query.scope))
    items = [{**hit.memory.to_dict(), "score": hit.score} for hit in found]
    return Items(True, items, len(items), unreadable(found.damaged))
