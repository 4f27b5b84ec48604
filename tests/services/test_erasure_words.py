"""What is said about an erasure is bounded, and refused before anything is taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strongroom.errors import InvalidInput
from strongroom.services.erasing import MOST_SAID

LONG = "r" * (MOST_SAID - 10)
WAYS: dict[str, Callable[..., Any]] = {
    "a person": lambda ctx, **said: ctx.erase(user_id="u1", by="maria's", **said),
    "memories": lambda ctx, **said: ctx.memories.erase(user_id="u1", by="maria's", **said),
    "a run": lambda ctx, **said: ctx.runs.erase("r", actor="maria's", **said),
}


async def furnished(ctx: Any) -> None:
    await (await ctx.sessions.open("s", user_id="u1")).append({"role": "user", "content": "tea"})
    await ctx.memories.add("likes tea", user_id="u1")
    await ctx.runs.create(objective="tea", run_id="r", user_id="u1")


@pytest.mark.parametrize("way", WAYS)
async def test_too_long_a_reason_takes_nothing_away(ctx: Any, way: str) -> None:
    await furnished(ctx)
    with pytest.raises(InvalidInput, match=r"16,384 bytes together.*nothing changed") as caught:
        await WAYS[way](ctx, reason=LONG + "\n")  # a byte more than fits
    assert caught.value.path == "reason"
    assert [one.id for one in await ctx.sessions.list()] == ["s"]
    assert len(await ctx.memories.list(user_id="u1")) == 1
    assert (await ctx.runs.get("r")).working_set.objective == "tea"


@pytest.mark.parametrize("way", WAYS)
async def test_the_longest_reason_is_recorded_and_told_again(ctx: Any, way: str) -> None:
    await furnished(ctx)
    told = await WAYS[way](ctx, reason=LONG[:-3], commit_id="one")
    assert told.reason == LONG[:-3]
    assert await WAYS[way](ctx, reason=LONG[:-3], commit_id="one") == told
