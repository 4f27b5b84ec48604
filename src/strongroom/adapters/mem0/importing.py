"""Bringing in the memories of mem0: from a folder of Qdrant's local files, which is what mem0 makes unless told
otherwise, or from a Postgres database of its pgvector store.

The source is only read, neither mem0 nor Qdrant is needed, and what is there already is left alone, also what was
deleted here since. Each memory keeps its id, its owner, its metadata and its time; vectors are made anew by whoever has
an embedder, and the history that mem0 keeps in a file of its own stays there.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from strongroom.adapters.mem0.points import Damaged, Stored, read
from strongroom.adapters.mem0.shapes import OWNERS, SINCE, TAGGED, end_of, metadata_of, tags, whose_and_tags
from strongroom.adapters.sources import POSTGRES, Source
from strongroom.blocking import Context
from strongroom.errors import InvalidInput, NotFound
from strongroom.services.sessions.layouts import digest

COLLECTION = "mem0"
WHAT = "memories of mem0"
# What a payload holds beside the metadata of whoever added it.
OWN = frozenset({"data", "hash", "created_at", "updated_at", "text_lemmatized", "expiration_date", *OWNERS, *TAGGED})

Payload = dict[str, Any]


class Imported(Struct):
    """What an import came to. `pending` wait for a reviewer; `refused` says of each that did not come in why."""

    memories: int = 0
    pending: int = 0
    skipped: int = 0
    refused: list[str] = []


def import_memories(where: str | Path, ctx: Context | None, *, collection: str = COLLECTION) -> Imported:
    """Copy every memory of a collection; without a context only count them.

    Called again after an interruption it goes on where it was.
    """
    told = Imported()
    with closing(_opened(where, collection)) as source:
        for id, payload in _in_postgres(source, collection) if source.is_postgres else _in_qdrant(source):
            told.memories += 1
            try:
                wanted = _wanted(payload)
                if ctx is not None:
                    _add(ctx, id, wanted, told)
            except InvalidInput as problem:
                told.refused.append(f"{id:.80}: {problem}")
    return told


def _add(ctx: Context, id: str, wanted: dict[str, Any], told: Imported) -> None:
    try:
        ctx.memories.get(id)
    except NotFound:
        # An id for this text: what waits for a reviewer does not wait twice.
        written = ctx.memories.add(**wanted, memory_id=id, commit_id=f"mem0:{digest(id, wanted['content'])}")
        told.pending += written.status == "pending"
        told.skipped += written.status in ("known", "erased")
    else:
        told.skipped += 1


def _wanted(payload: Payload | None) -> dict[str, Any]:
    """Return the arguments of `memories.add` for what mem0 stored. Raise `InvalidInput` for what cannot be one."""
    if payload is None or not isinstance(payload.get("data"), str):
        raise InvalidInput("it cannot be read as a memory")
    whose, owned = whose_and_tags({name: payload.get(name) for name in OWNERS})
    metadata = metadata_of({name: _plain(value) for name, value in payload.items() if name not in OWN})
    if isinstance(payload.get("created_at"), str):
        metadata[SINCE] = payload["created_at"]
    return {
        **whose,
        "content": payload["data"],
        "rationale": "imported from mem0",
        "tags": [*owned, *tags({name: payload.get(name) for name in ("role", "actor_id")})],
        "metadata": metadata,
        "expires_at": end_of(payload.get("expiration_date")),
    }


def _plain(value: Any) -> Any:
    """Return what metadata can hold of a value: lists and objects as their JSON."""
    try:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("its metadata is no JSON") from None


def _opened(where: str | Path, collection: str) -> Source:
    if str(where).startswith(POSTGRES):
        return Source(where, {collection}, WHAT)
    if Path(collection).name != collection:
        raise InvalidInput(f"a collection has a name without slashes, not {collection!r:.80}; nothing changed")
    return Source(Path(where) / "collection" / collection / "storage.sqlite", {"points"}, WHAT)


def _in_postgres(source: Source, collection: str) -> Iterator[tuple[str, Payload | None]]:
    table = collection.replace('"', '""')
    question = f"""SELECT id::text, payload FROM "{table}" ORDER BY payload->>'created_at', id"""
    for id, payload in source.pages(question):
        yield id, payload if isinstance(payload, dict) else None


def _in_qdrant(source: Source) -> Iterator[tuple[str, Payload | None]]:
    """Give each point once: other versions of the client may have left older copies under other keys."""
    newest = {_id(key): row for row, key in source.rows("SELECT rowid, id FROM points ORDER BY rowid")}
    for row, key, raw in source.rows("SELECT rowid, id, point FROM points ORDER BY rowid"):
        id = _id(key)
        if newest[id] == row:
            point = _read(raw)
            fields = (
                point.state.get("__dict__") if isinstance(point, Stored) and isinstance(point.state, dict) else None
            )
            payload = fields.get("payload") if isinstance(fields, dict) else None
            yield id, payload if isinstance(payload, dict) else None


def _id(key: Any) -> str:
    """Return the id of a point from its key, or the key itself where it is none."""
    try:
        found = _read(b64decode(key))
    except (TypeError, ValueError):
        found = None
    return str(found if isinstance(found, str | int) else key)


def _read(raw: Any) -> Any:
    try:
        return read(raw) if isinstance(raw, bytes) else None
    except Damaged:
        return None
