"""The inspector's command line, as a stranger's client, drives `strongroom mcp` over its pipes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import strongroom
from tests.mcp import node


def inspect(url: Path, *arguments: str) -> Any:
    given = ["-e", f"STRONGROOM_URL={url}", "-e", f"PYTHONPATH={':'.join(sys.path)}"]
    server = [sys.executable, "-m", "strongroom", "mcp"]
    done = node.run("mcp-inspector", "--cli", *server, *arguments, *given, HOME=str(url.parent))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_lists_calls_reads_and_gets(tmp_path: Path) -> None:
    url = tmp_path / "agent.db"
    with strongroom.open(url) as ctx:
        ctx.runs.create(objective="Build a scraper", run_id="r1")
    tools = inspect(url, "--method", "tools/list")["tools"]
    assert "memory_search" in {tool["name"] for tool in tools}
    made = inspect(url, "--method", "tools/call", "--tool-name", "run_get", "--tool-arg", "run_id=r1")
    assert made["structuredContent"]["run"]["run_id"] == "r1"
    read = inspect(url, "--method", "resources/read", "--uri", "strongroom://runs/r1")
    assert "Build a scraper" in read["contents"][0]["text"]
    prompt = inspect(url, "--method", "prompts/get", "--prompt-name", "brief", "--prompt-args", "run_id=r1")
    assert prompt["messages"][1]["content"]["type"] == "resource"


def test_its_strict_check_finds_nothing_wrong_with_the_schemas(tmp_path: Path) -> None:
    assert inspect(tmp_path / "agent.db", "--method", "tools/list", "--strict")["tools"]
