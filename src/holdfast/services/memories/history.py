"""The life of memories, told from the memories themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.services.memories.values import Change, Memory

# At one instant an end comes before the beginning that caused it, and a revocation comes last.
_ORDER = ("proposed", "superseded", "deprecated", "expired", "committed", "revoked")


def changes(memories: Iterable[Memory]) -> list[Change]:
    """Return every step in the lives of these memories, oldest first."""
    found: list[Change] = []
    for memory in memories:
        proposed = Change(
            at=memory.proposed_at,
            event="proposed",
            memory_id=memory.id,
            by=memory.proposer,
            content=memory.content,
            reason=memory.rationale,
            batch_id=memory.batch_id,
            run_id=memory.run_id,
        )
        found += [proposed, replace(proposed, at=memory.created_at, event="committed", by=memory.reviewer)]
        found.extend(
            Change(
                at=ended.at,
                event=ended.status,
                memory_id=memory.id,
                by=ended.by,
                content=memory.content,
                reason=ended.reason,
            )
            for ended in memory.ended
        )
    return sorted(found, key=lambda change: (change.at, _ORDER.index(change.event), change.memory_id))
