"""The guide's agent, killed at each of its lines: called again, it goes on, pays once and says everything once."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import strongroom
from strongroom import Context
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import KILLS

PROGRAM = Path(__file__).parents[2] / "examples" / "support_agent.py"
EACH = 1 if KILLS > 200 else 5
TICKET, QUESTION = "ticket-1", "Then please refund it."


def opened() -> Context:
    """Open the store without syncing, which is much faster: a process that is killed loses nothing that it wrote."""
    return strongroom.open("support.db", durability="relaxed")


def program() -> Any:
    spec = importlib.util.spec_from_file_location("support_agent", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin(agent: Any) -> None:
    with opened() as ctx:
        ctx.runs.create(run_id=TICKET, objective="Solve the customer's problem")
        assert agent.answer(ctx, TICKET, 1, "Where is my order 4711?") == "It is lost in transit."


def traced(agent: Any, kill_at: int | None) -> None:
    """Answer the second question, and be killed at the so-many-th line that is run; None: write down which are."""
    lines: list[int] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != str(PROGRAM):
            return None
        if event == "line":
            if len(lines) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            lines.append(frame.f_lineno)
        return trace

    with opened() as ctx:
        sys.settrace(trace)
        agent.answer(ctx, TICKET, 2, QUESTION)
        sys.settrace(None)
    Path("lines").write_text(" ".join(map(str, lines)))


def resumed(agent: Any) -> None:
    """Answer it again, and look at everything."""
    with opened() as ctx:
        assert agent.answer(ctx, TICKET, 2, QUESTION) == "I have refunded 30 EUR."
        run, messages = ctx.runs.get(TICKET), ctx.sessions.get(TICKET).load()
        assert run.verify().ok and run.working_set.status == "WAITING_INPUT"
        assert [one["role"] for one in messages] == ["user", "assistant", "tool", "assistant"] * 2
        assert Path("payments.txt").read_text().splitlines() == [f"{TICKET}:2:0"]
        events = [event.type for event in run.events() if event.type in ("MODEL_ACTION", "TOOL_CALL", "TOOL_RESULT")]
        assert events == ["MODEL_ACTION", "TOOL_CALL", "TOOL_RESULT", "MODEL_ACTION"] * 2
        assert run.usage().models["stand-in"].calls == 4


def campaign(folder: str) -> tuple[int, int]:
    """Kill the agent at each line in turn; return how many lines there are, and how often it was killed."""
    os.chdir(folder)
    agent, kills = program(), 0
    Path("fresh").mkdir()
    os.chdir("fresh")
    assert ended_well(forked(begin, agent))
    os.chdir(folder)
    shutil.copytree("fresh", "whole")
    os.chdir("whole")
    assert ended_well(forked(traced, agent, None))
    lines = Path("lines").read_text().split()
    for place, line in enumerate(lines):
        if place % EACH and line in lines[:place]:
            continue  # each line once; each time that it is run in `make crash`
        os.chdir(folder)
        shutil.copytree("fresh", f"{place}")
        os.chdir(f"{place}")
        assert not ended_well(forked(traced, agent, place))
        assert ended_well(forked(resumed, agent)), f"killed at line {line}"
        kills += 1
    return len(set(lines)), kills


def test_the_agent_goes_on_wherever_it_was_killed(tmp_path: Path) -> None:
    lines, kills = apart(campaign, str(tmp_path))
    assert kills >= lines > 40


def test_an_agent_that_forgets_its_ids_is_caught_here(tmp_path: Path) -> None:
    """The negative control: without ids the question is asked twice."""

    def careless(folder: str) -> None:
        os.chdir(folder)
        agent = program()
        with opened() as ctx:
            ctx.runs.create(run_id=TICKET, objective="o")
            ctx.sessions.open(TICKET).append({"role": "user", "content": QUESTION})
            agent.answer(ctx, TICKET, 2, QUESTION)
        resumed(agent)

    assert not ended_well(forked(careless, str(tmp_path)))
