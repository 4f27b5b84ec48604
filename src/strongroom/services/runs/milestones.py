"""Making a milestone: read, summarise, and one commit of the episode, its events and a batch of memories."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any

from strongroom.errors import Conflict, InvalidInput
from strongroom.services.runs import episodes, history
from strongroom.services.runs.changes import WorkingSetJson
from strongroom.services.runs.ledger import event, recorded
from strongroom.services.runs.long_term import LongTerm, MemoryWrites
from strongroom.services.runs.repeats import receipt_of, used_otherwise
from strongroom.services.runs.state import Ref, Stored, record, retries, stored_in
from strongroom.store import Append, Commit, Entry, Expect, Get, Range, Receipt, Slice, Tail, new_id
from strongroom.values import Episode, Event

Summarizer = Callable[[Sequence[Event]], str | Awaitable[str]]


async def make(
    ref: Ref,
    memories: LongTerm | None,
    *,
    reason: str,
    memory_batch_id: str | None,
    next_entry_point: str,
    reviewer: str,
    summarizer: Summarizer | None,
    actor: str,
    parent: str | None,
    commit_id: str | None = None,
) -> Episode:
    """Make a milestone of the run as it is now. If it changes meanwhile, look again."""
    if (done := await receipt_of(ref, commit_id)) is not None:
        return await _made(ref, done)
    for _ in retries():
        stored, past = await _look(ref)
        batch = await _batch(memories, memory_batch_id, reviewer, ref.run_id)
        events: list[Entry] = []
        if batch is not None and batch.writes:
            told = {"batch_id": memory_batch_id, "memory_ids": list(batch.memory_ids), "reviewer": reviewer}
            events.append(record(ref, "MEMORY_COMMITTED", told, actor=actor, parent=parent))
        entry = await _episode(
            stored,
            _last(past),
            reason=reason,
            summarizer=summarizer or episodes.summarize,
            memory_ids=batch.memory_ids if batch else (),
            next_entry_point=next_entry_point,
        )
        made = episodes.read(recorded(entry, past.length))
        assert made is not None
        told = {"reason": reason, "episode_id": made.episode_id}
        digest = {"episode_sha256": sha256(entry.body).hexdigest()}
        events.append(record(ref, "MILESTONE", told, actor=actor, parent=parent, detail=digest))
        expects = (stored.unchanged, Expect(ref.episodes, past.length), *(batch.expects if batch else ()))
        writes = (
            Append(ref.episodes, (entry,)),
            Append(ref.ledger, tuple(events)),
            *(batch.writes if batch else ()),
        )
        commit = Commit(new_id() if commit_id is None else commit_id, expects, writes)
        try:
            receipt = await ref.scope.store.commit(commit)
        except Conflict as conflict:
            lost = conflict
            continue
        return made if commit_id is None else await _made(ref, receipt)
    raise lost


async def _made(ref: Ref, receipt: Receipt) -> Episode:
    """Return the milestone that a commit made."""
    place = receipt.versions[0]
    [page] = await ref.scope.store.read([Range(ref.episodes, place - 1, place)])
    made = episodes.read(page.records[0]) if page.records else None
    if made is None:
        raise used_otherwise(receipt.id)
    return made


async def make_if_due(ref: Ref, *, actor: str) -> Episode | None:
    """Make a milestone if the run's own caps say it is time: so many updates, or so many errors, since the last."""
    stored, past = await _look(ref)
    last, config = _last(past), stored.state.config
    reason = ""
    if config.milestone_step_cap is not None and episodes.steps_since(stored, last) >= config.milestone_step_cap:
        reason = f"automatic: {config.milestone_step_cap} updates"
    elif config.milestone_error_cap is not None:
        errors = [told for told in await _since(stored, last) if told.type == "ERROR"]
        if len(errors) >= config.milestone_error_cap:
            reason = f"automatic: {config.milestone_error_cap} errors"
    if not reason:
        return None
    return await make(
        ref,
        None,
        reason=reason,
        memory_batch_id=None,
        next_entry_point="",
        reviewer=actor,
        summarizer=None,
        actor=actor,
        parent=None,
    )


async def _look(ref: Ref) -> tuple[Stored, Slice]:
    document, events, past = await ref.scope.store.read(
        [Get(ref.key), Range(ref.ledger, limit=0), Tail(ref.episodes, 1)]
    )
    return stored_in(ref, document, events.length), past


def _last(past: Slice) -> Episode | None:
    return episodes.read(past.records[0]) if past.records else None


async def _batch(memories: LongTerm | None, batch_id: str | None, reviewer: str, run_id: str) -> MemoryWrites | None:
    if batch_id is None:
        return None
    if memories is None:
        raise InvalidInput("this context has no long-term memory to commit a batch to; nothing changed")
    return await memories.batch_writes(batch_id, reviewer=reviewer, run_id=run_id)


async def _episode(stored: Stored, last: Episode | None, *, summarizer: Summarizer, **rest: Any) -> Entry:
    summary = summarizer(await _since(stored, last))
    return episodes.make(
        stored,
        last,
        await _before(stored, last),
        summary=await summary if inspect.isawaitable(summary) else summary,
        **rest,
    )


async def _before(stored: Stored, last: Episode | None) -> WorkingSetJson:
    """Return the state the episode begins with: where the last one ended, or the run's first."""
    if last is not None:
        return last.ws_after.to_dict()
    async for step in history.replay(stored):
        if step.working_set is not None:
            return step.working_set.to_dict()
    return stored.working_set


async def _since(stored: Stored, last: Episode | None) -> list[Event]:
    """Return the events of an episode. Those of the milestone before it are its own business."""
    start = last.last_event if last else 0
    found = [event(kept, stored.working_set) async for kept in history.records(stored.ref, start, stored.length)]
    return [told for told in found if last is None or told.payload.get("episode_id") != last.episode_id]
