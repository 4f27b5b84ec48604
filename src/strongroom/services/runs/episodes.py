"""Milestones: a frozen before and after of a run, and a summary of what happened between (pure).

Episodes are records of a stream of their own, so they can only be added. The first begins with the run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.services.runs.changes import WorkingSetJson
from strongroom.services.runs.state import Stored
from strongroom.services.runs.working_set import view
from strongroom.store import Entry, Record
from strongroom.values import Episode, Event, moment

TYPE = "episode"
MAX_SUMMARY = 1200
SHOWN_EVENTS = 5

Summarizer = Callable[[Sequence[Event]], str]


def summarize(events: Sequence[Event]) -> str:
    """Count what happened by type, and name the last few events. The same events give the same words."""
    counts = Counter(event.type for event in events)
    tally = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    lines = [f"{len(events)} events: {tally}" if events else "no events"]
    lines += [f"{event.sequence_id} {event.type}: {_gist(event)}" for event in events[-SHOWN_EVENTS:]]
    return "\n".join(lines)[:MAX_SUMMARY]


def _gist(event: Event) -> str:
    return encode(event.payload).decode()[:160]


def make(
    stored: Stored,
    previous: Episode | None,
    ws_before: WorkingSetJson,
    *,
    reason: str,
    summary: object,
    memory_ids: Sequence[str],
    next_entry_point: str,
) -> Entry:
    """Return the episode to append."""
    if not isinstance(summary, str):
        raise InvalidInput(f"a summarizer must return text, not {type(summary).__name__}; nothing changed")
    at = stored.ref.scope.clock()
    body = {
        "episode_id": "ep_" + os.urandom(8).hex(),
        "reason": reason,
        "summary": summary[:MAX_SUMMARY],
        "ws_before": ws_before,
        "ws_after": stored.working_set,
        "memory_commits": list(memory_ids),
        "next_entry_point": next_entry_point,
        "first_event": previous.last_event + 1 if previous else 1,
        "last_event": stored.length,
    }
    return Entry(TYPE, encode(body), at=at)


def steps_since(stored: Stored, previous: Episode | None) -> int:
    """Return how many updates there were since the last milestone."""
    return stored.seq - (previous.ws_after.seq if previous else 0)


def read(record: Record) -> Episode | None:
    """Return the episode in a record (None: erased)."""
    if record.body is None:
        return None
    body: dict[str, Any] = record.body.load()
    return msgspec.convert(
        {
            **body,
            "created_at": moment(record.at),
            "ws_before": view(body["ws_before"]),
            "ws_after": view(body["ws_after"]),
        },
        Episode,
    )
