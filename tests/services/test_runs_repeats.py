"""Operations on runs under a commit id: a repeat does nothing more, and is answered with what the first one made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import bridge
from strongroom.bridge import Inline
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.store import Scan
from tests.services.memory_samples import mcr


async def test_a_repeated_start_returns_the_run_as_it_is_by_now(ctx: Any) -> None:
    first = await ctx.runs.create(objective="o", commit_id="c")
    await first.update(next_action="on the way")
    again = await ctx.runs.create(objective="o", commit_id="c")
    assert (again.id, again.seq) == (first.id, 1)
    assert len(await ctx.runs.list()) == 1


async def test_a_repeated_start_with_an_id_is_not_a_conflict(ctx: Any) -> None:
    await ctx.runs.create(objective="o", run_id="mine", commit_id="c")
    assert (await ctx.runs.create(objective="o", run_id="mine", commit_id="c")).id == "mine"


async def test_an_id_that_is_taken_stays_taken_for_another_commit(ctx: Any) -> None:
    await ctx.runs.create(objective="o", run_id="mine", commit_id="c")
    with pytest.raises(Conflict):
        await ctx.runs.create(objective="o", run_id="mine", commit_id="another")


async def test_a_repeated_rollback_goes_back_once(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="a")
    first = await run.rollback(0, expected_seq=1, commit_id="c")
    await run.update(next_action="b")
    assert await run.rollback(0, expected_seq=1, commit_id="c") == first
    assert (await run.refresh()).next_action == "b"
    assert [event.type for event in await run.events()].count("ROLLED_BACK") == 1


async def test_a_repeated_milestone_is_one_milestone(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    batch = await ctx.memories.propose([mcr("a fact")], proposer="agent")
    first = await run.milestone("r", memory_batch_id=batch.id, reviewer="ana", commit_id="c")
    await run.milestone("another")
    assert await run.milestone("r", memory_batch_id=batch.id, reviewer="ana", commit_id="c") == first
    assert [episode.reason for episode in await run.episodes()] == ["r", "another"]


async def test_a_repeated_fork_is_one_run(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.fork(commit_id="c")
    await run.update(next_action="a")
    assert (await run.fork(commit_id="c")).id == first.id
    assert len(await ctx.runs.list()) == 2
    assert (await run.verify()).ok


async def test_what_an_update_expects_is_no_part_of_what_it_asks_for(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.update(expected_seq=0, next_action="a", commit_id="c")
    resumed = await ctx.runs.get(run.id)
    assert await resumed.update(expected_seq=resumed.seq, next_action="a", commit_id="c") == first
    assert (await run.refresh()).seq == 1


async def test_a_repeat_through_a_handle_that_saw_more_does_not_set_it_back(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="a", commit_id="c")
    await run.update(next_action="b")
    assert (await run.update(next_action="a", commit_id="c")).next_action == "a"
    assert (run.seq, run.working_set.next_action) == (2, "b")


async def test_a_repeat_through_a_handle_that_saw_less_takes_it_there(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    stale = await ctx.runs.get(run.id)
    await run.update(next_action="a", commit_id="c")
    await stale.update(next_action="a", commit_id="c")
    assert (await stale.update(next_action="b")).seq == 2


async def test_a_repeated_update_tells_again_what_had_to_leave(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"ws_max_tokens": 200})
    items = [
        {"id": f"i{n}", "content": "word " * 20, "timestamp": "2026-01-01T00:00:00Z", "priority": n} for n in range(4)
    ]
    await run.update(sliding_context=items, commit_id="c")
    left, again = run.eviction, await ctx.runs.get(run.id)
    await again.update(sliding_context=items, commit_id="c")
    assert left is not None
    assert again.eviction == left


async def test_deciding_to_do_nothing_is_an_answer_that_is_repeated(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    assert (await run.update_with(lambda ws: None, commit_id="c")).seq == 0
    await run.update(next_action="a")
    assert (await run.update_with(lambda ws: {"next_action": "b"}, commit_id="c")).seq == 0
    assert (await run.refresh()).next_action == "a"


async def test_a_repeated_attachment_is_one_artifact_however_large(ctx: Any) -> None:
    run, content = await ctx.runs.create(objective="o"), b"content" * 250_000
    first = await run.attach(content, type="t", path="big.txt", commit_id="c")
    await run.update(next_action="a")
    assert await run.attach(content, type="t", path="big.txt", commit_id="c") == first
    assert (await run.refresh()).artifact_refs == (first,)
    assert b"".join([chunk async for chunk in run.artifact(first.id)]) == content


def test_a_repeated_attachment_leaves_nothing_behind() -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        for _ in range(2):
            run.attach(b"content" * 250_000, type="t", commit_id="c")
        assert bridge.run(Scope(Inline(ctx.store)).get(Scan("default", "staging"))).documents == ()


async def test_a_repeated_export_leaves_the_pack_alone(ctx: Any, tmp_path: Path) -> None:
    run, path = await ctx.runs.create(objective="o"), tmp_path / "pack.zip"
    first = await run.export(path, commit_id="c")
    content = path.read_bytes()
    await run.update(next_action="a")
    assert await run.export(path, commit_id="c") == first
    assert path.read_bytes() == content
    assert [event.type for event in await run.events()].count("SNAPSHOT") == 1


async def test_a_repeated_restore_is_one_run(ctx: Any, tmp_path: Path) -> None:
    run, path = await ctx.runs.create(objective="o"), tmp_path / "pack.zip"
    await run.attach(b"content" * 250_000, type="t")
    await run.export(path)
    first = await ctx.runs.restore(path, run_id="back", commit_id="c")
    await first.update(next_action="a")
    again = await ctx.runs.restore(path, run_id="back", commit_id="c")
    assert (again.id, again.seq) == ("back", first.seq)
    assert (await again.verify()).ok


async def test_a_repeated_erasure_is_one_erasure(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await ctx.runs.erase(run.id, reason="asked to", commit_id="c")
    assert await ctx.runs.erase(run.id, reason="asked to", commit_id="c") == first
    assert [event.type for event in await run.events()].count("ERASED") == 1


ERASABLE: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "version": lambda run: run.update(next_action="a", commit_id="c"),
    "milestone": lambda run: run.milestone("m", commit_id="c"),
}


@pytest.mark.parametrize("what", ERASABLE)
async def test_what_was_erased_since_is_not_told_again(ctx: Any, what: str) -> None:
    run = await ctx.runs.create(objective="o")
    await ERASABLE[what](run)
    await ctx.runs.erase(run.id, reason="asked to")
    length = (await run.head()).length
    with pytest.raises(NotFound, match=f"done before, and the {what} it made"):
        await ERASABLE[what](run)
    assert (await run.head()).length == length


async def test_opening_finds_a_run_or_starts_it(ctx: Any) -> None:
    first = await ctx.runs.open("r", objective="o")
    await first.update(next_action="a")
    again = await ctx.runs.open("r", objective="something else")
    assert (again.seq, again.working_set.objective) == (1, "o")


async def test_an_update_that_is_refused_is_recorded_once(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises(InvalidInput):
        await run.update(next_action=float("nan"), commit_id="c")
    with pytest.raises(Conflict):
        await run.update(next_action="a", expected_seq=5, commit_id="c")
    assert [event.type for event in await run.events()].count("WS_UPDATE_REJECTED") == 2
    assert (await run.update(next_action="a", commit_id="c")).seq == 1


async def test_an_id_that_was_used_otherwise_is_no_refused_update(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="a", commit_id="c")
    with pytest.raises(InvalidInput, match="used before with other content"):
        await run.update(next_action="b", commit_id="c")
    assert "WS_UPDATE_REJECTED" not in [event.type for event in await run.events()]


async def test_one_id_on_two_runs_is_two_operations(ctx: Any) -> None:
    one, other = await ctx.runs.create(objective="o"), await ctx.runs.create(objective="o")
    first = await one.record("TOOL_CALL", {"tool_name": "t"}, commit_id="turn-7")
    second = await other.record("TOOL_CALL", {"tool_name": "t"}, commit_id="turn-7")
    assert (first.run_id, second.run_id) == (one.id, other.id)
    assert len(await other.events()) == 2
