"""`runs tail` and `threads tail`: the newest and an end, or with --follow what comes too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import strongroom
from tests.cli.conftest import HOSTILE, Type

TAILS = {"runs": "scraper", "threads": "errands"}


def more(kind: str) -> None:
    """Let one more event or message be there."""
    with strongroom.open("agent.db") as ctx:
        if kind == "runs":
            ctx.runs.get("scraper").record("TOOL_CALL", {"tool_name": "late", "arguments": {}})
        else:
            ctx.threads.append("errands", {"note": "late"}, from_id="boss", to_id="clerk")


@pytest.mark.parametrize("kind", TAILS)
def test_a_tail_ends_unless_it_is_told_to_follow(kind: str, here: Path) -> None:
    asked = [sys.executable, "-m", "strongroom", kind, "tail", TAILS[kind], "-n", "2", "--json"]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=180)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) == 2


@pytest.mark.parametrize("kind", TAILS)
def test_a_tail_shows_the_newest_ten(kind: str, here: Path, type_in: Type) -> None:
    for _ in range(12):
        more(kind)
    lines = [json.loads(line) for line in type_in(kind, "tail", TAILS[kind], "--json").out.splitlines()]
    assert len(lines) == 10
    assert all("late" in json.dumps(line) for line in lines)


@pytest.mark.parametrize("kind", TAILS)
def test_a_tail_ends_with_what_was_there_when_it_began(
    kind: str, here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed(*_: Any) -> None:
        shown.append(1)
        more(kind)

    shown: list[int] = []
    monkeypatch.setattr(f"strongroom.cli.{kind}.say", printed)
    assert type_in(kind, "tail", TAILS[kind], "-n", "3").code == 0
    assert len(shown) == 3


@pytest.mark.parametrize("flag", ["-f", "--follow"])
@pytest.mark.parametrize("kind", TAILS)
def test_a_tail_that_follows_shows_what_comes(kind: str, flag: str, here: Path) -> None:
    asked = [sys.executable, "-m", "strongroom", kind, "tail", TAILS[kind], "-n", "1", "--json", flag]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()  # it is following now
        more(kind)
        assert "late" in tail.stdout.readline()
        tail.terminate()


@pytest.mark.parametrize("kind", TAILS)
def test_a_tail_that_follows_may_end_when_nothing_comes(kind: str, here: Path, type_in: Type) -> None:
    assert type_in(kind, "tail", TAILS[kind], "--follow", "--idle", "0").code == 0


@pytest.mark.parametrize("kind", TAILS)
def test_how_long_to_follow_is_no_question_without_following(kind: str, here: Path, type_in: Type) -> None:
    refused = type_in(kind, "tail", TAILS[kind], "--idle", "5")
    assert (refused.code, refused.out) == (2, "")
    assert "needs --follow" in refused.err


# ---- what an update changed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["tail", "events"])
def test_an_update_says_which_fields_it_changed(command: str, here: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state={"page": 1})
        run.update(status="BUSY", next_action="fetch page 2", blockers=["a captcha"], state={"page": 2})
    shown = type_in("runs", command, "r").out
    assert 'seq 1: next_action=fetch page 2, state={"page":2}, status=BUSY, blockers' in shown


def test_an_update_that_tells_all_of_the_state_says_only_what_it_changed(here: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        for n in range(12):
            run.update(next_action=f"step {n} " + "x" * 200, blockers=[f"{n}"])
        assert any("state" in (event.detail or {}) for event in run.events(types=["WS_UPDATE_APPLIED"]))
    lines = type_in("runs", "tail", "r", "-n", "12").out.splitlines()
    assert [f"seq {n + 1}: next_action=step {n} x" in line for n, line in enumerate(lines)] == [True] * 12
    assert all("x…, blockers" in line and "objective" not in line for line in lines)


def test_what_an_update_changed_is_one_short_line_that_steers_no_terminal(here: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        run.update(next_action=HOSTILE, last_action_summary=f"one\n{HOSTILE * 9}", state={HOSTILE: HOSTILE})
    [line] = type_in("runs", "tail", "r", "-n", "1").out.splitlines()
    assert line.isprintable() and "seq 1: last_action_summary=one" in line and len(line) < 200


def test_an_update_that_was_erased_says_nothing_of_what_it_changed(here: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        run.update(status="BUSY")
        ctx.runs.erase("r", reason="asked for")
    shown = type_in("runs", "tail", "r").out
    assert "(erased)" in shown and "BUSY" not in shown
