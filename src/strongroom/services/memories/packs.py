"""Memories that travel in a resume pack. Pure.

Restoring a pack is an operator's act, like restoring a backup, so its memories need no review; but a pack comes from
outside, so what it says about trust is not believed: everything in it comes back `untrusted`. And it obeys the rules of
whoever takes it in, as if it had been proposed there: the limits of the policy, and that it says whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import pack
from strongroom.errors import Conflict, InvalidInput
from strongroom.services.memories import keys
from strongroom.services.memories.blanking import is_blank
from strongroom.services.memories.decisions import World, end
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.requests import check_content, check_rules
from strongroom.services.memories.values import Memory, Request
from strongroom.store import Expect, Key, Write, require_name
from strongroom.values import moment

RESTORER = "pack"
# What a memory has of the request that made it. When it was made is the store's to say, and its end is its own.
_REQUESTED = set(Request.__struct_fields__) & set(Memory.__struct_fields__) - {
    "created_at",
    "updated_at",
    "expires_at",
    "trust",
}


class PackWrites(Struct, frozen=True):
    """What to join to a commit so that the memories of a pack are known with it."""

    expects: tuple[Expect, ...]
    writes: tuple[Write, ...]
    memory_ids: tuple[str, ...]


def items(memories: Sequence[Memory]) -> list[dict[str, Any]]:
    """Return memories as plain JSON, everything included."""
    return [msgspec.to_builtins(memory) for memory in memories]


def read(item: Mapping[str, Any], place: int, policy: Policy) -> Memory:
    """Read one item, believing nothing: neither its form nor its trust, nor that it was ever proposed."""
    path = f"memories[{place}]"
    try:
        memory = msgspec.convert(dict(item), Memory)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"{problem}; nothing changed", path=path) from None
    require_name(memory.id, f"{path}.id")
    for field in ("user_id", "project_id", "proposer", "reviewer", "batch_id"):
        value = getattr(memory, field)
        if value is not None:
            require_name(value, f"{path}.{field}")
    times = (memory.proposed_at, memory.created_at, memory.updated_at, memory.expires_at, *(e.at for e in memory.ended))
    if any(time is not None and time.tzinfo is None for time in times):
        raise InvalidInput("a time without a zone; nothing changed", path=path)
    if not 0 <= memory.confidence <= 1 or not memory.content or memory.derived_from != _cited(memory):
        raise InvalidInput("not a memory this system could have made; nothing changed", path=path)
    pack(memory)
    if not is_blank(memory):
        _check_proposable(memory, policy, path)
    return replace(memory, trust="untrusted")


def _check_proposable(memory: Memory, policy: Policy, path: str) -> None:
    """Raise unless a request for this memory would be taken. That it has expired since is no fault."""
    said = {name: getattr(memory, name) for name in _REQUESTED}
    op = "supersede" if memory.supersedes else "add"
    try:
        request = msgspec.convert(said | {"op": op, "memory_id": memory.id}, Request)
        check_rules(request, policy, memory.created_at)
        if memory.edited_from is not None:
            check_content(memory.edited_from, policy)
    except (msgspec.ValidationError, InvalidInput) as problem:
        raise InvalidInput(f"a memory that nobody could propose here: {problem}; nothing changed", path=path) from None


def questions(space: str, memories: Sequence[Memory]) -> list[Key]:
    """Return the keys that bringing these memories back depends on."""
    found: dict[Key, None] = {}
    for memory in memories:
        found[Key(space, keys.MEMORY, memory.id)] = None
        for ref in memory.source_refs:
            found[keys.revocation_key(space, ref)] = None
    return list(found)


def decide(space: str, memories: Sequence[Memory], world: World, now: int, *, new: bool) -> PackWrites:
    """Say what brings these memories back; nothing is known twice.

    One whose id is here already stays as it is, or is a `Conflict` if all must be `new`.
    """
    writes: list[Write] = []
    added: list[str] = []
    claimed: dict[str, str] = {}
    brought: dict[str, Memory] = {}
    for place, memory in enumerate(memories):
        if memory.id in brought:
            raise InvalidInput(f"memory {memory.id!r} is in the pack twice; nothing changed", path=f"memories[{place}]")
        there = world.get(key := Key(space, keys.MEMORY, memory.id))
        if there is not None and new:
            raise Conflict(
                f"there is a memory {memory.id!r} already; nothing changed", expected=0, actual=there.version, key=key
            )
        if there is not None:
            continue
        content = keys.said(memory).claim
        twin = claimed.get(content) or world.holders.get(content)
        if any(world.get(keys.revocation_key(space, ref)) is not None for ref in memory.source_refs):
            memory = end(memory, "revoked", RESTORER, "its source was revoked here", moment(now))
        elif memory.status == "active" and twin is not None:
            memory = replace(end(memory, "superseded", RESTORER, "known already", moment(now)), superseded_by=twin)
        if memory.status == "active":
            claimed[content] = memory.id
            added.append(memory.id)
        brought[memory.id] = memory
    writes += [keys.put_memory(Key(space, keys.MEMORY, id), memory) for id, memory in brought.items()]
    if brought:
        writes.append(keys.log(space, "RESTORED", now, RESTORER, added=added))
    return PackWrites(tuple(world.expects()), tuple(writes), tuple(brought))


def _cited(memory: Memory) -> tuple[str, ...]:
    """Return what a memory says it derives from, as far as it also cites it."""
    return tuple(ref for ref in memory.derived_from if ref in memory.source_refs)
