"""OpenAI Agents' SQLiteSession."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from agents.memory import SQLiteSession

from benchmarks.workload import TURN, messages, require_synced


@asynccontextmanager
async def conversation(path: str, length: int, fitting: int) -> AsyncIterator[dict[str, Callable[[], Any]]]:
    """Its turns: read everything or, told how many, the newest items; append two."""
    session = SQLiteSession("s", path)
    for start in range(0, length, 1000):
        await session.add_items(messages(start, min(start + 1000, length)))
    with session._locked_connection() as connection:
        ((journal,),) = connection.execute("PRAGMA journal_mode").fetchall()
        ((synchronous,),) = connection.execute("PRAGMA synchronous").fetchall()
    require_synced(journal, synchronous)

    async def turn(limit: int | None = None) -> None:
        await session.get_items(limit)
        await session.add_items(messages(*TURN))

    async def limited() -> None:
        await turn(fitting)

    yield {"turn": turn, "limited": limited}
    session.close()


@asynccontextmanager
async def turn_by_turn(path: str, turns: int) -> AsyncIterator[dict[str, Callable[[], Any]]]:
    """A file that was filled by so many turns of two messages."""
    session = SQLiteSession("s", path)
    for number in range(turns):
        await session.add_items(messages(2 * number, 2 * number + 2))
    session.close()
    yield {}
