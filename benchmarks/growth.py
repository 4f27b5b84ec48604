"""Does a cost grow with history? Each hot operation at 10^2 .. 10^6 records, all sizes in turn, and the exponent.

0 is a cost that stays, 1 one that grows with what there is. Histories are filled from the small to the large while
there is time; a figure says how far it got.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import SECONDS, Curve, Result, Timed, calls, exponent, figure, in_turn, median, micro, pick
from benchmarks.workload import BUDGET, SYNCED, message, messages

SIZES = pick((100, 1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 10_000))
NAMES = pick((100, 1_000, 10_000, 100_000), (100, 1_000))
SPACES = pick((1, 10, 100, 1_000, 10_000), (1, 10, 100))
FILL_SECONDS = pick({"sessions": 90.0, "runs": 45.0, "memories": 60.0, "names": 20.0, "spaces": 15.0}, {})
QUICK_FILL_SECONDS = 1.5
EVENT = {"tool_name": "fetch", "arguments": {"url": "https://example.com/a"}}
OWN = 10  # memories of the owner who searches

Rows = Iterator[Result | Curve]


def measure() -> Rows:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in (sessions, runs, memories, names, spaces):
            yield from rows(folder / f"{rows.__name__}.db")


def sessions(path: Path) -> Rows:
    def fill(ctx: Any, size: int, late: Callable[[], bool]) -> bool:
        session = ctx.sessions.open(f"s{size}")
        step = min(size, 2_000)
        for start in range(0, size, step):
            session.append(messages(start, start + step))
            if late():
                return False
        return True

    sizes = filled(path, SIZES, fill)
    with strongroom.open(path) as ctx:
        opened = {size: ctx.sessions.open(f"s{size}") for size in sizes}
        yield from told("append", {size: partial(one.append, [message(1)]) for size, one in opened.items()})
        yield from told("load the last 10", {size: partial(one.load, k=10) for size, one in opened.items()})
        windows = {size: partial(one.window, max_tokens=BUDGET) for size, one in opened.items()}
        yield from told(f"window of {BUDGET:,} tokens", windows)
        prompts = {size: partial(ctx.prompt, session=one, max_tokens=BUDGET) for size, one in opened.items()}
        yield from told(f"prompt of {BUDGET:,} tokens", prompts, note="asked with the newest thing the user said")


def runs(path: Path) -> Rows:
    ids: dict[int, str] = {}

    def fill(ctx: Any, size: int, late: Callable[[], bool]) -> bool:
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

    sizes = filled(path, SIZES, fill)
    with strongroom.open(path) as ctx:
        opened = {size: ctx.runs.get(ids[size]) for size in sizes}
        yield from told("update a run", {size: partial(_update, run) for size, run in opened.items()})
        yield from told(
            "record an event", {size: partial(run.record, "TOOL_CALL", EVENT) for size, run in opened.items()}
        )


def _update(run: Any) -> None:
    run.update(expected_seq=run.seq, next_action="one more")


def memories(path: Path) -> Rows:
    """One owner has ten of them, as far apart as can be, others the rest: a file for each size, whose index holds no
    others."""
    opened: dict[int, Any] = {}

    def fill(ctx: Any, size: int, late: Callable[[], bool]) -> bool:
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
        for size in filled(path, SIZES, fill):
            found = opened[size].memories
            found.search("lake", 5, user_id="me")  # lets the index catch up
            works[size] = partial(found.search, "the lake in summer", 5, user_id="me")
        yield from told("search the memories of one owner", works, note=f"the owner has {OWN}")
    finally:
        for ctx in opened.values():
            ctx.close()


def request(number: int, own: bool) -> dict[str, Any]:
    return {
        "op": "add", "type": "fact", "scope": "user", "user_id": "me" if own else f"u{number % 997}",
        "confidence": 0.9, "source_refs": [], "rationale": "measured", "content": message(number)["content"],
    }  # fmt: skip


def names(path: Path) -> Rows:
    """Append to one session among many: those are made of a file each size, or the small would not be small."""

    def fill(ctx: Any, size: int, late: Callable[[], bool]) -> bool:
        with strongroom.open(path.with_suffix(f".{size}"), durability="relaxed") as own:
            for number in range(size):
                own.sessions.open(f"s{number}").append([message(number)])
                if late():
                    return False
        return True

    sizes = filled(path, NAMES, fill)
    opened = {size: strongroom.open(path.with_suffix(f".{size}")) for size in sizes}
    works = {}
    for size, ctx in opened.items():
        session = ctx.sessions.open(f"s{size // 2}")
        works[size] = partial(session.append, [message(1)])
    yield from told("append among many sessions", works)
    for ctx in opened.values():
        ctx.close()


def spaces(path: Path) -> Rows:
    def fill(ctx: Any, size: int, late: Callable[[], bool]) -> bool:
        own = path.with_suffix(f".{size}")
        with strongroom.open(own, durability="relaxed"):
            for number in range(size):
                with strongroom.open(own, space=f"tenant-{number}", durability="relaxed") as tenant:
                    tenant.sessions.open("s").append([message(number)])
                if late():
                    return False
        return True

    sizes = filled(path, SPACES, fill)
    opened = {size: strongroom.open(path.with_suffix(f".{size}"), space=f"tenant-{size // 2}") for size in sizes}
    works = {}
    for size, ctx in opened.items():
        session = ctx.sessions.open("s")
        works[size] = partial(session.append, [message(1)])
    yield from told("append among many spaces", works)
    for ctx in opened.values():
        ctx.close()


# ---- what they have in common ----------------------------------------------------------------------------------------

Fill = Callable[[Any, int, Callable[[], bool]], bool]


def filled(path: Path, sizes: tuple[int, ...], fill: Fill) -> list[int]:
    """Fill a file with a history of each size while there is time, and return the sizes that are whole."""
    end = time.monotonic() + FILL_SECONDS.get(path.stem, QUICK_FILL_SECONDS)
    done: list[int] = []
    with strongroom.open(path, durability="relaxed") as ctx:
        for size in sizes:
            if not fill(ctx, size, lambda: time.monotonic() > end) and len(done) >= 2:
                break
            done.append(size)
    return done


def told(name: str, works: Mapping[int, Callable[[], object]], *, note: str = "") -> Rows:
    """Measure all sizes in turn; yield the exponent, and the points it was fitted through."""
    rivals: list[Timed] = [calls(work) for work in works.values()]
    taken = in_turn(rivals, SECONDS)
    sizes = list(works)
    points = [(float(size), median(times)) for size, times in zip(sizes, taken, strict=True)]
    rounds = [
        exponent([(size, times[number]) for size, times in zip(sizes, taken, strict=True)])
        for number in range(len(taken[0]))
    ]
    reach = f"{sizes[0]:,} to {sizes[-1]:,}"
    yield figure(
        "growth",
        name,
        rounds,
        ours=f"{micro(points[-1][1])} at {sizes[-1]:,}",
        peer=f"{micro(points[0][1])} at {sizes[0]:,}",
        durability=SYNCED,
        note="; ".join(filter(None, (reach, note))),
    )
    yield Curve("history", name, points)
