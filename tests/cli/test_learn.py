"""`strongroom learn`: once over sessions, and as a worker that follows them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import apsw
import pytest

import strongroom
from tests.cli.conftest import Type
from tests.model_server import KEY, serving
from tests.server.serving import Process, process

REPEATING = ("--model", "tests.cli.program:repeating")


def said(path: Path, *texts: str, id: str = "s1", user_id: str | None = "u1") -> None:
    with strongroom.open(path) as ctx:
        ctx.sessions.open(id, user_id=user_id).append([{"role": "user", "content": text} for text in texts])


def contents(path: Path) -> list[str]:
    with strongroom.open(path) as ctx:
        return sorted(one.request.content for batch in ctx.memories.pending(limit=1_000) for one in batch.proposals)


def test_what_is_new_in_every_session_is_learnt_once(here: Path, type_in: Type) -> None:
    said(here / "agent.db", "tea")
    said(here / "agent.db", "milk", id="s2", user_id="u2")
    first = type_in("learn", *REPEATING, "--json").json
    again = type_in("learn", *REPEATING, "--json").json
    assert (first["messages"], first["proposals"], again["messages"]) == (2, 2, 0)
    assert {"tea", "milk"} <= set(contents(here / "agent.db"))


def test_a_session_of_nobody_is_left_alone_and_told(here: Path, type_in: Type) -> None:
    assert "1 session is nobody's" in type_in("learn", *REPEATING).out
    assert type_in("learn", *REPEATING, "--user", "u1", "--json").json["messages"] == 20


@pytest.mark.parametrize("command", [("learn",), ("memories", "consolidate")])
@pytest.mark.parametrize("owner", ["--user", "--project"])
def test_memories_are_not_somebodys_and_everybodys(here: Path, type_in: Type, command: Any, owner: str) -> None:
    told = type_in(*command, *REPEATING, owner, "bob", "--everybody")
    assert told.code == 2
    assert f"--everybody and {owner}" in told.err


def test_what_was_left_out_is_told(here: Path, type_in: Type) -> None:
    said(here / "agent.db", "tea")
    assert "left out: session s1: [0]: " in type_in("learn", "s1", "--model", "tests.cli.program:careless").out


def test_what_was_left_out_is_in_the_json(here: Path, type_in: Type) -> None:
    said(here / "agent.db", "tea")
    [refused] = type_in("learn", "s1", "--model", "tests.cli.program:careless", "--json").json["refused"]
    assert refused.startswith("session s1: [0]: ")


def test_one_session_can_be_named(here: Path, type_in: Type) -> None:
    said(here / "agent.db", "tea")
    said(here / "agent.db", "milk", id="s2")
    assert type_in("learn", "s2", *REPEATING, "--json").json["messages"] == 1


def test_a_model_that_is_away_is_told_and_nothing_is_lost(here: Path, type_in: Type) -> None:
    said(here / "agent.db", "tea")
    with serving() as server:
        server.replies.append(lambda request, _: request.send_error(400, "no"))
        away = type_in("learn", "s1", "--model", f"{server.url}#small-1")
    assert away.code == 3
    assert "session s1" in away.err
    assert type_in("learn", "s1", *REPEATING, "--json").json["messages"] == 1


def test_a_model_behind_http_gets_its_key_from_the_environment(here: Path) -> None:
    said(here / "agent.db", "tea")
    with serving() as server:
        env = {**os.environ, "STRONGROOM_MODEL_KEY": KEY, "STRONGROOM_MODEL": f"anthropic+{server.url}#small-1"}
        command = [sys.executable, "-m", "strongroom", "learn", "s1", "--json"]
        made = subprocess.run(command, cwd=here, env=env, capture_output=True, text=True, check=True)
        [(path, headers, _)] = server.requests
    assert json.loads(made.stdout)["messages"] == 1
    assert (path, headers["x-api-key"]) == ("/v1/messages", KEY)
    assert KEY not in made.stdout + made.stderr


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_whoever_is_told_to_stop_asks_about_no_other_session(here: Path, type_in: Type, follow: tuple[str]) -> None:
    for n in range(3):
        said(here / "agent.db", "tea", id=f"s{n}")
    ended = type_in("learn", "--model", "tests.cli.program:stopping", *follow)
    assert ended.code == (0 if follow else 130)
    assert type_in("learn", *REPEATING, "--json").json["messages"] == 2


def test_whoever_is_told_to_stop_asks_about_no_more_of_a_long_session(here: Path, type_in: Type) -> None:
    said(here / "agent.db", *["tea"] * 60)
    assert "learnt from 50 messages" in type_in("learn", "--model", "tests.cli.program:stopping").out


def test_a_session_that_cannot_be_read_is_told_and_holds_no_other_up(here: Path, type_in: Type) -> None:
    for n in range(3):
        said(here / "agent.db", f"tea {n}", id=f"s{n}")
    with closing(apsw.Connection(str(here / "agent.db"))) as file:
        file.execute(
            "UPDATE record SET at = at + 1 WHERE pos = "
            "(SELECT max(pos) FROM record WHERE pos < (SELECT max(pos) FROM record))"
        )
    made = type_in("learn", *REPEATING, "--json")
    assert made.code == 3
    assert "session s1" in made.err
    assert (made.json["messages"], made.json["failed"]) == (2, ["s1"])


def test_a_session_that_is_not_there_is_told_and_holds_no_other_up(here: Path, type_in: Type) -> None:
    said(here / "agent.db", "tea")
    made = type_in("learn", "s11", "s1", *REPEATING, "--json")
    assert made.code == 1
    assert "did you mean 's1'" in made.err
    assert (made.json["messages"], made.json["missing"]) == (1, ["s11"])


@contextmanager
def worker(
    folder: Path, *more: str, program: tuple[str, ...] = ("-m", "strongroom")
) -> Iterator[subprocess.Popen[str]]:
    """Follow sessions until told to stop."""
    command = [sys.executable, *program, *more, "--follow", "--every", "0.05", "--json"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, env=env, **streams) as learning:
        try:
            yield learning
            learning.send_signal(signal.SIGTERM)
            assert learning.wait(60) == 0
        finally:
            learning.kill()


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_a_worker_follows_sessions_until_it_is_told_to_stop(here: Path) -> None:
    said(here / "agent.db", "tea")
    with worker(here, "learn", *REPEATING) as learning:
        first = json.loads(line(learning.stdout))
        said(here / "agent.db", "milk")
        second = json.loads(line(learning.stdout))
    assert (first["messages"], second["messages"]) == (1, 1)
    assert {"tea", "milk"} <= set(contents(here / "agent.db"))


def test_a_worker_goes_on_when_one_of_its_sessions_is_deleted(here: Path) -> None:
    said(here / "agent.db", "tea")
    said(here / "agent.db", "milk", id="s2")
    with worker(here, "learn", "s1", "s2", *REPEATING) as learning:
        assert json.loads(line(learning.stdout))["messages"] == 2
        with strongroom.open(here / "agent.db") as ctx:
            ctx.sessions.delete("s1")
        assert "no session 's1'" in line(learning.stderr)
        said(here / "agent.db", "bread", id="s2")
        assert json.loads(line(learning.stdout))["messages"] == 1


IMPATIENT = """
import functools, strongroom
from strongroom.cli import main
strongroom.connect = functools.partial(strongroom.connect, retry_seconds=0.2)
main()
"""


def test_a_worker_waits_for_a_server_that_is_away(here: Path) -> None:
    first = Process(here / "agent.db")
    with strongroom.connect(first.url) as ctx:
        ctx.sessions.open("s1", user_id="u1").append({"role": "user", "content": "tea"})
    with worker(here, "--url", first.url, "learn", *REPEATING, program=("-c", IMPATIENT)) as learning:
        assert json.loads(line(learning.stdout))["messages"] == 1
        first.kill()
        assert "did not answer" in line(learning.stderr)
        with process(here / "agent.db", port=first.port) as again, strongroom.connect(again.url) as ctx:
            ctx.sessions.get("s1").append({"role": "user", "content": "milk"})
            assert json.loads(line(learning.stdout))["messages"] == 1
            learning.send_signal(signal.SIGTERM)
            learning.wait(60)


def test_what_is_alike_is_shown_to_a_model_and_what_it_says_waits(here: Path, type_in: Type) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        for text in ("Ana lives in Paris", "Ana lives in Lyon", "tea without milk", "tea with milk"):
            ctx.memories.add(text, user_id="u1")
    asked = ("memories", "consolidate", "--model", "tests.cli.program:merging", "--user", "u1", "--limit", "2")
    first = type_in(*asked, "--json").json
    assert (first["memories"], first["groups"], first["proposals"]) == (4, 2, 2)
    assert "asked about 0 groups" in type_in(*asked).out
    with strongroom.open(here / "agent.db") as ctx:
        assert len(ctx.memories.list(user_id="u1", scope="user")) == 4
