"""What does a turn of five parts cost, beside one append and beside the same five calls alone, on one SQLite file?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import SECONDS, Pair, Result, calls, in_turn, median
from benchmarks.workload import SYNCED

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

        one, five, five_calls = in_turn([calls(append), calls(turn), calls(alone)], 2 * SECONDS)
        beside = pair(five, one)
        yield beside.row("turns", "a turn of five parts / one append", durability=SYNCED)
        beside = pair(five, five_calls)
        yield beside.row("turns", "five calls / a turn of five parts", durability=SYNCED)


def pair(ours: list[float], peer: list[float]) -> Pair:
    return Pair(median(ours), median(peer), [one / other for one, other in zip(ours, peer, strict=True)])
