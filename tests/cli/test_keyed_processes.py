"""Every program that opens a store takes its key from the environment, in each of three ways, and shows it nowhere."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom

SECRET = "four words of mine 51c2"
SECONDS = 120  # a limit for what hangs, not for what is slow


def in_variable(folder: Path) -> dict[str, str]:
    return {"STRONGROOM_KEY": SECRET}


def in_file(folder: Path) -> dict[str, str]:
    file = folder / "secret"
    file.write_text(SECRET + "\n")
    return {"STRONGROOM_KEY_FILE": str(file)}


def from_command(folder: Path) -> dict[str, str]:
    return {"STRONGROOM_KEY_COMMAND": shlex.join(["cat", in_file(folder)["STRONGROOM_KEY_FILE"]])}


WAYS = [in_variable, in_file, from_command]


def start(store: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("STRONGROOM_")}
    started = subprocess.Popen(
        [sys.executable, "-m", "strongroom", *arguments], cwd=store.parent, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**known, "PYTHONPATH": ":".join(sys.path), "STRONGROOM_URL": str(store), **environment},
    )  # fmt: skip
    seen = Path(f"/proc/{started.pid}/cmdline")
    if seen.exists():  # what `ps` shows to everybody on the machine
        assert SECRET.encode() not in seen.read_bytes()
    return started


def command_line(store: Path, environment: dict[str, str]) -> str:
    started = start(store, environment, "runs", "list", "--json")
    out, err = started.communicate(timeout=SECONDS)
    assert started.returncode == 0 and '"r1"' in out, err
    return out + err


def worker(store: Path, environment: dict[str, str]) -> str:
    started = start(store, environment, "worker", "tests.cli.program:dispatcher", "--drain")
    out, err = started.communicate(timeout=SECONDS)
    assert started.returncode == 0, err
    return out + err


def server(store: Path, environment: dict[str, str]) -> str:
    started = start(store, environment, "serve", "--port", "0", "--json")
    assert started.stdout is not None
    told = started.stdout.readline()
    try:
        answer = httpx.get(json.loads(told)["url"] + "/runs/r1", trust_env=False, timeout=SECONDS)
        assert answer.json()["objective"] == "Build"
    finally:
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=SECONDS)
    return told + out + err


def assistant(store: Path, environment: dict[str, str]) -> str:
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    started = start(store, environment, "mcp")
    assert started.stdin is not None
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "run_get", "arguments": {"run_id": "r1"}}},
    ]
    for message in messages:
        started.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    started.stdin.flush()
    assert started.stdout is not None
    answers = [started.stdout.readline() for _ in range(2)]
    out, err = started.communicate(timeout=SECONDS)
    assert "Build" in answers[1], err
    return "".join(answers) + out + err


PROGRAMS: list[Callable[[Path, dict[str, str]], str]] = [command_line, worker, server, assistant]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with strongroom.open(path, key=SECRET) as ctx:
        ctx.runs.create(objective="Build", run_id="r1")
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_opens_the_store_and_shows_no_key(
    store: Path, program: Callable[[Path, dict[str, str]], str], way: Callable[[Path], dict[str, str]]
) -> None:
    assert SECRET not in program(store, way(store.parent))


@pytest.mark.parametrize(
    "arguments", [("runs", "list"), ("worker", "tests.cli.program:dispatcher"), ("serve",), ("mcp",)]
)
def test_a_program_without_the_key_says_which_variables_name_it_and_ends(
    store: Path, arguments: tuple[str, ...]
) -> None:
    before = store.read_bytes()
    started = start(store, {}, *arguments)
    _, err = started.communicate(timeout=SECONDS)
    assert started.returncode == 3 and "STRONGROOM_KEY_FILE" in err and "Traceback" not in err
    assert store.read_bytes() == before
