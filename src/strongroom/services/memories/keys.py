"""Where long-term memory lives in a store: kinds, keys and tags. Pure.

| kind | shape | one for each | holds |
|---|---|---|---|
| `memory` | document | memory | the memory; searchable text, and a claim on its content, only while it is active |
| `memory_batch` | document | batch | the proposals and what became of them |
| `memory_revocation` | document | revoked source | the source, and whether all that came from it is gone |
| `memory_log` | stream | space | every change, in order: the audit trail, and what vector indexes follow |
| `memory_learnt` | document | session and owner | which messages were learnt from |
| `memory_judged` | document | owner | which groups of memories a model was asked about, by their digests |
| `memory_staged`, `memory_decided` | streams | proposer | batch ids: their lengths tell how many are pending |
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import TypeVar

import msgspec
from msgspec import Struct

from strongroom.codec import pack
from strongroom.errors import Damaged
from strongroom.folding import folded
from strongroom.scope import Telling
from strongroom.services.memories import screening
from strongroom.services.memories.values import Batch, Memory, Request, Revoked
from strongroom.store import MAX_NAME, Append, Document, Entry, Key, Put, Range, Scan

T = TypeVar("T")

MEMORY = "memory"
BATCH = "memory_batch"
REVOCATION = "memory_revocation"
LOG = "memory_log"
STAGED = "memory_staged"
DECIDED = "memory_decided"
LEARNT = "memory_learnt"
JUDGED = "memory_judged"

# The tag by which an active memory claims its content: no two of one scope and owner ever say the same.
CONTENT = "=content"

# How the ids we make begin. A source that begins like this is a memory, or a mistake.
OUR_IDS = "mem_"


def digest(*parts: str) -> str:
    """Hash parts so that no two lists of parts can be confused."""
    return sha256("".join([f"{len(part)}:{part}" for part in parts]).encode()).hexdigest()


@lru_cache(maxsize=2_048)
def owner(user_id: str | None, project_id: str | None) -> str:
    """Return the tag shared by the memories of one user, one project, one user in one project, or nobody."""
    if user_id is None and project_id is None:
        return "-"
    return digest("u" + user_id if user_id else "", "p" + project_id if project_id else "")[:32]


def source_tag(source_ref: str) -> str:
    return "source:" + digest(folded(source_ref))[:32]


def free_tag(tag: str) -> str:
    return "tag:" + digest(tag)[:32]


def day_tag(at: date) -> dict[str, str]:
    return {"day": f"{at.year:04}-{at.month:02}-{at.day:02}"}


def month_tag(at: date) -> dict[str, str]:
    return {"month": f"{at.year:04}-{at.month:02}"}


def session_tag(session_id: str) -> str:
    return digest(session_id)[:32]


class Said(Struct, frozen=True, gc=False):
    """What a memory says: the claim on it, which only one active memory of a scope and owner can have, and the text."""

    claim: str
    text: str


def said(memory: Memory | Request) -> Said:
    text = screening.plain(memory.content)
    # 128 bits: it is looked for and written where no neighbour is, so its size is what it costs.
    whole = f"{memory.scope} {owner(memory.user_id, memory.project_id)} {screening.normal(text)}"
    return Said(blake2b(whole.encode(), digest_size=16).hexdigest(), text)


def holder(space: str, content: str) -> Scan:
    """Ask for the active memory that says this."""
    return Scan(space, MEMORY, {CONTENT: content}, limit=1)


def revocation_key(space: str, source_ref: str) -> Key:
    return Key(space, REVOCATION, digest(folded(source_ref)))


def put_revocation(key: Key, revoked: Revoked) -> Put:
    return Put(key, pack(revoked), {"status": "done" if revoked.done else "open"})


def log_key(space: str) -> Key:
    return Key(space, LOG, "log")


def can_be_id(source_ref: str) -> bool:
    """Tell whether a source could be a memory's id, which keys are stricter about than sources."""
    return 0 < len(source_ref) <= MAX_NAME and source_ref.isprintable()


def load(document: Document, type: type[T]) -> T:
    try:
        return msgspec.json.decode(document.value, type=type)
    except msgspec.DecodeError as problem:
        what = f"{document.key.kind.replace('_', ' ')} {document.key.id!r}"
        raise Damaged(f"the document of {what} is not one: {problem}", reason="corrupt", id=document.key.id) from None


def sound(document: Document, type: type[T], damaged: Telling) -> T | None:
    """Return what a document says. If it says nothing of the kind that is told, or raised."""
    try:
        return load(document, type)
    except Damaged as damage:
        if damaged is None:
            raise
        damaged(damage)
    return None


def put_memory(key: Key, memory: Memory, known: Said | None = None) -> Put:
    """Write a memory. Only an active one is given to the full-text index, so nothing else can be found in it.

    `known` is what it says, for whoever has worked that out already.
    """
    tags = {"status": memory.status, "owner": owner(memory.user_id, memory.project_id)}
    for ref in memory.source_refs:
        tags[source_tag(ref)] = "1"
    for tag in memory.tags:
        tags[free_tag(tag)] = "1"
    if memory.status != "active":
        return Put(key, pack(memory), tags)
    says = known or said(memory)
    tags |= {CONTENT: says.claim, **day_tag(memory.told_at), **month_tag(memory.told_at)}
    return Put(key, pack(memory), tags, says.text)


@lru_cache(maxsize=2_048)
def named(proposer: str) -> str:
    """Return the name under which the batches of a proposer are counted; half of it is their tag."""
    return digest(proposer)


def put_batch(space: str, batch: Batch) -> Put:
    tags = {"status": batch.status, "proposer": named(batch.proposer)[:32]}
    return Put(Key(space, BATCH, batch.id), pack(batch), tags)


def log(
    space: str,
    type: str,
    now: int,
    by: str,
    *,
    batch_id: str | None = None,
    added: list[str] | None = None,
    removed: list[str] | None = None,
    derived: list[str] | None = None,
) -> Append:
    """Record a change. `added` and `removed` are the memories that became findable, and those that no longer are;
    `derived` those that an erasure names and leaves.

    Reasons stand in batches and memories, where an erasure finds them.
    """
    body = {"batch_id": batch_id, "added": added or [], "removed": removed or []}
    if derived:
        body["derived"] = derived
    return Append(log_key(space), (Entry(type, pack(body), at=now, sender=by),))


def decided_by(space: str, proposer: str) -> Range:
    """Ask how many batches of a proposer were decided."""
    return Range(Key(space, DECIDED, named(proposer)), limit=0)


def tally(space: str, kind: str, batch: Batch, now: int, max_length: int | None = None) -> Append:
    """Count a batch of its proposer as staged or decided."""
    entry = Entry("BATCH", pack({"batch_id": batch.id}), at=now)
    return Append(Key(space, kind, named(batch.proposer)), (entry,), max_length)
