"""What must hold of long-term memory in any store, whenever its writers died: read it all, and compare."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

from strongroom.blocking import Context
from strongroom.embedders import Fingerprint
from strongroom.errors import NotFound
from strongroom.services.memories import keys, screening
from strongroom.services.memories.keys import load
from strongroom.services.memories.values import Batch, Memory, Revoked, Status
from strongroom.services.memories.vectors import INDEX
from strongroom.store import Get, Key, Range, Scan, ask
from tests.hashed import hashing

EVERYTHING = 100_000


def agree(ctx: Context) -> dict[str, Memory]:
    """Check everything that long-term memory promises of what is stored, and return the memories by id."""
    memories = {memory.id: memory for status in get_args(Status) for memory in _list(ctx, status)}
    batches = _batches(ctx)
    _whole(batches, memories)
    _told_once(ctx, batches)
    _claimed(ctx, memories)
    _found(ctx, memories)
    _one_embedder(ctx)
    return memories


def batch(ctx: Context, id: str) -> Batch | None:
    """Return a batch, or None."""
    try:
        return ctx.memories.batch(id)
    except NotFound:
        return None


def _list(ctx: Context, status: Any) -> list[Memory]:
    return list(ctx.memories.list(status=status, limit=EVERYTHING))


def _scan(ctx: Context, kind: str) -> list[Any]:
    page = ask(ctx.store, Scan("default", kind, limit=EVERYTHING))
    assert page.next is None
    return list(page.documents)


def _batches(ctx: Context) -> dict[str, Batch]:
    return {document.key.id: ctx.memories.batch(document.key.id) for document in _scan(ctx, keys.BATCH)}


def _whole(batches: dict[str, Batch], memories: dict[str, Memory]) -> None:
    """A committed batch is there with all its memories, any other with none."""
    for batch in batches.values():
        made = {memory.id for memory in memories.values() if memory.batch_id == batch.id}
        asked = {proposal.memory_id for proposal in batch.proposals if proposal.memory_id is not None}
        assert made == (asked if batch.status == "committed" else set()), (batch.id, batch.status, made)
    assert {memory.batch_id for memory in memories.values()} <= batches.keys()


def _told_once(ctx: Context, batches: dict[str, Batch]) -> None:
    """The log tells each step of a batch exactly once."""
    log = ask(ctx.store, Range(keys.log_key("default")))
    told: Counter[tuple[str, str]] = Counter()
    for record in log.records:
        assert record.body is not None
        id = record.body.load()["batch_id"]
        if id is not None:
            told[record.type, id] += 1
    happened = Counter(("PROPOSED", id) for id in batches)
    happened.update((batch.status.upper(), id) for id, batch in batches.items() if batch.status != "pending")
    assert told == happened


def _claimed(ctx: Context, memories: dict[str, Memory]) -> None:
    """The active memories are those that hold a content, each its own."""
    holders = {document.key.id: document.tags.get(keys.CONTENT) for document in _scan(ctx, keys.MEMORY)}
    active = [memory for memory in memories.values() if memory.status == "active"]
    assert {id: content for id, content in holders.items() if content} == {m.id: keys.said(m).claim for m in active}
    assert len({screening.normal(screening.plain(memory.content)) for memory in active}) == len(active)


def _found(ctx: Context, memories: dict[str, Memory]) -> None:
    """What is found is what is active, except what comes from a source whose revocation is under way."""
    revoked = {load(document, Revoked).source_ref for document in _scan(ctx, keys.REVOCATION)}
    while True:
        more = {memory.id for memory in memories.values() if revoked.intersection(memory.source_refs)} - revoked
        if not more:
            break
        revoked |= more
    hits = {hit.memory.id for hit in ctx.memories.search("alpha", k=1_000, mode="lexical")}
    assert hits == {id for id, memory in memories.items() if memory.status == "active" and id not in revoked}


def _one_embedder(ctx: Context) -> None:
    """The embedder in charge finds its vectors, all of them its own."""
    document = ask(ctx.store, Get(Key("default", INDEX, "embedder")))
    if document is None:
        return
    mark = load(document, Fingerprint)
    in_charge = ctx.memories.using(embedder=hashing(mark.dimension, revision=mark.revision))
    lexical = {hit.memory.id for hit in ctx.memories.search("alpha", k=1_000, mode="lexical")}
    assert {hit.memory.id for hit in in_charge.search("alpha", k=1_000, mode="vector")} <= lexical
    if lexical:
        assert in_charge.search("alpha", k=1, mode="vector")
