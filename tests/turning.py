"""Taking a turn in a test, blocking or async, through whatever the `ctx` fixture gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strongroom.blocking import Context
from tests.awaitable import Awaitable


def raw(handle: Any) -> Any:
    """Return the handle itself, as a turn takes it."""
    return handle._target if isinstance(handle, Awaitable) else handle


async def turned(ctx: Any, fill: Callable[[Any], object], commit_id: str | None = None) -> list[Any]:
    """Take a turn that `fill` fills, and return what its calls answer."""
    context = raw(ctx)
    if isinstance(context, Context):
        with context.turn(commit_id=commit_id) as turn:
            fill(turn)
        return turn.results()
    async with context.turn(commit_id=commit_id) as later:
        fill(later)
    results: list[Any] = await later.results()
    return results
