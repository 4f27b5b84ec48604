"""Operations on runs under a commit id: a repeat does nothing more, and is answered with what the first one made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strongroom.errors import Conflict, InvalidInput
from tests.services.memory_samples import mcr


async def test_a_repeated_start_returns_the_run_as_it_is_by_now(ctx: Any) -> None:
    first = await ctx.runs.create(objective="o", commit_id="c")
    await first.update(next_action="on the way")
    again = await ctx.runs.create(objective="o", commit_id="c")
    assert (again.id, again.seq) == (first.id, 1)
    assert len(await ctx.runs.list()) == 1


async def test_a_repeated_start_with_an_id_is_not_a_conflict(ctx: Any) -> None:
    await ctx.runs.create(objective="o", run_id="mine", commit_id="c")
    assert (await ctx.runs.create(objective="o", run_id="mine", commit_id="c")).id == "mine"


async def test_an_id_that_is_taken_stays_taken_for_another_commit(ctx: Any) -> None:
    await ctx.runs.create(objective="o", run_id="mine", commit_id="c")
    with pytest.raises(Conflict):
        await ctx.runs.create(objective="o", run_id="mine", commit_id="another")


async def test_a_repeated_rollback_goes_back_once(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="a")
    first = await run.rollback(0, expected_seq=1, commit_id="c")
    await run.update(next_action="b")
    assert await run.rollback(0, expected_seq=1, commit_id="c") == first
    assert (await run.refresh()).next_action == "b"
    assert [event.type for event in await run.events()].count("ROLLED_BACK") == 1


async def test_a_repeated_milestone_is_one_milestone(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    batch = await ctx.memories.propose([mcr("a fact")], proposer="agent")
    first = await run.milestone("r", memory_batch_id=batch.id, reviewer="ana", commit_id="c")
    await run.milestone("another")
    assert await run.milestone("r", memory_batch_id=batch.id, reviewer="ana", commit_id="c") == first
    assert [episode.reason for episode in await run.episodes()] == ["r", "another"]


async def test_a_repeated_fork_is_one_run(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.fork(commit_id="c")
    await run.update(next_action="a")
    assert (await run.fork(commit_id="c")).id == first.id
    assert len(await ctx.runs.list()) == 2
    assert (await run.verify()).ok


Operation = Callable[[Any, Any], Awaitable[Any]]
OPERATIONS: dict[str, Operation] = {
    "create": lambda ctx, run: ctx.runs.create(objective="o", commit_id="c"),
    "update": lambda ctx, run: run.update(next_action="a", commit_id="c"),
    "rollback": lambda ctx, run: run.rollback(0, commit_id="c"),
    "milestone": lambda ctx, run: run.milestone("r", commit_id="c"),
    "fork": lambda ctx, run: run.fork(commit_id="c"),
    "record": lambda ctx, run: run.record("TOOL_CALL", {"tool_name": "t"}, commit_id="c"),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("used", ["thread", "event", "update"])
async def test_a_commit_id_that_was_used_for_something_else_is_refused(ctx: Any, name: str, used: str) -> None:
    run = await ctx.runs.create(objective="o")
    if used == "thread":
        await ctx.threads.append("t", "x", from_id="a", commit_id="c")
    elif used == "update":  # of a run with a longer ledger
        other = await ctx.runs.create(objective="o")
        for number in range(3):
            await other.update(next_action="x", commit_id="c" if number == 2 else None)
    else:
        other = await ctx.runs.create(objective="o")
        await other.record("TOOL_CALL", {"tool_name": "t"}, commit_id="c")
        if name == "record":
            return  # an event for an event: the caller's own affair
    with pytest.raises(InvalidInput, match="something else"):
        await OPERATIONS[name](ctx, run)
    assert (await run.refresh()).seq == 0
