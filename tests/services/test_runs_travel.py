"""Runs over time: what leaves and stays readable, and what they were before."""

from __future__ import annotations

from typing import Any

import pytest

import strongroom
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, NotFound
from tests.services.test_runs import item, types

# ---- eviction, through the whole -----------------------------------------------------------------------------------


async def test_what_no_longer_fits_leaves_with_a_receipt_and_stays_readable(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"ws_max_tokens": 300})
    await run.update(sliding_context=[item("low", priority=1, words=70), item("high", priority=9, words=70)])
    after = await run.update(next_action="word " * 80)
    assert [kept.id for kept in after.sliding_context] == ["high"]
    receipt = run.eviction
    assert [gone.id for gone in receipt.evicted] == ["low"]
    assert receipt.tokens_after <= receipt.max_tokens < receipt.tokens_before
    assert (await run.events())[-1].detail["eviction"]["evicted"][0]["id"] == "low"
    assert (await run.at(after.seq - 1)).sliding_context[0].content == item("low", words=70)["content"]


async def test_an_item_that_never_got_in_is_still_readable_in_history(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"ws_max_tokens": 250})
    big, small = item("big", priority=9, words=140), item("small", priority=0, words=80)
    after = await run.update(sliding_context=[big, small])
    assert [kept.id for kept in after.sliding_context] == ["big"]
    assert (await run.events())[-1].detail["never_kept"] == [small]


async def test_an_item_too_big_to_ever_fit_is_refused_by_name(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"ws_max_tokens": 250})
    await run.update(sliding_context=[item("fine")])
    with pytest.raises(BudgetExceeded, match="'huge'"):
        await run.update(append={"sliding_context": [item("huge", words=5000)]})
    assert [kept.id for kept in (await run.refresh()).sliding_context] == ["fine"]


async def test_more_pinned_items_than_configured_are_refused(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"pinned_context_max_items": 0})
    with pytest.raises(BudgetExceeded):
        await run.update(pinned_context=[{"id": "p", "content": "c", "source_ref": ""}])


# ---- time travel ----------------------------------------------------------------------------------------------------


async def test_every_version_is_readable(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    seen = [run.working_set]
    for place in range(1, 30):
        await run.record("MODEL_ACTION", {"action": place})
        seen.append(await run.update(next_action=f"step {place}", append={"blockers": [f"b{place}"]}))
    assert [await run.at(seq) for seq in range(30)] == seen


def test_after_many_events_an_update_stores_the_whole_state_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.services.runs.state.SNAPSHOT_RECORDS", 8)
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", acceptance_criteria=["long enough that a change is cheaper"] * 20)
        run.update(next_action="near")
        for _ in range(8):
            run.record("TOOL_CALL", {"tool_name": "t"})
        run.update(next_action="far")
        near, far = (event.detail or {} for event in run.events(types=["WS_UPDATE_APPLIED"]))
    assert ("state" in near, "state" in far) == (False, True)


async def test_a_version_that_never_was_is_not_found(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises(NotFound):
        await run.at(1)
    with pytest.raises(InvalidInput):
        await run.at(-1)


async def test_a_diff_names_fields_and_items(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(blockers=["a", "b"], status="BUSY")
    await run.update(blockers=["b", "c"])
    changes = {change.field: change for change in (await run.diff(0, 2)).changes}
    assert set(changes) == {"blockers", "status"}
    assert (changes["status"].before, changes["status"].after) == ("BOOT", "BUSY")
    later = (await run.diff(1, 2)).changes[0]
    assert (later.added, later.removed) == (("c",), ("a",))


async def test_a_diff_goes_up_to_what_is_there_now(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(status="BUSY")
    older = await ctx.runs.get(run.id)
    await run.update(next_action="fetch")
    assert await older.diff(0) == await run.diff(0, 2) and (await older.diff(2)).changes == ()


async def test_a_rollback_is_a_new_update(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="one")
    await run.update(next_action="two", blockers=["x"])
    after = await run.rollback(1)
    assert (after.seq, after.next_action, after.blockers) == (3, "one", ())
    assert (await run.at(2)).next_action == "two"
    assert (await types(run))[-2:] == ["WS_UPDATE_APPLIED", "ROLLED_BACK"]


async def test_a_stale_rollback_is_refused(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="one")
    await (await ctx.runs.get(run.id)).update(next_action="two")
    with pytest.raises(Conflict):
        await run.rollback(0)


async def test_a_fork_begins_where_the_other_was_and_leaves_it_alone(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    await run.update(next_action="one")
    await run.update(next_action="two")
    child = await run.fork(1, run_id="child")
    assert (child.id, child.working_set.run_id, child.seq, child.working_set.next_action) == (
        "child",
        "child",
        0,
        "one",
    )
    await child.update(next_action="other way")
    assert (await run.refresh()).next_action == "two"
    assert (await types(child))[:2] == ["RUN_START", "FORKED"]
    assert (await run.events())[-1].payload == {"seq": 1, "to_run_id": "child"}


async def test_a_fork_onto_an_existing_id_is_refused(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    with pytest.raises(Conflict):
        await run.fork(0, run_id="r")
    assert await types(run) == ["RUN_START"]


async def test_a_replay_shows_each_event_with_the_state_after_it(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.record("TOOL_CALL", {"tool_name": "t"})
    await run.update(next_action="one")
    steps = [step async for step in run.replay()]
    assert [(step.event.type, step.working_set.next_action) for step in steps] == [
        ("RUN_START", ""),
        ("TOOL_CALL", ""),
        ("WS_UPDATE_APPLIED", "one"),
    ]
