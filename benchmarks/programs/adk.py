"""Google ADK's SqliteSessionService. Its files have a rollback journal, synced at each commit."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from itertools import count
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, Part

from benchmarks.workload import TURN, message

NAMES: Any = {"app_name": "bench", "user_id": "u", "session_id": "s"}


def event(number: int) -> Event:
    said = message(number)
    role = "user" if said["role"] == "user" else "model"
    return Event(author=role, content=Content(role=role, parts=[Part(text=said["content"])]))


@asynccontextmanager
async def conversation(path: str, length: int) -> AsyncIterator[dict[str, Callable[[], Any]]]:
    """Its turns: get the session with its events, append two."""
    service = SqliteSessionService(path)
    session = await service.create_session(**NAMES)
    for number in range(2):
        await service.append_event(session, event(number))
    with closing(sqlite3.connect(path)) as connection, connection:  # as append_event does it, but all at once
        ((newest,),) = connection.execute("SELECT max(timestamp) FROM events").fetchall()
        for number in range(2, length):
            one = event(number)
            one.timestamp = newest + number * 1e-6
            row = (one.id, "bench", "u", "s", one.invocation_id, one.timestamp, one.model_dump_json(exclude_none=True))
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.execute("UPDATE sessions SET update_time = ?", (newest + length * 1e-6,))

    yield operations(service, length)


@asynccontextmanager
async def adapter(path: str, length: int) -> AsyncIterator[dict[str, Callable[[], Any]]]:
    """The same through our adapter, filled event by event."""
    from strongroom.adapters.adk import StrongroomSessionService

    with StrongroomSessionService(path, durability="relaxed") as service:
        session = await service.create_session(**NAMES)
        for number in range(length):
            await service.append_event(session, event(number))
    with StrongroomSessionService(path) as service:
        yield operations(service, length)


def operations(service: Any, length: int) -> dict[str, Callable[[], Any]]:
    known: list[Any] = []
    said, numbers = event(1), count()

    async def turn() -> None:
        found = await service.get_session(**NAMES)
        assert found is not None and len(found.events) >= length
        for number in range(*TURN):
            await service.append_event(found, event(number))

    async def append() -> None:
        """Append an event that changes the session's state. It is a copy: validating one is not what is measured."""
        if not known:
            known.append(await service.get_session(**NAMES, config=GetSessionConfig(num_recent_events=1)))
        number = next(numbers)
        actions = EventActions(state_delta={"step": number})
        copied = {"id": f"event-{number}", "timestamp": time.time(), "actions": actions}
        await service.append_event(known[0], said.model_copy(update=copied))

    async def newest() -> None:
        found = await service.get_session(**NAMES, config=GetSessionConfig(num_recent_events=20))
        assert found is not None and min(length, 20) <= len(found.events) <= 20

    return {"turn": turn, "append": append, "newest": newest}
