"""The life of memories and of batches, told from themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from strongroom.services.memories.values import Batch, Change, Memory
from strongroom.services.memories.writes import receipt

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


def run_events(batch: Batch, proposed: bool) -> list[tuple[str, dict[str, Any]]]:
    """Say what happened to a batch, in the words of a run's ledger."""
    events: list[tuple[str, dict[str, Any]]] = []
    if proposed:
        events.append(
            ("MEMORY_PROPOSED", {"batch_id": batch.id, "proposer": batch.proposer, "count": len(batch.proposals)})
        )
    if batch.status == "committed":
        done = receipt(batch)
        events.append(
            (
                "MEMORY_COMMITTED",
                {"batch_id": batch.id, "memory_ids": list(done.memory_ids), "reviewer": batch.reviewer or ""},
            )
        )
    if batch.status == "rejected":
        told = {"batch_id": batch.id, "reviewer": batch.reviewer or "", "reason": batch.reason}
        events.append(("MEMORY_REJECTED", told))
    return events
