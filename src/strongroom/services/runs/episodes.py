"""Milestones: a frozen before and after of a run, and a summary of what happened between.

Episodes are records of a stream of their own, so they can only be added. The first begins with the run. One is made in
one commit, together with its events and a batch of memories.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from strongroom.codec import Json, encode
from strongroom.errors import InvalidInput
from strongroom.operations import Operation, Plan, Undecided, perform
from strongroom.services.runs import history
from strongroom.services.runs.history import episode_digest
from strongroom.services.runs.ledger import event, recorded
from strongroom.services.runs.own_state import without
from strongroom.services.runs.state import Ref, Stored, erased, record, stored_in
from strongroom.services.runs.working_set import WorkingSetJson, view
from strongroom.store import Append, Entry, Expect, Get, Range, Receipt, Record, Slice, Tail, Write
from strongroom.values import Episode, Event, Listing, moment

TYPE = "episode"
MAX_SUMMARY = 1200
SHOWN_EVENTS = 5

Summarizer = Callable[[Sequence[Event]], str | Awaitable[str]]


class Summarized(Struct, frozen=True):
    """A summary that was made elsewhere, of a run as it was seen there; None if there is none yet."""

    seen: list[int]
    summary: str

    def __call__(self, events: Sequence[Event]) -> str:
        return self.summary

    def of(self, stored: Stored, past: Slice) -> str:
        if self.seen != _seen(stored, past):
            raise Undecided
        return self.summary[:MAX_SUMMARY]


def summarize(events: Sequence[Event]) -> str:
    """Count what happened by type, and name the last few events. The same events give the same words."""
    counts = Counter(event.type for event in events)
    tally = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    lines = [f"{len(events)} events: {tally}" if events else "no events"]
    lines += [f"{event.sequence_id} {event.type}: {_gist(event)}" for event in events[-SHOWN_EVENTS:]]
    return "\n".join(lines)[:MAX_SUMMARY]


def _gist(event: Event) -> str:
    return encode(event.payload).decode()[:160]


def read(record: Record) -> Episode | None:
    """Return the episode in a record (None: erased)."""
    if record.body is None:
        return None
    body: dict[str, Any] = record.body.load()
    sides = {side: view(body[side]) for side in ("ws_before", "ws_after")}
    return msgspec.convert({**body, **sides, "created_at": moment(record.at)}, Episode)


async def page(ref: Ref, after: int, limit: int) -> Listing[Episode]:
    """Return episodes, oldest first, from place `after`."""
    found = await ref.scope.get(Range(ref.episodes, after, None, limit))
    end = found.records[-1].index + 1 if found.records else found.length
    made = (read(kept) for kept in found.records)
    return Listing((one for one in made if one is not None), str(end) if end < found.length else None)


async def make(
    ref: Ref,
    memories: LongTerm | None = None,
    *,
    reason: str,
    memory_batch_id: str | None = None,
    next_entry_point: str = "",
    reviewer: str | None = None,
    summarizer: Summarizer | Summarized | None = None,
    actor: str,
    parent: str | None = None,
    commit_id: str | None = None,
) -> Episode:
    """Make a milestone of the run as it is now. If it changes meanwhile, look again."""

    async def attempt() -> Plan[Episode]:
        stored, past = await _look(ref)
        summary = await _summary(summarizer or summarize, stored, past)
        batch = await _batch(memories, memory_batch_id, reviewer, ref.run_id)
        events: list[Entry] = []
        if batch is not None and batch.writes:
            told = {"batch_id": memory_batch_id, "memory_ids": list(batch.memory_ids), "reviewer": reviewer}
            events.append(record(ref, "MEMORY_COMMITTED", told, actor=actor, parent=parent))
        entry = await _entry(
            stored,
            _last(past),
            summary=summary,
            reason=reason,
            memory_commits=list(batch.memory_ids) if batch else [],
            next_entry_point=next_entry_point,
        )
        made = read(recorded(entry, past.length))
        assert made is not None
        told = {"reason": reason, "episode_id": made.episode_id}
        digest = {"episode_sha256": episode_digest(entry.at, entry.body)}
        events.append(record(ref, "MILESTONE", told, actor=actor, parent=parent, detail=digest))
        return Plan(
            (stored.unchanged, Expect(ref.episodes, past.length), *(batch.expects if batch else ())),
            (
                Append(ref.episodes, (entry,)),
                Append(ref.ledger, tuple(events)),
                *(batch.writes if batch else ()),
            ),
            lambda receipt: made,
        )

    async def replay(receipt: Receipt) -> Episode:
        place = receipt.versions[0]
        found = await ref.scope.get(Range(ref.episodes, place - 1, place))
        made = read(found.records[0]) if found.records else None
        if made is None:
            raise erased(ref, "milestone")
        return made

    async def decide() -> Json:
        stored, past = await _look(ref)
        return encode({"seen": _seen(stored, past), "summary": await _summary(summarizer or summarize, stored, past)})

    asked = {"reason": reason, "memory_batch_id": memory_batch_id, "next_entry_point": next_entry_point}
    content = encode({**asked, "reviewer": reviewer, "actor": actor, "parent": parent})
    operation = Operation("run.milestone" if summarizer is None else "run.summarized", ref.key, content, commit_id)
    return await perform(ref.scope, operation, attempt, replay, None if summarizer is None else decide)


async def make_if_due(ref: Ref, *, actor: str) -> bool:
    """Make a milestone if the run's own caps say it is time: so many updates, or so many errors, since the last.

    Return whether it was.
    """
    stored, past = await _look(ref)
    last, config = _last(past), stored.state.config
    steps = stored.seq - (last.ws_after.seq if last else 0)
    reason = ""
    if config.milestone_step_cap is not None and steps >= config.milestone_step_cap:
        reason = f"automatic: {config.milestone_step_cap} updates"
    elif config.milestone_error_cap is not None:
        errors = [told for told in await _since(stored, last) if told.type == "ERROR"]
        if len(errors) >= config.milestone_error_cap:
            reason = f"automatic: {config.milestone_error_cap} errors"
    if reason:
        await make(ref, reason=reason, actor=actor)
    return bool(reason)


async def _look(ref: Ref) -> tuple[Stored, Slice]:
    document, events, past = await ref.scope.read(Get(ref.key), Range(ref.ledger, limit=0), Tail(ref.episodes, 1))
    return stored_in(ref, document, events.length), past


def _last(past: Slice) -> Episode | None:
    return read(past.records[0]) if past.records else None


async def _batch(
    memories: LongTerm | None, batch_id: str | None, reviewer: str | None, run_id: str
) -> MemoryWrites | None:
    if batch_id is None:
        return None
    if reviewer is None:
        raise InvalidInput(
            "a batch of memories is committed by somebody: name a reviewer, who is not its proposer unless the policy "
            "says review_own=True; nothing changed",
            path="reviewer",
        )
    if memories is None:
        raise InvalidInput("this context has no long-term memory to commit a batch to; nothing changed")
    return await memories.batch_writes(batch_id, reviewer=reviewer, run_id=run_id)


async def _summary(summarizer: Summarizer | Summarized, stored: Stored, past: Slice) -> str:
    """Return what is to be said of what happened since the last milestone."""
    if isinstance(summarizer, Summarized):
        return summarizer.of(stored, past)
    answer = summarizer(await _since(stored, _last(past)))
    summary: object = await answer if inspect.isawaitable(answer) else answer
    if not isinstance(summary, str):
        raise InvalidInput(f"a summarizer must return text, not {type(summary).__name__}; nothing changed")
    return summary[:MAX_SUMMARY]


def _seen(stored: Stored, past: Slice) -> list[int]:
    return [stored.version, stored.length, past.length]


async def _entry(stored: Stored, last: Episode | None, **told: Any) -> Entry:
    """Return the episode to append."""
    body = {
        **told,
        "episode_id": "ep_" + os.urandom(8).hex(),
        "ws_before": await _before(stored, last),
        "ws_after": without(stored.working_set),
        "first_event": last.last_event + 1 if last else 1,
        "last_event": stored.length,
    }
    return Entry(TYPE, encode(body), at=stored.ref.scope.clock())


async def _before(stored: Stored, last: Episode | None) -> WorkingSetJson:
    """Return the state the episode begins with: where the last one ended, or the run's first."""
    if last is not None:
        return last.ws_after.to_dict()
    async for step in history.replay(stored):
        if step.working_set is not None:
            return step.working_set.to_dict()
    return without(stored.working_set)


