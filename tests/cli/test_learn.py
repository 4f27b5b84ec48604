"""`strongroom learn`: once over sessions, and as a worker that follows them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import strongroom
from tests.cli.conftest import Type
from tests.model_server import KEY, serving

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
    assert "1 sessions are nobody's" in type_in("learn", *REPEATING).out
    assert type_in("learn", *REPEATING, "--user", "u1", "--json").json["messages"] == 20


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


def test_a_worker_follows_sessions_until_it_is_told_to_stop(here: Path) -> None:
    said(here / "agent.db", "tea")
    command = [sys.executable, "-m", "strongroom", "learn", *REPEATING, "--follow", "--every", "0.05", "--json"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, cwd=here, env=env, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        first = json.loads(worker.stdout.readline())
        said(here / "agent.db", "milk")
        second = json.loads(worker.stdout.readline())
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert (first["messages"], second["messages"]) == (1, 1)
    assert {"tea", "milk"} <= set(contents(here / "agent.db"))


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
