"""Threads beside the context buffer of xml-pipeline, from its package."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import ROUNDS, Result, duel, median, micro, rate
from strongroom.dispatch import Dispatcher

CONVERSATIONS, MESSAGES = 8, 4
BUSY = 300_000  # rounds of `spin`: some 20 ms of one processor, as much as a small tool call


@dataclass
class Note:
    text: str


def measure() -> Iterator[Result]:
    yield in_process()
    with tempfile.TemporaryDirectory() as folder:
        yield following(Path(folder) / "follow.db")
    with tempfile.TemporaryDirectory() as folder:
        yield from computing(Path(folder))


def in_process() -> Result:
    from xml_pipeline.memory.context_buffer import ContextBuffer

    theirs = ContextBuffer()
    theirs.max_slots_per_thread = 10**9
    ctx = strongroom.open("memory://")
    note = Note("hello")
    ours, peer = duel(
        lambda: ctx.threads.append("t", note, from_id="a", to_id="b"),
        lambda: theirs.append("t", note, "a", "b"),
        3000,
    )
    return Result("append in process", peer / ours, 3, ours=micro(ours), peer=micro(peer))


def following(path: Path, appends: int = 100) -> Result:
    with strongroom.open(path) as ctx:
        ctx.threads.append("t", "first", from_id="a")
        start = multiprocessing.get_context("spawn")
        ready, taken = start.Event(), start.Queue()
        watcher = start.Process(target=_watch, args=(str(path), appends, ready, taken))
        watcher.start()
        ready.wait()
        for _ in range(appends):
            time.sleep(0.02)
            ctx.threads.append("t", time.time(), from_id="a")
        waits = [taken.get() for _ in range(appends)]
        watcher.join()
    p50 = median(waits)
    return Result(
        "follow, milliseconds to wake",
        p50 * 1e3,
        5,
        at_most=True,
        ours=f"{p50 * 1e3:.2f} ms",
        note="p50, another process",
    )


def _watch(path: str, appends: int, ready: object, taken: object) -> None:
    with strongroom.open(path) as ctx:
        followed = ctx.threads.follow("t", after=0)
        ready.set()
        for _ in range(appends):
            slot = next(followed)
            taken.put(time.time() - slot.payload)


def computing(folder: Path) -> Iterator[Result]:
    """The same messages, four at a time: in this process, or in two others that are already running."""
    with (
        strongroom.open(folder / "alone.db") as one,
        strongroom.open(folder / "beside.db") as other,
        Dispatcher(one, max_concurrent=4) as alone,
        Dispatcher(other, max_concurrent=4, max_workers=2) as beside,
    ):
        alone.handler("spin")(spin)
        beside.handler("spin", cpu_bound=True)(spin)
        handled(alone, 0)
        start_up = handled(beside, 0)
        trips = [handled(beside, 0) / (CONVERSATIONS * MESSAGES) for _ in range(ROUNDS)]
        pairs = [(handled(beside, BUSY), handled(alone, BUSY)) for _ in range(ROUNDS)]
    ours, peer = sorted(pairs, key=lambda pair: pair[1] / pair[0])[ROUNDS // 2]
    total = CONVERSATIONS * MESSAGES
    yield Result(
        "CPU-bound messages, two processes",
        peer / ours,
        1.5,
        ours=rate(total / ours),
        peer=rate(total / peer),
        note="one process is the peer; four messages at a time in both",
    )
    trip = median(trips)
    yield Result("a CPU-bound message, milliseconds of dispatch", trip * 1e3, 20, at_most=True, ours=micro(trip))
    start_up -= trip * total
    yield Result("starting two worker processes, seconds", start_up, 10, at_most=True, ours=f"{start_up:.2f} s")


def handled(dispatcher: Dispatcher, busy: int) -> float:
    """Return the seconds it takes until a number of new messages are handled and their answers committed."""
    for number in range(CONVERSATIONS * MESSAGES):
        dispatcher.send(f"t{number % CONVERSATIONS}", busy, from_id="user", to_id="spin")
    start = time.perf_counter()
    dispatcher.drain()
    return time.perf_counter() - start


def spin(payload: int, call: Any) -> int:
    total = 0
    for number in range(payload):
        total += number * number % 7
    return total
