"""What a context gives is not made by hand: whoever tries reads how to get it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom.errors import InvalidInput

GOT_BY: dict[Any, str] = {
    strongroom.Context: "`strongroom.open(address)`",
    strongroom.AsyncContext: "`async with strongroom.aopen(address) as ctx`",
    strongroom.Run: "`ctx.runs.create(objective=...)`, or `ctx.runs.get(run_id)`",
    strongroom.AsyncRun: "`await ctx.runs.create(objective=...)`, or `await ctx.runs.get(run_id)`",
    strongroom.Session: "`ctx.sessions.open(session_id)`",
    strongroom.AsyncSession: "`await ctx.sessions.open(session_id)`",
    strongroom.Thread: "`ctx.threads.get(thread_id)`",
    strongroom.AsyncThread: "`await ctx.threads.get(thread_id)`",
    strongroom.Turn: "`with ctx.turn() as turn`",
    strongroom.AsyncTurn: "`async with ctx.turn() as turn`",
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "an id": lambda kind, ctx: kind("s"),
    "nothing": lambda kind, ctx: kind(),
    "a context": lambda kind, ctx: kind(ctx),
    "a context and an id": lambda kind, ctx: kind(ctx, "s"),
    "an id by its name": lambda kind, ctx: kind(id="s"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", GOT_BY, ids=lambda kind: kind.__name__)
def test_whoever_makes_one_by_hand_reads_how_to_get_one(kind: Any, call: str) -> None:
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput) as refused:
        CALLS[call](kind, ctx)
    an = "an" if kind.__name__.startswith("A") else "a"
    assert str(refused.value) == f"{an} {kind.__name__} is not made by hand; write {GOT_BY[kind]}"


def test_every_handle_of_the_package_says_how_it_is_got() -> None:
    twins = {name for name in strongroom.__all__ if f"Async{name}" in strongroom.__all__}
    assert {kind.__name__ for kind in GOT_BY} == twins | {f"Async{name}" for name in twins}
