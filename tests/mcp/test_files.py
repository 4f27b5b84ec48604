"""Files through tools: looked at in parts, changed without losing what others wrote."""

from __future__ import annotations

import json

from strongroom import AsyncContext
from tests.mcp.conftest import Connect, call, refused


async def test_a_file_is_written_looked_at_and_listed(ctx: AsyncContext, connect: Connect) -> None:
    async with connect() as client:
        made = await call(client, "files_edit", path="/notes/a.md", text="one\ntwo\nthree", expected_version=0)
        assert made["file"]["version"] == 1
        seen = await call(client, "files_view", path="/notes/a.md", from_line=2, lines=1)
        assert (seen["text"]["data"], seen["next_line"], seen["total_lines"]) == ("two\n", 3, 3)
        for folder in ("/", "/notes", "/notes/"):
            listed = await call(client, "files_view", path=folder)
            assert [file["path"] for file in listed["files"]] == ["/notes/a.md"]
        assert "no file" in await refused(client, "files_view", path="/nothing")


async def test_one_place_is_replaced_and_only_one(connect: Connect) -> None:
    async with connect() as client:
        await call(client, "files_edit", path="/a.md", text="tea tea coffee")
        change = {"old_text": "coffee", "new_text": "milk"}
        await call(client, "files_edit", path="/a.md", replace=change, expected_version=1)
        assert (await call(client, "files_view", path="/a.md"))["text"]["data"] == "tea tea milk"
        twice = {"old_text": "tea", "new_text": "x"}
        assert "2 times" in await refused(client, "files_edit", path="/a.md", replace=twice)
        assert "commit_id" in await refused(client, "files_edit", path="/a.md", replace=change, commit_id="c")


async def test_whoever_saw_an_older_version_is_refused(ctx: AsyncContext, connect: Connect) -> None:
    async with connect() as client:
        await call(client, "files_edit", path="/a.md", text="mine")
        await ctx.files.write("/a.md", "theirs")
        for change in ({"text": "again"}, {"replace": {"old_text": "theirs", "new_text": "x"}}, {"delete": True}):
            said = json.loads(await refused(client, "files_edit", path="/a.md", expected_version=1, **change))
            assert (said["code"], said["actual"]) == ("conflict", 2)
        assert (await call(client, "files_edit", path="/a.md", delete=True))["change"] == "deleted"


async def test_a_long_file_comes_in_parts_that_lead_to_each_other(ctx: AsyncContext, connect: Connect) -> None:
    text = "".join(f"line {number} {'é' * 200}\n" for number in range(1_000))
    await ctx.files.write("/long.md", text)
    async with connect("reader") as client:
        parts: list[str] = []
        line: int | None = 1
        while line is not None:
            seen = await call(client, "files_view", path="/long.md", from_line=line, lines=2_000)
            parts.append(seen["text"]["data"])
            line = seen.get("next_line")
        assert "".join(parts) == text and len(parts) > 1


async def test_one_line_that_is_too_long_is_cut_and_says_so(ctx: AsyncContext, connect: Connect) -> None:
    await ctx.files.write("/line.md", "x" * 200_000)
    async with connect("reader") as client:
        seen = await call(client, "files_view", path="/line.md")
        assert seen["text"]["cut_chars"] + len(seen["text"]["data"]) == 200_000


async def test_files_are_found_and_fetched(ctx: AsyncContext, connect: Connect) -> None:
    await ctx.files.write("/notes/door.md", "the office has a red door")
    async with connect("reader") as client:
        [result] = (await call(client, "search", query="red door"))["results"]
        assert "red door" in (await call(client, "fetch", id=result["id"]))["text"]
