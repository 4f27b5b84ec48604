"""Memory items as their callers know them, and memories as Strongroom keeps them.

When the store learnt something is the store's to say. The times that a caller gave are kept beside that, and an item
tells those.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from strongroom.services.memories.values import Memory
from strongroom.values import iso

TIMES = ("created_at", "updated_at")
# What became of an item that is not active, in our words.
ENDS = {"deprecated": "deprecated", "inactive": "expired"}
WHY = "added as an item"
_KEPT = ("type", "scope", "content", "confidence", "source_refs", "user_id", "project_id", "supersedes")


def given_times(told: Mapping[str, Any]) -> dict[str, str]:
    """Return the times of a request or an item, as metadata of the memory that it becomes."""
    return {f"aos.{name}": told[name] for name in TIMES if told.get(name) is not None}


def as_item(memory: Memory) -> dict[str, Any]:
    """Return a memory as an item, with the times it was given, as far as nothing has happened to it since."""
    told = TIMES if memory.updated_at == memory.created_at else TIMES[:1]
    given = {name: memory.metadata[f"aos.{name}"] for name in told if f"aos.{name}" in memory.metadata}
    return memory.to_dict() | given


def as_memory(item: Mapping[str, Any], by: str, at: datetime) -> dict[str, Any]:
    """Return an item as the plain data of a memory that becomes known now, whatever its status."""
    now, ended = iso(at), ENDS.get(item["status"])
    return {
        **{name: item[name] for name in _KEPT if item.get(name) is not None},
        "id": item["memory_id"],
        "rationale": WHY,
        "status": ended or "active",
        "trust": "unverified",
        "proposer": by,
        "reviewer": by,
        "batch_id": "-",
        "proposed_at": now,
        "created_at": now,
        "updated_at": now,
        "ended": [{"status": ended, "at": now, "by": by, "reason": WHY}] if ended else [],
        "metadata": given_times(item),
    }
