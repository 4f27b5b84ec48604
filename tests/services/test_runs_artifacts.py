"""Artifacts: content once, in chunks, read back as a stream, and gone when its last run is erased."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import BudgetExceeded, InvalidInput, NotFound
from strongroom.services.packs.staging import FLUSH_BYTES
from strongroom.services.runs.artifacts import CHUNK
from strongroom.store import Scan

SMALL = b"a few bytes"
LARGE = bytes(range(256)) * ((FLUSH_BYTES + 3 * CHUNK) // 256) + b"odd"


async def content(run: Any, artifact_id: str) -> bytes:
    return b"".join([chunk async for chunk in run.artifact(artifact_id)])


async def documents(ctx: Any, kind: str) -> int:
    questions = [Scan("default", kind)]
    answer = ctx.store.read(questions)
    [page] = answer if isinstance(answer, list) else await answer
    return len(page.documents)


@pytest.mark.parametrize("data", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
async def test_what_is_attached_comes_back(ctx: Any, data: bytes) -> None:
    run = await ctx.runs.create(objective="o")
    pointer = await run.attach(data, type="tool_result")
    assert await content(run, pointer.id) == data
    assert run.working_set.artifact_refs == (pointer,)
    assert await documents(ctx, "staging") == 0


async def test_a_file_is_attached_under_its_name(ctx: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(SMALL)
    run = await ctx.runs.create(objective="o")
    pointer = await run.attach(tmp_path / "page.html", type="page")
    assert (pointer.path, await content(run, pointer.id)) == ("page.html", SMALL)


async def test_a_missing_file_is_not_found(ctx: Any, tmp_path: Path) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises(NotFound):
        await run.attach(tmp_path / "nothing", type="page")
    with pytest.raises(InvalidInput):
        await run.attach(5, type="page")


async def test_the_same_content_is_stored_once(ctx: Any) -> None:
    first, second = await ctx.runs.create(objective="a"), await ctx.runs.create(objective="b")
    one, two = await first.attach(LARGE, type="t"), await second.attach(LARGE, type="t")
    assert one.sha256 == two.sha256
    assert await documents(ctx, "artifact") == 1
    assert await content(second, two.id) == LARGE


async def test_a_run_has_only_its_own_artifacts(ctx: Any) -> None:
    run, other = await ctx.runs.create(objective="a"), await ctx.runs.create(objective="b")
    pointer = await run.attach(SMALL, type="t")
    with pytest.raises(NotFound):
        await content(other, pointer.id)


async def test_a_large_tool_result_leaves_a_preview_in_context(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    pointer = await run.attach(b"row of a table\n" * 10_000, type="tool_result", preview_tokens=30, priority=7)
    shown = run.working_set.sliding_context[0]
    assert (shown.id, shown.priority) == (pointer.id, 7)
    assert shown.content.startswith("row of a table")
    assert len(shown.content) < 400


async def test_a_refused_attachment_leaves_nothing_behind(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"ws_max_tokens": 130})
    with pytest.raises(BudgetExceeded):
        await run.attach(LARGE, type="a type of many words " * 50)
    assert [await documents(ctx, kind) for kind in ("artifact", "artifact-use", "staging")] == [0, 0, 0]


async def test_a_fork_keeps_its_artifacts_when_the_other_is_erased(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    pointer = await run.attach(SMALL, type="t")
    child = await run.fork()
    await ctx.runs.erase(run.id, reason="asked to")
    assert await content(child, pointer.id) == SMALL
    await ctx.runs.erase(child.id, reason="asked to")
    assert await documents(ctx, "artifact") == 0
