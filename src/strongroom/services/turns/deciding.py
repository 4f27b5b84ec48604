"""Turns that are decided anew as long as somebody else is faster."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from strongroom.codec import Json, pack
from strongroom.errors import Conflict
from strongroom.operations import NOTHING, Operation, Plan, perform
from strongroom.services.turns.parts import Made, content_of, made_before, target_of
from strongroom.services.turns.turn import AsyncTurn, Services

R = TypeVar("R")


async def turn_with(
    services: Services,
    decide: Callable[[AsyncTurn], R | Awaitable[R]],
    commit_id: str | None,
) -> R | None:
    """Let `decide` read and fill a turn, and make it; again if somebody was faster. A repeat does not ask it."""
    scope = services.scope
    turn, value, moved = AsyncTurn(services), None, None

    async def asked() -> AsyncTurn:
        nonlocal turn, value
        await turn._look_again()
        turn = AsyncTurn(services)
        turn._begin()
        answer = decide(turn)
        value = await answer if inspect.isawaitable(answer) else answer
        return turn

    def lost(conflict: Conflict) -> None:
        nonlocal moved
        moved = None  # decided anew, from what is there then

    async def attempt() -> Plan[Made] | None:
        nonlocal moved
        now = await asked()
        try:
            return await now._plan(None, lost)
        except Conflict as conflict:
            if moved is not None and _same(moved, conflict):
                raise  # decided twice about the same: nobody was faster
            moved = conflict
            return None

    async def elsewhere() -> Json:
        now = await asked()
        await now._check_states()
        content, besides = content_of(now._parts)
        return pack({**content.load(), "besides": besides.load()["parts"]})

    operation = Operation("turn_with", target_of(scope), NOTHING, commit_id)
    made = await perform(scope, operation, attempt, made_before, elsewhere)
    turn._ended = True
    await turn._finish(made)
    return value


def _same(one: Conflict, other: Conflict) -> bool:
    return (one.key, one.expected, one.actual) == (other.key, other.expected, other.actual)
