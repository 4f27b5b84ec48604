"""Searching for a part of a prompt, which there is also where nothing can be searched."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from msgspec import Struct

from strongroom.errors import Unavailable


class Looked(Struct, frozen=True):
    """What a search found, or why a part could not be searched at all."""

    hits: tuple[Any, ...] = ()
    unsearched: tuple[str, ...] = ()
    degraded: str | None = None
    damaged: tuple[str, ...] = ()


async def looked(part: str, search: Awaitable[Any]) -> Looked:
    """Search for a part. Where a file can only be read and its index lags, there is a prompt all the same."""
    try:
        hits = await search
    except Unavailable as problem:
        if problem.reason != "read_only":
            raise
        return Looked(unsearched=(part,), degraded=str(problem))
    return Looked(tuple(hits), degraded=hits.degraded, damaged=hits.damaged)
