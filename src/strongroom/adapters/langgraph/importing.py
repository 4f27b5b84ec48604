"""Bringing in the checkpoints of LangGraph's own savers: a file of `SqliteSaver`, a database of `PostgresSaver`.

The source is only read, and what is there already is left alone.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from msgspec import Struct

from strongroom.adapters.langgraph.finding import Lines
from strongroom.adapters.langgraph.lines import look, named
from strongroom.adapters.langgraph.messages import serializer
from strongroom.adapters.langgraph.upkeep import Upkeep
from strongroom.adapters.sources import POSTGRES, Source, loaded
from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.errors import InvalidInput
from strongroom.scope import Scope

CHECKPOINTS = """
    SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
    FROM checkpoints ORDER BY thread_id, checkpoint_ns, checkpoint_id
"""
HERE = "WHERE thread_id = ? AND checkpoint_ns = ?"
WRITES = f"SELECT task_id, '', idx, channel, type, value FROM writes {HERE} AND checkpoint_id = ? ORDER BY task_id, idx"
POSTGRES_WRITES = f"""
    SELECT task_id, task_path, idx, channel, type, blob FROM checkpoint_writes {HERE} AND checkpoint_id = ?
    ORDER BY task_id, idx
"""
POSTGRES_VALUE = f"SELECT type, blob FROM checkpoint_blobs {HERE} AND channel = ? AND version = ?"
EMPTY = "empty"  # the type of a value that a channel does not have


class Imported(Struct):
    """What an import came to."""

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0
    skipped: int = 0


def import_checkpoints(where: str | Path, ctx: Context | None) -> Imported:
    """Copy every checkpoint of a saver and what was written to it; without a context only count them.

    Called again after an interruption it goes on where it was.
    """
    needed = {"checkpoints", "writes"}
    if str(where).startswith(POSTGRES):
        needed = {"checkpoints", "checkpoint_blobs", "checkpoint_writes"}
    with closing(Source(where, needed, "checkpoints of LangGraph")) as source:
        return run(_copied(source, ctx))


async def _copied(source: Source, ctx: Context | None) -> Imported:
    told, threads, before = Imported(), set[str](), dict[str, Mapping[str, Any]]()
    target = None if ctx is None else Upkeep(Scope(Inline(ctx.store), ctx.space), serializer(), Lines())
    question = POSTGRES_WRITES if source.is_postgres else WRITES
    for thread, ns, id, parent, kind, raw, metadata in source.pages(CHECKPOINTS):
        if thread not in threads:
            threads.add(thread)
            before.clear()
        checkpoint = raw if source.is_postgres else serializer().loads_typed((kind, raw))
        versions = checkpoint["channel_versions"]
        # As whoever put it said: only what its parent does not have in the same version is new.
        known = before.get(f"{ns}/{parent}", {})
        before[f"{ns}/{id}"] = versions
        writes = list(source.rows(question, thread, ns, id))
        told.checkpoints += 1
        told.writes += len(writes)
        if target is None:
            continue
        line = await look(target.scope, named(thread, ns))
        if await target.find(line, id) is not None:
            told.skipped += 1
            continue
        for task, path, rows in _by_task(writes):
            await target.add_writes((thread, ns), id, rows, task, path)
        if parent and line.first and await target.find(line, parent) is None:
            parent = None  # what a thread that was deleted here went on from does not come back
        new = {channel: version for channel, version in versions.items() if known.get(channel) != version}
        if source.is_postgres:
            checkpoint["channel_values"] = _values(source, thread, ns, checkpoint, new)
        place = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": parent}
        config: RunnableConfig = {"configurable": place}
        try:
            await target.put(config, checkpoint, loaded(metadata) if metadata else {}, new)
        except (TypeError, ValueError, RecursionError) as problem:  # an old format holds what today's cannot
            raise InvalidInput(
                f"checkpoint {id!r:.80} of thread {thread!r:.80} cannot be kept: {problem}; those before it were"
            ) from problem
    told.threads = len(threads)
    return told


def _values(source: Source, thread: str, ns: str, checkpoint: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of channels: small ones are part of a checkpoint in Postgres, the others lie beside it."""
    values = dict(checkpoint.get("channel_values") or {})
    # A snapshot of a delta channel is a True with a value beside it, and its version need not be new.
    marked = [channel for channel, value in values.items() if value is True]
    for channel in {*new, *marked} & checkpoint["channel_versions"].keys():
        version = str(checkpoint["channel_versions"][channel])
        for kind, blob in source.rows(POSTGRES_VALUE, thread, ns, channel, version):
            if kind != EMPTY:
                values[channel] = serializer().loads_typed((kind, blob))
    return values


def _by_task(writes: Sequence[Any]) -> Iterator[tuple[str, str, list[list[Any]]]]:
    tasks: dict[tuple[str, str], list[list[Any]]] = {}
    for task, path, number, channel, kind, value in writes:
        tasks.setdefault((task, path), []).append([number, channel, kind, b64encode(value or b"").decode()])
    for (task, path), rows in tasks.items():
        yield task, path, rows
