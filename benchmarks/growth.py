"""Does a cost grow with history? Each hot operation at 10^2 .. 10^6 records, all sizes in turn, and the exponent.

A figure says how far its histories got.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.growing import Late, Rows, filled, told
from benchmarks.measuring import pick
from benchmarks.workload import BUDGET, message, messages

SIZES = pick((100, 1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 10_000))
SESSIONS_SECONDS, RUNS_SECONDS, MEMORIES_SECONDS = pick((90.0, 45.0, 120.0), (1.5, 1.5, 1.5))  # to fill them
EVENT = {"tool_name": "fetch", "arguments": {"url": "https://example.com/a"}}
OWN = 10  # memories of the owner who searches


def measure() -> Rows:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in (sessions, runs, memories):
            yield from rows(folder / f"{rows.__name__}.db")


def sessions(path: Path) -> Rows:
    sizes = long_sessions(path, SIZES, SESSIONS_SECONDS)
    with strongroom.open(path) as ctx:
        opened = {size: ctx.sessions.open(f"s{size}") for size in sizes}
        yield from of_sessions("growth", opened)
        prompts = {size: partial(ctx.prompt, session=one, max_tokens=BUDGET) for size, one in opened.items()}
        note = "asked with the newest thing the user said"
        yield from told("growth", f"prompt of {BUDGET:,} tokens", prompts, note=note)


def long_sessions(path: Path, sizes: tuple[int, ...], seconds: float) -> list[int]:
    """Fill a session of each size, named by it."""
    with strongroom.open(path, durability="relaxed") as ctx:

        def fill(size: int, late: Late) -> bool:
            session = ctx.sessions.open(f"s{size}")
            step = min(size, 2_000)
            for start in range(0, size, step):
                session.append(messages(start, start + step))
                if late():
                    return False
            return True

        return filled(sizes, seconds, fill)


def of_sessions(question: str, opened: dict[int, Any]) -> Rows:
    """What a program does with a session most often, in sessions of several sizes."""
    yield from told(question, "append", {size: partial(one.append, [message(1)]) for size, one in opened.items()})
    yield from told(question, "load the last 10", {size: partial(one.load, k=10) for size, one in opened.items()})
    windows = {size: partial(one.window, max_tokens=BUDGET) for size, one in opened.items()}
    yield from told(question, f"window of {BUDGET:,} tokens", windows)


def runs(path: Path) -> Rows:
    ids: dict[int, str] = {}
    with strongroom.open(path, durability="relaxed") as ctx:

        def fill(size: int, late: Late) -> bool:
            run = ctx.runs.create(objective="measure")
            ids[size] = run.id
            step = min(size, 100)
            for _ in range(size // step):
                with ctx.turn() as turn:
                    for _ in range(step):
                        turn.record(run, "TOOL_CALL", EVENT)
                if late():
                    return False
            return True

        sizes = filled(SIZES, RUNS_SECONDS, fill)
    with strongroom.open(path) as ctx:
        opened = {size: ctx.runs.get(ids[size]) for size in sizes}
        yield from told("growth", "update a run", {size: partial(_update, run) for size, run in opened.items()})
        records = {size: partial(run.record, "TOOL_CALL", EVENT) for size, run in opened.items()}
        yield from told("growth", "record an event", records)


def _update(run: Any) -> None:
    run.update(expected_seq=run.seq, next_action="one more")


def memories(path: Path) -> Rows:
    """One owner has ten of them, as far apart as can be, others the rest: a file for each size, whose index holds no
    others."""
    opened: dict[int, Any] = {}

    def fill(size: int, late: Late) -> bool:
        opened[size] = strongroom.open(path.with_suffix(f".{size}"), durability="relaxed")
        kept = opened[size].memories
        for start in range(0, size, 100):
            requests = [request(number, number % (size // OWN) == 0) for number in range(start, start + 100)]
            kept.commit(kept.propose(requests, proposer="a").id, reviewer="b")
            if late():
                return False
        return True

    try:
        works = {}
        for size in filled(SIZES, MEMORIES_SECONDS, fill):
            found = opened[size].memories
            found.search("lake", 5, user_id="me")  # lets the index catch up
            works[size] = partial(found.search, "the lake in summer", 5, user_id="me")
        yield from told("growth", "search the memories of one owner", works, note=f"the owner has {OWN}")
    finally:
        for ctx in opened.values():
            ctx.close()


def request(number: int, own: bool) -> dict[str, Any]:
    return {
        "op": "add", "type": "fact", "scope": "user", "user_id": "me" if own else f"u{number % 997}",
        "confidence": 0.9, "source_refs": [], "rationale": "measured", "content": message(number)["content"],
    }  # fmt: skip
