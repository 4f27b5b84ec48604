"""Every operation of runs that writes, as rows of the table of repeats."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.repeats.rows import Call, Row

FOLDER = Path(tempfile.mkdtemp(prefix="strongroom-rows-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

Act = Callable[[Any, str | None], Awaitable[Any]]
EVENT = {"tool_name": "fetch"}


async def two_runs(ctx: Any) -> list[str]:
    """Start two runs with a past."""
    made = [await ctx.runs.create(objective="o") for _ in range(2)]
    for run in made:
        await run.update(next_action="begin")
    return [run.id for run in made]


async def two_packs(ctx: Any) -> list[str]:
    packs = []
    for id in await two_runs(ctx):
        packs.append(str(FOLDER / f"{id}.zip"))
        await (await ctx.runs.get(id)).export(packs[-1])
    return packs


async def nothing(ctx: Any) -> None:
    return None


def on_run(name: str, act: Act, other: Act) -> Row:
    """Return the row of a method of a run: of the first of two, with other content, of the second."""

    def of(place: int, act: Act) -> Call:
        async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
            return await act(await ctx.runs.get(state[place]), commit_id)

        return call

    return Row(f"run.{name}", two_runs, of(0, act), of(0, other), of(1, act))


def on_runs(name: str, prepare: Callable[[Any], Awaitable[Any]], *acts: Call) -> Row:
    return Row(f"runs.{name}", prepare, *acts)


async def _id(starting: Awaitable[Any]) -> str:
    id: str = (await starting).id
    return id


ROWS = (
    on_runs(
        "create",
        nothing,
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.create(objective="other", commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", run_id="named", commit_id=id)),
    ),
    on_runs(
        "create",
        nothing,
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", run_id="r", commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", run_id="r", constraints=["c"], commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", run_id="other", commit_id=id)),
    ),
    on_runs(
        "open",
        nothing,
        lambda ctx, _, id: _id(ctx.runs.open("r", objective="o", commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.open("r", objective="other", commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.open("other", objective="o", commit_id=id)),
    ),
    on_runs(
        "open",  # which gives what is nobody's to somebody
        two_runs,
        lambda ctx, runs, id: _id(ctx.runs.open(runs[0], objective="o", user_id="ana", commit_id=id)),
        lambda ctx, runs, id: _id(ctx.runs.open(runs[0], objective="o", user_id="bob", commit_id=id)),
        lambda ctx, runs, id: _id(ctx.runs.open(runs[1], objective="o", user_id="ana", commit_id=id)),
    ),
    on_runs(
        "create",
        nothing,
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", run_id="r", user_id="ana", commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", run_id="r", user_id="bob", commit_id=id)),
        lambda ctx, _, id: _id(ctx.runs.create(objective="o", run_id="other", user_id="ana", commit_id=id)),
    ),
    on_runs(
        "restore",
        two_packs,
        lambda ctx, packs, id: _id(ctx.runs.restore(packs[0], run_id="back", commit_id=id)),
        lambda ctx, packs, id: _id(ctx.runs.restore(packs[1], run_id="back", commit_id=id)),
        lambda ctx, packs, id: _id(ctx.runs.restore(packs[0], run_id="elsewhere", commit_id=id)),
    ),
    on_runs(
        "erase",
        two_runs,
        lambda ctx, runs, id: ctx.runs.erase(runs[0], reason="asked to", commit_id=id),
        lambda ctx, runs, id: ctx.runs.erase(runs[0], reason="another", commit_id=id),
        lambda ctx, runs, id: ctx.runs.erase(runs[1], reason="asked to", commit_id=id),
    ),
    on_run(
        "update",
        lambda run, id: run.update(status="BUSY", append={"blockers": ["b"]}, commit_id=id),
        lambda run, id: run.update(status="DONE", append={"blockers": ["b"]}, commit_id=id),
    ),
    on_run(
        "update_with",
        lambda run, id: run.update_with(lambda ws: {"blockers": [*ws.blockers, "b"]}, commit_id=id),
        lambda run, id: run.update_with(lambda ws: {"blockers": [*ws.blockers, "b"]}, actor="other", commit_id=id),
    ),
    on_run(
        "rollback",
        lambda run, id: run.rollback(0, commit_id=id),
        lambda run, id: run.rollback(1, commit_id=id),
    ),
    on_run(
        "record",
        lambda run, id: run.record("TOOL_CALL", EVENT, commit_id=id),
        lambda run, id: run.record("TOOL_CALL", {**EVENT, "arguments": [1]}, commit_id=id),
    ),
    on_run(
        "attach",
        lambda run, id: run.attach(b"content", type="t", commit_id=id),
        lambda run, id: run.attach(b"other content", type="t", commit_id=id),
    ),
    on_run(
        "export",
        lambda run, id: run.export(FOLDER / "exported.zip", commit_id=id),
        lambda run, id: run.export(FOLDER / "elsewhere.zip", commit_id=id),
    ),
    on_run(
        "milestone",
        lambda run, id: run.milestone("m", commit_id=id),
        lambda run, id: run.milestone("another", commit_id=id),
    ),
    on_run(
        "fork",
        lambda run, id: _id(run.fork(commit_id=id)),
        lambda run, id: _id(run.fork(0, commit_id=id)),
    ),
)
