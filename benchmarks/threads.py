"""How fast are messages handed on? To a follower in another process, and to workers that compute."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import Result, figure, median, micro, pick, rate
from benchmarks.workload import SYNCED
from strongroom.dispatch import Dispatcher

CONVERSATIONS, MESSAGES = 8, 4
ROUNDS = pick(7, 2)
BUSY = 300_000  # rounds of `spin`: some 20 ms of one processor, as much as a small tool call


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        yield following(Path(folder) / "follow.db", pick(100, 20))
    with tempfile.TemporaryDirectory() as folder:
        yield from computing(Path(folder))


def following(path: Path, appends: int) -> Result:
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
    name = "follow in another process, milliseconds to wake"
    waited = [wait * 1e3 for wait in waits]
    return figure("threads", name, waited, ours=micro(p50), durability=SYNCED, note="from the call to the follower")


def _watch(path: str, appends: int, ready: Any, taken: Any) -> None:
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
    total = CONVERSATIONS * MESSAGES
    ours, peer = (median(list(times)) for times in zip(*pairs, strict=True))
    yield figure(
        "threads",
        "CPU-bound messages, two processes / one",
        [other / one for one, other in pairs],
        ours=rate(total / ours),
        peer=rate(total / peer),
        durability=SYNCED,
        note="four messages at a time in both",
    )
    trip = [time * 1e3 for time in trips]
    name = "a CPU-bound message, milliseconds of dispatch"
    yield figure("threads", name, trip, ours=micro(median(trips)), durability=SYNCED)
    start_up = max(start_up - median(trips) * total, 0.0)
    yield figure("threads", "start two worker processes, seconds", start_up, ours=micro(start_up), durability=SYNCED)


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
