"""One turn of five parts beside one append, and beside the same five calls alone, on one SQLite file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import Result, median, micro

ROUNDS, CALLS = 7, 20
SAID: Any = {"role": "user", "content": "Where is my order? It should have been here on Friday."}
RESULT = {"tool_name": "track", "ok": True, "result": {"state": "lost in transit"}}
FACT: Any = {
    "op": "add", "type": "fact", "scope": "global", "confidence": 0.9, "source_refs": [], "rationale": "said so",
}  # fmt: skip


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder, strongroom.open(Path(folder) / "agent.db") as ctx:
        run, session, numbers = ctx.runs.create(objective="o", state={}), ctx.sessions.open("s"), count()

        def fact() -> list[Any]:
            return [{**FACT, "content": f"fact {next(numbers)}"}]

        def append() -> None:
            session.append(SAID)

        def turn() -> None:
            with ctx.turn() as one:
                one.append(session, SAID)
                one.update(run, status="BUSY", state={"step": next(numbers)})
                one.record(run, "TOOL_RESULT", RESULT)
                one.send("planner", RESULT, from_id="support")
                one.propose(fact(), proposer=f"agent-{next(numbers)}")

        def alone() -> None:
            session.append(SAID)
            run.update(status="BUSY", state={"step": next(numbers)})
            run.record("TOOL_RESULT", RESULT)
            ctx.threads.append("planner", RESULT, from_id="support")
            ctx.memories.propose(fact(), proposer=f"agent-{next(numbers)}")

        for work in (append, turn, alone):
            work()
        one, five, calls = taken(append, turn, alone)
        yield Result(
            "a turn of five parts / one append", five / one, 1.5, ours=micro(five), peer=micro(one), at_most=True
        )
        yield Result("five calls / one turn of five parts", calls / five, 2.0, ours=micro(five), peer=micro(calls))


def taken(*works: Callable[[], None]) -> list[float]:
    """Return the median seconds of each: some calls in a row, in turn, so that all see the same machine."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for work, own in zip(works, times, strict=True):
            start = time.perf_counter()
            for _ in range(CALLS):
                work()
            own.append((time.perf_counter() - start) / CALLS)
    return [median(own) for own in times]
