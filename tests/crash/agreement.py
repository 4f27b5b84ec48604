"""What must be true of the runs in a store, whatever happened to those who wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.values import Event


def agree(ctx: Context) -> None:
    """Check that the state, the ledger, the episodes, the artifacts and the memories of every run tell one story."""
    after: str | None = None
    waiting = {batch.id for batch in ctx.memories.pending()}
    while True:
        page = ctx.runs.list(after=after)
        for run in page:
            check(ctx, run, waiting)
        after = page.next
        if after is None:
            return


def check(ctx: Context, run: Run, waiting: set[str]) -> None:
    found = run.verify()
    assert found.ok, f"{run.id} does not verify: {found}"
    steps = list(run.replay())
    events = [step.event for step in steps]
    assert steps[-1].working_set == run.working_set, f"{run.id}: the state is not what its events lead to"
    assert [event.sequence_id for event in events] == list(range(1, len(events) + 1)), f"{run.id}: a gap"
    assert run.seq == versions(events), f"{run.id}: it is at {run.seq}, and its events tell of {versions(events)}"
    told = [event.payload["episode_id"] for event in events if event.type == "MILESTONE" and not event.erased]
    assert [made.episode_id for made in run.episodes(limit=1000)] == told, f"{run.id}: an episode nobody tells of"
    for event in events:
        if event.type == "MEMORY_COMMITTED" and not event.erased:
            assert event.payload["batch_id"] not in waiting, f"{run.id}: a batch committed and still waiting"
            assert {ctx.memories.get(id).status for id in event.payload["memory_ids"]} <= {"active"}, run.id
    for pointer in run.working_set.artifact_refs:
        assert b"".join(run.artifact(pointer.id)), f"{run.id}: an artifact without content"


def versions(events: Sequence[Event]) -> int:
    """Return how many updates a ledger tells of: those that were made, and each erasure, which empties the state."""
    made = ("WS_UPDATE_APPLIED", "ERASED")
    return sum(event.type in made and (event.detail is not None or event.erased) for event in events)
