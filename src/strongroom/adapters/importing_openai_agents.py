"""Bringing in the conversations of an OpenAI Agents SQLite file. The file is only read.

Neither the SDK nor a network is needed. Every batch has an id of its own, so called again after an interruption it
goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from strongroom.adapters.exact import messages_of
from strongroom.adapters.sources import Source
from strongroom.blocking import Context

BATCH = 500
ITEMS = "SELECT id, session_id, message_data FROM agent_messages ORDER BY session_id, id"


class Imported(Struct):
    """What an import came to. `damaged` are the rows that are no JSON."""

    sessions: int = 0
    items: int = 0
    damaged: int = 0


def import_sessions(path: str | Path, ctx: Context | None) -> Imported:
    """Copy every conversation of a file of `SQLiteSession`; without a context only count them."""
    told = Imported()
    with closing(Source(path, {"agent_messages"}, "sessions of OpenAI Agents")) as source:
        for session_id, first, items, damaged in _batches(source):
            told.sessions += first
            told.items += len(items)
            told.damaged += damaged
            if ctx is not None and items:
                messages, sidecars = messages_of([item for _, item in items])
                session = ctx.sessions.open(session_id)
                id = f"openai-agents:{items[0][0]}:{len(items)}"
                session.append(messages, sidecars=sidecars, ids="repeat", commit_id=id)
    return told


def _batches(source: Source) -> Iterator[tuple[str, bool, list[tuple[int, Any]], int]]:
    """Give the items of one session after the other, some at a time; say of the first that it is."""
    session, first, batch, damaged = "", False, list[tuple[int, Any]](), 0
    for id, name, raw in source.rows(ITEMS):
        if (name != session or len(batch) >= BATCH) and (batch or damaged):
            yield session, first, batch, damaged
            first, batch, damaged = False, [], 0
        if name != session:
            session, first = name, True
        try:
            item = json.loads(raw)
        except (TypeError, ValueError):
            item = None
        if isinstance(item, dict):
            batch.append((id, item))
        else:
            damaged += 1
    if batch or damaged:
        yield session, first, batch, damaged