async def _since(stored: Stored, last: Episode | None) -> list[Event]:
    """Return the events of an episode. Those of the milestone before it are its own business."""
    start = last.last_event if last else 0
    found = [event(kept, stored.working_set) async for kept in history.records(stored.ref, start, stored.length)]
    return [told for told in found if last is None or told.payload.get("episode_id") != last.episode_id]


# ---- what runs need of long-term memory -----------------------------------------------------------------------------


class MemoryWrites(Protocol):
    """What to join to a commit so that memories are made with it."""

    @property
    def expects(self) -> tuple[Expect, ...]: ...
    @property
    def writes(self) -> tuple[Write, ...]: ...
    @property
    def memory_ids(self) -> tuple[str, ...]: ...


class LongTerm(Protocol):
    """Memory that outlives a run."""

    async def batch_writes(self, batch_id: str, *, reviewer: str, run_id: str | None = None) -> MemoryWrites:
        """Say what commits a batch; write nothing."""
        ...

    async def search(self, query: str, k: int = 8, *, user_id: str | None, project_id: str | None) -> Sequence[Any]:
        """Return hits, best first; each has a `memory` with `id`, `content` and `confidence`."""
        ...


@runtime_checkable
class Packable(Protocol):
    """Long-term memory that can travel in a resume pack."""

    async def pack_items(self, memory_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return memories as plain JSON."""
        ...

    async def unpack_writes(self, items: Sequence[Mapping[str, Any]]) -> MemoryWrites:
        """Say what brings memories from a pack back, leaving those already known alone; write nothing."""
        ...
