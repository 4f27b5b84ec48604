"""Bringing in the checkpoints of a LangGraph SQLite file. It is only read, and what is there already is left alone."""

from __future__ import annotations

import json
import sqlite3
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from msgspec import Struct

from strongroom.adapters.langgraph.finding import Lines
from strongroom.adapters.langgraph.lines import look, named
from strongroom.adapters.langgraph.messages import serializer
from strongroom.adapters.langgraph.upkeep import Upkeep
from strongroom.adapters.sources import opened
from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.scope import Scope

CHECKPOINTS = """
    SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
    FROM checkpoints ORDER BY thread_id, checkpoint_ns, checkpoint_id
"""
WRITES = """
    SELECT task_id, idx, channel, type, value FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx
"""


class Imported(Struct):
    """What an import came to."""

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0
    skipped: int = 0


def import_checkpoints(path: str | Path, ctx: Context | None) -> Imported:
    """Copy every checkpoint of a file of `SqliteSaver` and what was written to it; without a context only count them.

    Called again after an interruption it goes on where it was.
    """
    with closing(opened(path, {"checkpoints", "writes"}, "checkpoints of LangGraph")) as source:
        return run(_copied(source, ctx))


async def _copied(source: sqlite3.Connection, ctx: Context | None) -> Imported:
    told, threads, before = Imported(), set[str](), dict[str, Mapping[str, Any]]()
    target = None if ctx is None else Upkeep(Scope(Inline(ctx.store), ctx.space), serializer(), Lines())
    for thread, ns, id, parent, kind, raw, metadata in source.execute(CHECKPOINTS):
        if thread not in threads:
            threads.add(thread)
            before.clear()
        checkpoint = serializer().loads_typed((kind, raw))
        versions = checkpoint["channel_versions"]
        # As whoever put it said: only what its parent does not have in the same version is new.
        known = before.get(f"{ns}/{parent}", {})
        before[f"{ns}/{id}"] = versions
        writes = list(source.execute(WRITES, (thread, ns, id)))
        told.checkpoints += 1
        told.writes += len(writes)
        if target is None:
            continue
        line = await look(target.scope, named(thread, ns))
        if await target.find(line, id) is not None:
            told.skipped += 1
            continue
        for task, rows in _by_task(writes):
            await target.add_writes((thread, ns), id, rows, task, "")
        new = {channel: version for channel, version in versions.items() if known.get(channel) != version}
        place = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": parent}
        config: RunnableConfig = {"configurable": place}
        await target.put(config, checkpoint, json.loads(metadata) if metadata else {}, new)
    told.threads = len(threads)
    return told


def _by_task(writes: list[Any]) -> Iterator[tuple[str, list[list[Any]]]]:
    tasks: dict[str, list[list[Any]]] = {}
    for task, number, channel, kind, value in writes:
        tasks.setdefault(task, []).append([number, channel, kind, b64encode(value or b"").decode()])
    yield from tasks.items()
