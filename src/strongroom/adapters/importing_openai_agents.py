"""Bringing in the conversations of an OpenAI Agents SQLite file. The file is only read.

Neither the SDK nor a network is needed. A note for each conversation says up to which row it has come, and before each
batch where that will end: so a batch is the same when it is made again, also if the file has grown meanwhile, and its
id lets it come in once. Called again an import goes on where it was, after an interruption and after a year.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.adapters.exact import messages_of
from strongroom.adapters.sources import Source
from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.codec import encode
from strongroom.scope import Scope
from strongroom.services.sessions.layouts import OPENAI_IMPORT, digest
from strongroom.store import Commit, Get, Put, new_id

BATCH = 500
SESSIONS = "SELECT session_id, min(id) FROM agent_messages GROUP BY session_id ORDER BY session_id"
ITEMS = "SELECT id, message_data FROM agent_messages WHERE session_id = ? ORDER BY id"
BEGINNING = "SELECT message_data, created_at FROM agent_messages WHERE id = ?"

Item = dict[str, Any]
Row = tuple[int, Item | None]


class Imported(Struct):
    """What an import came to. `damaged` are the rows that are no JSON, `skipped` those that were there already."""

    sessions: int = 0
    items: int = 0
    skipped: int = 0
    damaged: int = 0


class Progress(Struct, frozen=True):
    """How far a conversation has come in: up to a row, or, if that was interrupted, perhaps up to the next one."""

    session: str  # when it was created: another one of its name has none of it
    row: int = 0
    next: int = 0


def import_sessions(path: str | Path, ctx: Context | None) -> Imported:
    """Copy every conversation of a file of `SQLiteSession`; without a context only count them."""
    told = Imported()
    with closing(Source(path, {"agent_messages"}, "sessions of OpenAI Agents")) as source:
        for session_id, first in list(source.rows(SESSIONS)):
            [beginning] = source.rows(BEGINNING, first)
            told.sessions += 1
            with closing(source.rows(ITEMS, session_id)) as found:
                rows = _rows(found, told)
                if ctx is None:
                    told.items += sum(item is not None for _, item in rows)
                else:
                    # Files have sessions of the same name: one is known by its first row, and when that was said.
                    _copied(ctx, session_id, digest(session_id, str(first), *map(str, beginning)), rows, told)
    return told


def _copied(ctx: Context, session_id: str, name: str, rows: Iterator[Row], told: Imported) -> None:
    session, scope = ctx.sessions.open(session_id), Scope(Inline(ctx.store), ctx.space)
    key, life = scope.key(OPENAI_IMPORT, name), session.info().created_at.isoformat()
    document = run(scope.get(Get(key)))
    progress = Progress(life) if document is None else msgspec.json.decode(document.value, type=Progress)
    if progress.session != life:
        progress = Progress(life)

    def note(row: int, next: int) -> None:
        put = Put(key, encode(msgspec.to_builtins(Progress(life, row, next))))
        ctx.store.commit(Commit(new_id(), (), (put,)))

    last = progress.row
    for batch in _batches(rows, progress, told):
        if batch[-1][0] != progress.next:
            note(last, batch[-1][0])
        messages, sidecars = messages_of([item for _, item in batch])
        commit_id = f"openai-agents:{name}:{batch[0][0]}:{batch[-1][0]}"
        session.append(messages, sidecars=sidecars, ids="repeat", commit_id=commit_id)
        last = batch[-1][0]
    if last != progress.row:
        note(last, last)


def _batches(rows: Iterator[Row], progress: Progress, told: Imported) -> Iterator[list[tuple[int, Item]]]:
    """Give the items that have not come in, some at a time; the first ones as an interrupted import meant to."""
    batch = list[tuple[int, Item]]()
    for id, item in rows:
        told.items += item is not None
        told.skipped += item is not None and id <= progress.row
        if item is not None and id > progress.row:
            batch.append((id, item))
        if batch and (len(batch) >= BATCH or id == progress.next):
            yield batch
            batch = []
    if batch:
        yield batch


def _rows(found: Iterator[tuple[Any, ...]], told: Imported) -> Iterator[Row]:
    for id, raw in found:
        try:
            item = json.loads(raw)
        except (TypeError, ValueError, RecursionError):
            item = None
        told.damaged += not isinstance(item, dict)
        yield id, item if isinstance(item, dict) else None
