"""A context that was closed answers nothing any more, also what needs no look at the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context


@pytest.fixture
def closed() -> Context:
    ctx = strongroom.open("memory://")
    ctx.close()
    return ctx


def enter(entered: Any) -> None:
    with entered:
        pass


CALLS: dict[str, Callable[[Context], Any]] = {
    "prompt": lambda ctx: ctx.prompt(max_tokens=5),
    "with": enter,
    "turn": lambda ctx: enter(ctx.turn()),
    "turn_with": lambda ctx: ctx.turn_with(lambda turn: None),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_context_refuses(closed: Context, call: str) -> None:
    with pytest.raises(strongroom.Closed):
        CALLS[call](closed)


async def test_a_closed_async_context_makes_no_prompt() -> None:
    ctx = await strongroom.aopen("memory://")
    await ctx.close()
    with pytest.raises(strongroom.Closed):
        await ctx.prompt(max_tokens=5)


async def test_a_closed_async_context_is_not_entered() -> None:
    ctx = await strongroom.aopen("memory://")
    await ctx.close()
    with pytest.raises(strongroom.Closed):
        async with ctx:
            pass


async def test_the_async_face_of_a_closed_context_makes_no_prompt() -> None:
    with strongroom.open("memory://") as ctx:
        face = ctx.awaitable
    with pytest.raises(strongroom.Closed):
        await face.prompt(max_tokens=5)


def test_a_prompt_of_a_closed_context_does_not_say_that_nothing_changed(closed: Context) -> None:
    with pytest.raises(strongroom.Closed) as refused:
        closed.prompt(max_tokens=5)
    assert "nothing changed" not in str(refused.value)


def test_closing_twice_is_no_error(closed: Context) -> None:
    closed.close()
