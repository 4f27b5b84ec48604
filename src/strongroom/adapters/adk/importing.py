"""Bringing in the sessions of ADK's own services: a file of `SqliteSessionService`, any SQLite or Postgres database of
`DatabaseSessionService`.

The source is only read, and what is there already is left alone. A long session comes in parts; it is seen once it is
whole, and called again after an interruption an import goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from msgspec import Struct
from pydantic import ValidationError

from strongroom.adapters.adk.sessions import SHARED, begun, keys_of, opening, put, saying
from strongroom.adapters.sources import Source, loaded
from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput
from strongroom.scope import Scope
from strongroom.services.sessions.layouts import digest, owned_by
from strongroom.services.sessions.state import SESSION, parse
from strongroom.store import Commit, Expect, Get, Put, Range, Write, new_id

BATCH = 200
TABLES = {"sessions", "events", "app_states", "user_states"}
SESSIONS = "SELECT app_name, user_id, id, state, update_time FROM sessions ORDER BY app_name, user_id, id"
EVENTS = """
    SELECT id, invocation_id, event_data FROM events
    WHERE app_name = ? AND user_id = ? AND session_id = ? ORDER BY timestamp, id
"""
APPS = "SELECT app_name, state FROM app_states ORDER BY app_name"
USERS = "SELECT app_name, user_id, state FROM user_states ORDER BY app_name, user_id"


class Imported(Struct):
    """What an import came to. `damaged` are the events that are none, `states` those of apps and users."""

    sessions: int = 0
    events: int = 0
    states: int = 0
    skipped: int = 0
    damaged: int = 0


def import_sessions(where: str | Path, ctx: Context | None) -> Imported:
    """Copy every session with its events and all state; without a context only count them."""
    with closing(Source(where, TABLES, "sessions of ADK")) as source:
        if "event_data" not in source.columns("events"):
            raise InvalidInput(
                "this database has the oldest schema of ADK, which holds pickles, and loading never executes code; "
                "let `adk migrate session` make a new one of it first; nothing changed"
            )
        return run(_copied(source, None if ctx is None else Scope(Inline(ctx.store), ctx.space)))


async def _copied(source: Source, scope: Scope | None) -> Imported:
    told = Imported()
    for *whose, state in [*source.rows(APPS), *source.rows(USERS)]:
        told.states += 1
        if scope is not None and not await _shared(scope, whose, loaded(state)):
            told.skipped += 1
    for app, user, id, state, updated in source.pages(SESSIONS):
        events = list(_events(source, app, user, id))
        sound = [event for event in events if event is not None]
        told.sessions += 1
        told.events += len(sound)
        told.damaged += len(events) - len(sound)
        if scope is None:
            continue
        value = {"app": app, "user": user, "id": id, "state": loaded(state), "updated": _seconds(updated)}
        if not await _session(scope, value, sound):
            told.skipped += 1
    return told


async def _shared(scope: Scope, whose: Sequence[str], state: Any) -> bool:
    """Put the state of an app or a user, unless there is some."""
    key, tags = scope.key(SHARED, digest(*whose)), owned_by(whose[1]) if len(whose) > 1 else {}
    try:
        await scope.store.commit(Commit(new_id(), (Expect(key, 0),), (Put(key, encode(state), tags),)))
    except Conflict:
        return False
    return True


async def _session(scope: Scope, value: dict[str, Any], events: list[Event]) -> bool:
    """Copy a session, unless it is there. What is in its stream before it is there came with an import that ended."""
    key, _, _, stream = keys_of(scope, value["app"], value["user"], value["id"])
    document, talk, end = await scope.read(Get(key), Get(scope.key(SESSION, key.id)), Range(stream, 0, 0))
    if document is not None:
        return False
    state = begun(scope, value["id"], end.first) if talk is None else parse(talk.value)
    length, left = end.length, events[end.length - end.first :]
    for start in range(0, max(len(left), 1), BATCH):
        part = [(event, event.model_dump_json(exclude_none=True)) for event in left[start : start + BATCH]]
        writes: list[Write] = saying(scope, key.id, part, state, length)
        if talk is None and start == 0:
            writes.append(opening(scope, key.id, state, value["user"]))
        if start + BATCH >= len(left):
            writes.append(put(key, value))
        await scope.store.commit(Commit(new_id(), (Expect(stream, length), Expect(key, 0)), tuple(writes)))
        length += len(part)
    return True


def _events(source: Source, app: str, user: str, session: str) -> Iterator[Event | None]:
    """Give the events of a session in their order, None for what is none."""
    for id, invocation, raw in source.rows(EVENTS, app, user, session):
        try:
            yield Event.model_validate({**(loaded(raw) or {}), "id": id, "invocation_id": invocation})
        except (ValidationError, TypeError, ValueError):
            yield None


def _seconds(moment: Any) -> float:
    """Return the time of a column: a number, a text or a moment, in UTC."""
    if isinstance(moment, int | float):
        return float(moment)
    read = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return float((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())
