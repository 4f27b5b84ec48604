"""Pages of ranked answers. A ranking has no order of its own that a cursor could stand in, only places: a page asks for
the best so many and leaves out what the pages before have shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from strongroom.errors import InvalidInput
from strongroom.mcp.data import fitting
from strongroom.mcp.tool import ROOM

T = TypeVar("T")

DEEPEST = 200


async def ranked(
    best: Callable[[int], Awaitable[list[T]]], k: int, after: str | None, room: int = ROOM
) -> tuple[list[T], str | None]:
    """Return `k` of a ranking behind place `after`, or as many as there is room for, and where the next page begins."""
    start = place(after)
    found = await best(min(start + k + 1, DEEPEST))
    taken = fitting(found[start : start + k], room)
    end = start + len(taken)
    return taken, str(end) if taken and end < len(found) else None


def place(after: str | None) -> int:
    """Return how many come before a page."""
    if after is None:
        return 0
    if after.isascii() and after.isdecimal() and len(after) < 4 and int(after) < DEEPEST:
        return int(after)
    raise InvalidInput(f"after must be the `next` of a page before, not {after!r:.40}", path="after")
