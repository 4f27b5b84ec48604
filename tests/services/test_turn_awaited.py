"""Calls on an async turn that are awaited all the same: it is harmless, and nobody is told of more than there is."""

from __future__ import annotations

import asyncio
from typing import Any

import strongroom
from tests.services.memory_samples import mcr
from tests.services.test_turns import ALL, DONE, HELLO, NOTHING, seen, world


def typed_loosely(ctx: strongroom.AsyncContext) -> Any:
    """What is done here a type checker refuses."""
    return ctx


async def test_a_call_that_is_awaited_answers_nothing_and_writes_nothing_before_the_block_ends(address: str) -> None:
    async with strongroom.aopen(address) as ctx:
        run, session = await world(ctx)
        async with typed_loosely(ctx).turn() as turn:
            told: list[Any] = [
                await turn.append(session, [HELLO, {"role": "assistant", "content": "hi"}]),
                await turn.update(run, status="BUSY"),
                await turn.record(run, "TOOL_RESULT", DONE),
                await turn.send("planner", {"task": 1}, from_id="support"),
                await turn.propose(mcr("tides turn"), proposer="agent-7", run_id="r"),
            ]
            within = (len(await session.load()), (await ctx.runs.get("r")).working_set.status)
        assert (told, within) == ([None] * 5, NOTHING[:2])
        assert await seen(ctx) == ALL


async def test_calls_that_are_gathered_are_in_the_turn() -> None:
    async with strongroom.aopen("memory://") as ctx:
        run, session = await world(ctx)
        async with typed_loosely(ctx).turn() as turn:
            await asyncio.gather(turn.append(session, HELLO), turn.update(run, status="BUSY"))
        assert (len(await session.load()), run.working_set.status) == (1, "BUSY")


async def test_turn_with_answers_nothing_of_a_call_that_was_only_collected() -> None:
    async with strongroom.aopen("memory://") as ctx:
        run = await ctx.runs.create(objective="o")
        assert await typed_loosely(ctx).turn_with(lambda turn: turn.update(run, status="BUSY")) is None
        assert run.working_set.status == "BUSY"


async def test_what_a_call_returns_says_when_it_is_written() -> None:
    async with strongroom.aopen("memory://") as ctx:
        run = await ctx.runs.create(objective="o")
        async with typed_loosely(ctx).turn() as turn:
            assert repr(turn.update(run, status="BUSY")) == "<collected: written when the block of the turn ends>"
