"""Erasure: content gone for good, from every file; the shape of what happened stays and still verifies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom.errors import InvalidInput, NotFound

CANARY = "canary-7f3a"


async def busy(ctx: Any) -> Any:
    """A run with the canary everywhere content can be."""
    run = await ctx.runs.create(objective=f"find {CANARY}", run_id="r", constraints=[CANARY])
    await run.update(next_action=CANARY, blockers=[CANARY])
    await run.record("TOOL_RESULT", {"tool_name": "t", "ok": True, "result": CANARY})
    await run.attach(CANARY.encode() * 100_000, type="note", path=f"{CANARY}.txt", preview_tokens=20)
    with pytest.raises(InvalidInput):
        await run.update(status=CANARY)
    await run.milestone(f"about {CANARY}", next_entry_point=CANARY)
    await run.update(next_action="other")
    return run


async def test_the_ledger_of_an_erased_run_still_verifies(ctx: Any) -> None:
    run = await busy(ctx)
    kept = await run.head()
    receipt = await ctx.runs.erase("r", reason="asked to", actor="ana")
    found = await run.verify(head=kept)
    assert (found.ok, found.checked) == (True, kept.length + 1)
    assert (receipt.events, receipt.episodes, receipt.artifacts) == (kept.length, 1, 1)
    assert receipt.sequence_id == found.checked


async def test_an_erased_run_has_no_content_left_to_read(ctx: Any) -> None:
    run = await busy(ctx)
    pointer = run.working_set.artifact_refs[0]
    await ctx.runs.erase("r", reason="asked to", actor="ana")
    found = await ctx.runs.get("r")
    assert CANARY not in str(msgspec.to_builtins(found.working_set))
    assert list(await found.episodes()) == []
    events = await found.events()
    assert [(event.erased, event.payload) for event in events[:-1]] == [(True, {})] * (len(events) - 1)
    assert (events[-1].type, events[-1].actor) == ("ERASED", "ana")
    with pytest.raises(NotFound):
        await found.at(1)
    with pytest.raises(NotFound):
        _ = [chunk async for chunk in found.artifact(pointer.id)]


async def test_who_did_what_when_stays_in_the_receipt(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r", actor="agent-7")
    await run.record("TOOL_CALL", {"tool_name": "t"}, actor="bot", parent="evt_1")
    await ctx.runs.erase("r", reason="asked to")
    stones = (await run.events())[-1].payload["tombstones"]
    assert [stone[:3] for stone in stones] == [[None, "agent-7", None], [None, "bot", "evt_1"]]


async def test_an_erased_run_goes_on_and_can_be_erased_again(ctx: Any) -> None:
    run = await busy(ctx)
    await ctx.runs.erase("r", reason="first")
    await run.refresh()
    await run.update(next_action=CANARY)
    await ctx.runs.erase("r", reason="second")
    assert CANARY not in str(msgspec.to_builtins(await run.refresh()))
    assert (await run.verify()).ok


async def test_an_erasure_needs_a_reason_and_a_run(ctx: Any) -> None:
    with pytest.raises(NotFound):
        await ctx.runs.erase("nothing", reason="r")
    await ctx.runs.create(objective="o", run_id="r")
    with pytest.raises(InvalidInput):
        await ctx.runs.erase("r", reason="")


async def test_another_run_keeps_its_content(ctx: Any) -> None:
    await busy(ctx)
    other = await ctx.runs.create(objective=f"mine: {CANARY}", run_id="other")
    await ctx.runs.erase("r", reason="asked to")
    assert (await ctx.runs.get("other")).working_set == other.working_set


def test_no_byte_of_it_is_left_in_any_file_of_the_store(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        run = ctx.runs.create(objective=f"find {CANARY}", run_id="r")
        run.attach(CANARY.encode() * 300_000, type="note", path=CANARY)
        for place in range(50):
            run.update(next_action=f"{CANARY} {place}")
            run.record("TOOL_CALL", {"tool_name": CANARY})
        run.milestone(CANARY)
        assert canaries(tmp_path) > 0
        ctx.runs.erase("r", reason="asked to")
        assert canaries(tmp_path) == 0
        assert run.verify().ok
    assert canaries(tmp_path) == 0


def canaries(folder: Path) -> int:
    # Attached content is stored as base64; these are its three possible spellings of the canary's middle.
    spellings = [b"canary-7f3a", b"Y2FuYXJ5LTdmM2", b"NhbmFyeS03ZjNh", b"jYW5hcnktN2YzY"]
    return sum(file.read_bytes().count(spelling) for file in folder.iterdir() for spelling in spellings)
