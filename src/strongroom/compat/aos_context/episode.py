"""create_episode: freeze a before and an after into a JSON file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strongroom.compat.aos_context._episodes import write_episode
from strongroom.compat.aos_context.ledger import utc_iso
from strongroom.compat.aos_context.validation import validate_instance
from strongroom.errors import StrongroomError
from strongroom.services.runs.episodes import summarize
from strongroom.values import SCHEMA_VERSION, Event


@dataclass
class EpisodeResult:
    ok: bool
    episode_path: Path | None = None
    episode_id: str | None = None
    error: str | None = None


def create_episode(
    *,
    episodes_dir: Path,
    ws_before: dict[str, Any],
    ws_after: dict[str, Any],
    ledger_events_since_last: list[dict[str, Any]],
    memory_commit_ids: list[str] | None = None,
    next_entry_point: str = "",
) -> EpisodeResult:
    """Write `<episode_id>.v2.1.json`, complete or not at all. Its id is new, so no episode is ever overwritten."""
    episode: dict[str, Any] = {
        "_schema_version": SCHEMA_VERSION,
        "episode_id": "ep_" + os.urandom(8).hex(),
        "created_at": utc_iso(),
        "summary": summarize([_event(told, place) for place, told in enumerate(ledger_events_since_last, 1)]),
        "ws_before": ws_before,
        "ws_after": ws_after,
        "memory_commits": list(memory_commit_ids or ()),
        "next_entry_point": next_entry_point,
    }
    result = validate_instance("episode", episode)
    if not result.ok:
        return EpisodeResult(False, error=f"episode schema: {result.error}")
    try:
        return EpisodeResult(True, write_episode(Path(episodes_dir), episode), episode["episode_id"])
    except (OSError, StrongroomError) as problem:
        return EpisodeResult(False, error=f"save: {problem}")


def _event(told: dict[str, Any], place: int) -> Event:
    return Event(
        sequence_id=told.get("sequence_id") or place,
        event_id=str(told.get("event_id", "")),
        type=str(told.get("event_type", "")),
        payload=dict(told.get("payload") or {}),
        actor=str(told.get("writer_id", "")),
        at=datetime.now(UTC),
        run_id=str(told.get("run_id", "")),
        task_id=str(told.get("task_id", "")),
        thread_id=str(told.get("thread_id", "")),
    )
