"""What happens to the memories of a run stands in its ledger, in the same commit."""

from __future__ import annotations

from typing import Any

from tests.services.memory_samples import mcr


async def types(run: Any) -> list[str]:
    return [event.type for event in await run.events()]


async def test_proposing_through_a_run_is_recorded_in_its_ledger(ctx: Any) -> None:
    run = await ctx.runs.create(objective="remember")
    batch = await ctx.memories.propose([mcr()], proposer="agent", run_id=run.id)
    [event] = await run.events(types=["MEMORY_PROPOSED"])
    assert event.payload == {"batch_id": batch.id, "proposer": "agent", "count": 1}


async def test_committing_a_batch_of_a_run_is_recorded_in_its_ledger(ctx: Any) -> None:
    run = await ctx.runs.create(objective="remember")
    batch = await ctx.memories.propose([mcr()], proposer="agent", run_id=run.id)
    done = await ctx.memories.commit(batch.id, reviewer="ana")
    [event] = await run.events(types=["MEMORY_COMMITTED"])
    assert event.payload == {"batch_id": batch.id, "memory_ids": list(done.memory_ids), "reviewer": "ana"}


async def test_rejecting_a_batch_of_a_run_is_recorded_in_its_ledger(ctx: Any) -> None:
    run = await ctx.runs.create(objective="remember")
    batch = await ctx.memories.propose([mcr()], proposer="agent", run_id=run.id)
    await ctx.memories.reject(batch.id, reason="not true", reviewer="ana")
    [event] = await run.events(types=["MEMORY_REJECTED"])
    assert event.payload == {"batch_id": batch.id, "reviewer": "ana", "reason": "not true"}


async def test_a_milestone_that_commits_a_batch_records_it_once(ctx: Any) -> None:
    run = await ctx.runs.create(objective="remember")
    batch = await ctx.memories.propose([mcr()], proposer="agent", run_id=run.id)
    await run.milestone("done", memory_batch_id=batch.id, reviewer="ana")
    assert (await types(run)).count("MEMORY_COMMITTED") == 1


async def test_the_ledger_tells_a_whole_day_in_order(ctx: Any, tmp_path: Any) -> None:
    run = await ctx.runs.create(objective="a day")
    await run.update(expected_seq=0, status="BUSY")
    try:
        await run.update(expected_seq=1, status="NO SUCH STATUS")
    except ValueError:
        pass
    batch = await ctx.memories.propose([mcr()], proposer="agent", run_id=run.id)
    await ctx.memories.commit(batch.id, reviewer="ana")
    await run.milestone("noon")
    await run.export(tmp_path / "pack.zip")
    restored = await ctx.runs.restore(tmp_path / "pack.zip", run_id="again")
    assert await types(run) == [
        "RUN_START",
        "WS_UPDATE_APPLIED",
        "WS_UPDATE_REJECTED",
        "MEMORY_PROPOSED",
        "MEMORY_COMMITTED",
        "MILESTONE",
        "SNAPSHOT",
    ]
    assert (await types(restored))[-1] == "RESTORED"
    assert (await run.verify()).ok
    assert (await restored.verify()).ok


async def test_a_run_that_does_not_exist_is_only_a_name_in_the_provenance(ctx: Any) -> None:
    batch = await ctx.memories.propose([mcr()], proposer="agent", run_id="elsewhere")
    assert (await ctx.memories.commit(batch.id, reviewer="ana")).memory_ids
