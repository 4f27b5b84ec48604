"""What is nested as deep as it may be is kept like everything else: looked at, taken along, and erased."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import strongroom
from strongroom.codec import MAX_DEPTH
from strongroom.errors import InvalidInput

CANARY = "canary-of-the-deep"


def nested(levels: int) -> Any:
    value: Any = CANARY
    for _ in range(levels):
        value = {"a": value}
    return value


async def deepest(use: Callable[[Any], Awaitable[Any]]) -> Any:
    """Return what is made of the deepest value that is taken; deeper ones are refused."""
    for levels in range(MAX_DEPTH + 1, 0, -1):
        try:
            return await use(nested(levels))
        except InvalidInput as refused:
            assert "nested deeper than 100 levels" in str(refused)
    raise AssertionError("nothing is taken")


async def test_the_deepest_state_is_verified_exported_restored_and_erased(ctx: Any, tmp_path: Path) -> None:
    run = await deepest(lambda value: ctx.runs.create(objective="dive", state=value, user_id="ana"))
    assert (await run.verify()).ok
    await run.export(tmp_path / "run.zip")
    restored = await ctx.runs.restore(tmp_path / "run.zip", run_id="again")
    assert restored.state == run.state
    for one in (run, restored):
        await ctx.runs.erase(one.id, reason="asked")


async def test_the_deepest_patch_of_a_state_is_verified_exported_restored_and_erased(ctx: Any, tmp_path: Path) -> None:
    run = await ctx.runs.create(objective="dive", state={"b": 1}, user_id="ana")
    await deepest(lambda value: run.update(state_patch=value))
    assert (await run.verify()).ok
    await run.export(tmp_path / "run.zip")
    assert (await ctx.runs.restore(tmp_path / "run.zip", run_id="again")).state == run.state
    await ctx.runs.erase(run.id, reason="asked")


async def test_the_deepest_payload_of_an_event_is_verified_exported_and_restored(ctx: Any, tmp_path: Path) -> None:
    run = await ctx.runs.create(objective="dive")
    await deepest(lambda value: run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": value}))
    assert (await run.verify()).ok
    await run.export(tmp_path / "run.zip")
    assert (await (await ctx.runs.restore(tmp_path / "run.zip", run_id="again")).verify()).ok


async def test_a_space_with_the_deepest_of_everything_is_exported_and_restored(ctx: Any, tmp_path: Path) -> None:
    await deepest(lambda value: ctx.runs.create(objective="dive", state=value))
    session = await ctx.sessions.open("s")
    await deepest(lambda value: session.append({"role": "user", "content": "x", "more": value}))
    await deepest(lambda value: ctx.threads.append("t", value, from_id="a"))
    await ctx.export(tmp_path / "all.zip")
    with strongroom.open("memory://") as other:
        other.restore(tmp_path / "all.zip")
        assert [message.content for message in other.sessions.get("s").load()] == [
            message.content for message in await session.load()
        ]
        assert [slot.payload for slot in other.threads.get("t").slice()] == [
            slot.payload for slot in await (await ctx.threads.get("t")).slice()
        ]


async def test_a_person_with_the_deepest_state_is_erased(ctx: Any, tmp_path: Path) -> None:
    run = await deepest(lambda value: ctx.runs.create(objective="dive", state=value, user_id="ana"))
    assert (await ctx.erase(user_id="ana")).complete
    assert (await run.verify()).ok
    for file in tmp_path.iterdir():
        assert CANARY.encode() not in file.read_bytes()
