"""Anthropic's memory tool: word for word what the reference tool of the SDK answers, and what a store adds."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

import strongroom
from strongroom.adapters.anthropic import AsyncStrongroomMemoryTool, StrongroomMemoryTool
from tests.server.serving import served

TOOLS: dict[str, Any] = {"blocking": StrongroomMemoryTool, "async": AsyncStrongroomMemoryTool}
A, B = "/memories/a.md", "/memories/deep/b.md"


class Called:
    """A tool, and what it says: a result, or what is wrong."""

    def __init__(self, tool: Any) -> None:
        self.tool, self.runner = tool, asyncio.Runner()

    def __call__(self, command: str, path: str = "", **more: Any) -> str:
        given = {"command": command, **({"path": path} if path else {}), **more}
        try:
            answer = self.tool.call(given)
            return str(self.runner.run(answer) if asyncio.iscoroutine(answer) else answer)
        except ToolError as problem:
            return f"error: {problem}"


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, address: str) -> Iterator[Called]:
    with TOOLS[request.param](address) as made:
        called = Called(made)
        yield called
        called.runner.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Called:
    return Called(BetaLocalFilesystemMemoryTool(str(tmp_path / "theirs")))


TEXTS = ["", "one", "one\n", "one\ntwo\nthree\n", "a\r\nb\r\n", "tab\there\n\n\nthree", "x\nx\ny"]
PATHS = [A, B, "/memories/.hidden", "/memories/deep", "/memories/deep/deeper/c.md", "/memories/deep/deeper/more/d.md",
         "/memories", "/memories/", "/memories/a.md/../a.md", "/memories/./a.md", "/memories//a.md"]  # fmt: skip


def command(chance: random.Random) -> tuple[str, dict[str, Any]]:
    path, text = chance.choice(PATHS), chance.choice(TEXTS)
    choices: list[tuple[str, dict[str, Any]]] = [
        ("view", {"path": path}),
        ("view", {"path": path, "view_range": chance.choice([[1, 1], [2, -1], [0, 2], [5, 9]])}),
        ("create", {"path": path, "file_text": text}),
        ("create", {"path": path, "file_text": text}),
        ("str_replace", {"path": path, "old_str": chance.choice(["one", "x", "b", "two\nthree"]), "new_str": "new\nx"}),
        ("insert", {"path": path, "insert_line": chance.randint(-1, 5), "insert_text": chance.choice(["a", "b\n\n"])}),
        ("delete", {"path": path}),
        ("rename", {"old_path": path, "new_path": chance.choice(PATHS)}),
    ]  # fmt: skip
    return chance.choice(choices)


SIZES = re.compile(r"^\S+\t(/memories(?:/\w*)*)$", re.MULTILINE)  # of folders, which a disk makes up


@pytest.mark.parametrize("seed", range(4))
def test_random_commands_are_answered_as_by_the_reference(tool: Called, theirs: Called, seed: int) -> None:
    chance = random.Random(seed)
    compared = 0
    for _ in range(200):
        name, given = command(chance)
        try:
            other = theirs(name, **given)
        except OSError:
            continue  # the reference falls over a file in the place of a folder
        finally:
            without_empty_folders(theirs.tool.memory_root)
        assert SIZES.sub(r"\1", tool(name, **given)) == SIZES.sub(r"\1", other), (name, given)
        compared += 1
    assert compared > 100


def without_empty_folders(root: Path) -> None:
    """Here a folder is what paths say: it ends with its last file."""
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/etc/passwd", "Path must start with /memories, got: /etc/passwd"),
        ("/memoriesX/a.md", "Path must start with /memories, got: /memoriesX/a.md"),
        ("memories/a.md", "Path must start with /memories, got: memories/a.md"),
        ("/memories/../a.md", "Path /memories/../a.md would escape /memories directory"),
        ("/memories/a/../../b.md", "Path /memories/a/../../b.md would escape /memories directory"),
    ],
)
def test_no_path_leaves_the_memories(tool: Called, path: str, says: str) -> None:
    for name, more in (("view", {}), ("create", {"file_text": "x"}), ("delete", {})):
        assert tool(name, path, **more) == f"error: {says}"
    assert tool("rename", old_path=path, new_path=A) == f"error: {says}"


def test_a_root_of_ones_own_is_never_left(address: str) -> None:
    with strongroom.open(address) as ctx:
        ctx.files.write("/users/u2/secret.md", "not yours")
        tool = Called(StrongroomMemoryTool(ctx, root="/users/u1"))
        tool("create", A, file_text="mine")
        assert ctx.files.read("/users/u1/a.md").text == "mine"
        assert "escape" in tool("view", "/memories/../u2/secret.md")
        assert "secret" not in tool("view", "/memories")


def test_every_edit_has_a_history_and_can_be_undone(address: str) -> None:
    with strongroom.open(address) as ctx:
        tool = Called(StrongroomMemoryTool(ctx))
        tool("create", A, file_text="likes tea\n")
        tool("str_replace", A, old_str="tea", new_str="coffee")
        tool("delete", A)
        assert [one.change for one in ctx.files.history(A)] == ["written", "written", "deleted"]
        ctx.files.restore(A, 1)
        assert tool("view", A).endswith("     1\tlikes tea\n     2\t")
        assert [hit.path for hit in ctx.files.search("tea")] == [A]


def test_a_budget_is_told_to_the_model(address: str) -> None:
    with StrongroomMemoryTool(address, max_files=1, max_bytes=10) as made:
        tool = Called(made)
        assert tool("create", A, file_text="0123456789") == f"File created successfully at: {A}"
        assert "12 bytes and may hold 10; nothing changed" in tool("insert", A, insert_line=0, insert_text="")
        assert "2 files and may hold 1" in tool("create", B, file_text="")


def test_two_editors_of_one_file_lose_no_edit(address: str) -> None:
    with strongroom.open(address) as ctx:
        tool = Called(StrongroomMemoryTool(ctx))
        tool("create", A, file_text="start\n")

        def edit(number: int) -> str:
            return tool("insert", A, insert_line=1, insert_text=f"line {number}")

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(edit, range(12))) == {f"The file {A} has been edited."}
        assert sorted(ctx.files.read(A).text.split("\n")[1:-1]) == sorted(f"line {number}" for number in range(12))


def test_the_tool_tells_the_api_what_it_is(tool: Called) -> None:
    assert tool.tool.to_dict() == {"type": "memory_20250818", "name": "memory"}


def test_a_server_keeps_notes_for_a_writer(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server:
        tool = Called(StrongroomMemoryTool(server.url, key=server.key(role="writer"), max_bytes=100))
        assert tool("create", A, file_text="hello") == f"File created successfully at: {A}"
        assert "     1\thello" in tool("view", A)
        assert "may hold 100" in tool("create", B, file_text="x" * 100)
        tool.tool.close()
