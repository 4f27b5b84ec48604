"""Turns, as rows of the table of repeats. Their target is the whole space, so another target is another operation."""

from __future__ import annotations

from typing import Any

import strongroom
from tests.repeats.rows import Row
from tests.repeats.runs_rows import FOLDER
from tests.repeats.threads_rows import no_other_content
from tests.services.memory_samples import mcr
from tests.turning import raw, turned


async def a_run_and_a_session(ctx: Any) -> list[str]:
    return [(await ctx.runs.open("r", objective="o")).id, (await ctx.sessions.open("s")).id]


async def _turn(ctx: Any, state: Any, commit_id: str | None, text: str = "x") -> Any:
    run, session = await ctx.runs.get(state[0]), await ctx.sessions.get(state[1])

    def fill(turn: Any) -> None:
        turn.append(raw(session), {"role": "user", "content": text})
        turn.update(raw(run), status="BUSY")
        turn.record(raw(run), "TOOL_CALL", {"tool_name": "fetch"})
        turn.send("t", {"text": text}, from_id="a", to_id="b")
        turn.propose([mcr(text)], proposer="a")

    return await turned(ctx, fill, commit_id)


async def _turn_with(ctx: Any, state: Any, commit_id: str | None) -> None:
    run, session = await ctx.runs.get(state[0]), await ctx.sessions.get(state[1])

    def decide(turn: Any) -> None:
        turn.append(raw(session), {"role": "user", "content": "x"})
        turn.update(raw(run), blockers=[*run.working_set.blockers, "x"])

    await ctx.turn_with(decide, commit_id=commit_id)


async def two_packs(ctx: Any) -> list[str]:
    """Export a run each, and erase nothing: they come back into a space where they are not."""
    packs = []
    with strongroom.open("memory://") as other:
        for id in ("one", "two"):
            other.runs.create(objective="o", run_id=id, state={"id": id})
            packs.append(str(FOLDER / f"space-{id}.zip"))
            other.export(packs[-1], runs=[id])
    return packs


async def _restored(ctx: Any, pack: str, commit_id: str | None) -> Any:
    """Do something else to the space: its target is all of it."""
    return (await ctx.runs.create(objective="o", run_id="another", commit_id=commit_id)).id


async def _restore(ctx: Any, pack: str, commit_id: str | None) -> Any:
    return await ctx.restore(pack, commit_id=commit_id)


ROWS = (
    Row(
        "context.restore",
        two_packs,
        lambda ctx, packs, id: _restore(ctx, packs[0], id),
        lambda ctx, packs, id: _restore(ctx, packs[1], id),
        lambda ctx, packs, id: _restored(ctx, packs[1], id),
    ),
    Row(
        "context.turn",
        a_run_and_a_session,
        _turn,
        lambda ctx, state, id: _turn(ctx, state, id, "another"),
        _turn_with,
    ),
    # What is decided is no part of what the id stands for, so there is no other content.
    Row("context.turn_with", a_run_and_a_session, _turn_with, no_other_content, _turn),
)
