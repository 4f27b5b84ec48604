"""Milestones: one commit, frozen, and the same summary for the same events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from strongroom import schemas
from strongroom.errors import InvalidInput
from strongroom.services.memories.values import MemoryRequest
from strongroom.services.runs.episodes import MAX_SUMMARY, summarize
from strongroom.values import Event

REQUEST: MemoryRequest = {
    "_schema_version": "2.1",
    "op": "add",
    "type": "fact",
    "scope": "global",
    "content": "the site allows one request a second",
    "rationale": "its robots file says so",
    "confidence": 0.9,
    "source_refs": ["https://example.org/robots.txt"],
}


async def test_a_milestone_freezes_before_and_after(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="one")
    made = await run.milestone("half way", next_entry_point="step 2")
    await run.update(next_action="two")
    assert (made.ws_before.seq, made.ws_after.seq, made.ws_after.next_action) == (0, 1, "one")
    assert (made.reason, made.next_entry_point) == ("half way", "step 2")
    assert list(await run.episodes()) == [made]
    schemas.check("episode", made.to_dict())


async def test_each_milestone_begins_where_the_last_one_ended(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.milestone("a")
    await run.update(next_action="two")
    second = await run.milestone("b")
    assert second.ws_before == first.ws_after
    assert (first.first_event, first.last_event, second.first_event) == (1, 1, 2)
    assert second.summary.startswith("1 events: WS_UPDATE_APPLIED 1")


async def test_a_milestone_commits_its_memories_in_the_same_commit(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    batch = await ctx.memories.propose([REQUEST], proposer="agent-7", run_id="r")
    made = await run.milestone("learned", memory_batch_id=batch.id, reviewer="ana")
    assert len(made.memory_commits) == 1
    assert (await ctx.memories.get(made.memory_commits[0])).content == REQUEST["content"]
    assert [event.type for event in await run.events()][-2:] == ["MEMORY_COMMITTED", "MILESTONE"]


@pytest.mark.parametrize("who", [{}, {"actor": "ana"}, {"reviewer": "agent-7"}, {"reviewer": "AGENT-7"}])
async def test_nobody_approves_memories_by_keeping_silent_or_for_themselves(ctx: Any, who: dict[str, str]) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    batch = await ctx.memories.propose([REQUEST], proposer="agent-7", run_id="r")
    with pytest.raises(InvalidInput, match=r"reviewer.*nothing changed"):
        await run.milestone("learned", memory_batch_id=batch.id, **who)
    assert list(await run.episodes()) == []
    assert [pending.id for pending in await ctx.memories.pending()] == [batch.id]


async def test_a_batch_that_cannot_be_committed_makes_no_milestone(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    batch = await ctx.memories.propose([REQUEST], proposer="agent-7", run_id="another")
    with pytest.raises(InvalidInput):
        await run.milestone("learned", memory_batch_id=batch.id, reviewer="ana")
    assert list(await run.episodes()) == []
    assert [event.type for event in await run.events()] == ["RUN_START"]


async def test_a_summarizer_replaces_the_summary(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")

    def mine(events: Sequence[Event]) -> str:
        return f"{len(events)} things" + "!" * 2000

    made = await run.milestone("m", summarizer=mine)
    assert made.summary.startswith("1 things!")
    assert len(made.summary) == MAX_SUMMARY


async def test_milestones_come_by_themselves_after_so_many_updates(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"milestone_step_cap": 2})
    for place in range(5):
        await run.update(next_action=str(place))
    assert [made.ws_after.seq for made in await run.episodes()] == [2, 4]


async def test_milestones_come_by_themselves_after_so_many_errors(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"milestone_error_cap": 2})
    for place in range(5):
        await run.record("ERROR", {"error_type": "Timeout", "message": str(place)})
    assert len(await run.episodes()) == 2


async def test_without_a_cap_there_is_no_milestone(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.record("ERROR", {"error_type": "Timeout", "message": "m"})
    await run.update(status="FAILED")
    assert list(await run.episodes()) == []


async def test_the_same_events_have_the_same_summary(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    for place in range(9):
        await run.record("TOOL_CALL", {"tool_name": "t" * 300, "arguments": place})
    events = await run.events()
    assert summarize(events) == summarize(tuple(events))
    assert len(summarize(events)) <= MAX_SUMMARY
    assert summarize([]) == "no events"
