"""Where does each microsecond go? The five hottest paths, as `python -m benchmarks.profiling` prints them.

What a call takes is the least processor time of many calls, which a busy machine changes little, without the disk's
part (`durability="relaxed"`). Whose it is, is told by a profile that counts processor time, too, scaled to that.
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import pick
from benchmarks.turns import FACT, RESULT
from benchmarks.workload import BUDGET, message, messages, prose, questions

CALLS = pick(400, 50)
LEAST_SHARE = 0.02
PARTS = {  # by where a function is defined; the first that fits
    "apsw": "SQLite itself",
    "backends/sqlite": "our SQLite store",
    "services/sessions": "sessions",
    "services/runs": "runs",
    "services/memories": "memories",
    "services/threads": "threads",
    "services/turns": "turns",
    "retrieval.py": "ranking",
    "stemming.py": "stems of words",
    "tokens/": "counting and choosing",
    "operations.py": "operations: ids, digests, receipts",
    "arguments.py": "arguments held against signatures",
    "codec.py": "JSON",
    "msgspec": "JSON",
    "jsonschema_rs": "JSON Schema",
    "store/": "values of the port",
    "bridge/": "blocking over async",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, strongroom.open(Path(folder) / "a.db", durability="relaxed") as ctx:
        for name, work in paths(ctx).items():
            print(table(name, work))


def paths(ctx: Any) -> dict[str, Callable[[], object]]:
    session, found, numbers = ctx.sessions.open("s"), ctx.sessions.open("found"), count()
    session.append(messages(0, 600))
    found.append([{"role": "user", "content": prose(number)} for number in range(2_000)])
    run, said, question = ctx.runs.create(objective="measure", state={}), message(1), questions(1, 1)[0]

    def turn() -> None:
        with ctx.turn() as one:
            one.append(session, said)
            one.update(run, status="BUSY", state={"step": next(numbers)})
            one.record(run, "TOOL_RESULT", RESULT)
            one.send("planner", RESULT, from_id="support")
            one.propose([{**FACT, "content": f"fact {next(numbers)}"}], proposer=f"agent-{next(numbers)}")

    return {
        "session.window(4000), 125 messages": lambda: session.window(max_tokens=BUDGET),
        "session.append, one message": lambda: session.append([said]),
        "session.search, three words, 2,000 messages": lambda: found.search(question, k=10),
        "run.update": lambda: run.update(expected_seq=run.seq, next_action="one more"),
        "a turn of five parts": turn,
    }


def table(name: str, work: Callable[[], object]) -> str:
    whole = least(work)
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    for _ in range(CALLS):
        work()
    profile.disable()
    shares: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        shares[part(file, function)] += own
    total = sum(shares.values())
    rows = [f"### {name}: {whole * 1e6:.0f} us of a processor", "", "| whose | us | share |", "|---|---|---|"]
    small = 0.0
    for whose, own in shares.most_common():
        share = own / total
        if share < LEAST_SHARE:
            small += share
        else:
            rows.append(f"| {whose} | {share * whole * 1e6:.0f} | {share:.0%} |")
    return "\n".join([*rows, f"| all else | {small * whole * 1e6:.0f} | {small:.0%} |", ""])


def least(work: Callable[[], object]) -> float:
    """Return the least processor time of a call, in seconds."""
    best = float("inf")
    for _ in range(CALLS):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def part(file: str, function: str) -> str:
    where = function if file == "~" else file
    return next((told for piece, told in PARTS.items() if piece in where), "Python: calls, loops, containers")


if __name__ == "__main__":
    main()
