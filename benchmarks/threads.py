"""Threads beside the context buffer of xml-pipeline, from its package."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import ROUNDS, Result, duel, median, micro, rate
from strongroom.dispatch import AsyncDispatcher, Dispatcher

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
    with tempfile.TemporaryDirectory() as folder:
        yield idling(Path(folder))


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


def idling(folder: Path, few: int = 10, many: int = 100_000, seconds: float = 5.0) -> Result:
    """The processor time of a worker that has nothing to do, among few live threads and among many."""
    paths = [_with_threads(folder / f"{count}.db", count) for count in (few, many)]
    for path in paths:
        _idle_seconds(path, 0.5)
    pairs = [(_idle_seconds(paths[1], seconds), _idle_seconds(paths[0], seconds)) for _ in range(ROUNDS)]
    ours, peer = sorted(pairs, key=lambda pair: pair[0] / pair[1])[ROUNDS // 2]
    return Result(
        f"an idle worker among {many:,} threads",
        ours / peer,
        1.5,
        at_most=True,
        ours=f"{ours / seconds:.1%} of a processor",
        peer=f"{peer / seconds:.1%} of a processor",
        note=f"{few} threads are the peer",
    )


def _with_threads(path: Path, count: int) -> Path:
    """Make live threads; somebody else has the last word in each."""

    async def fill() -> None:
        async with await strongroom.aopen(path) as ctx:
            for number in range(count):
                await ctx.threads.append(f"t{number}", "hello", from_id="echo", to_id="user")

    asyncio.run(fill())
    return path


def _idle_seconds(path: Path, seconds: float) -> float:
    """Return the processor time that a worker takes, in a process that does nothing else."""
    start = multiprocessing.get_context("spawn")
    taken = start.Queue()
    worker = start.Process(target=_idle, args=(str(path), seconds, taken))
    worker.start()
    used: float = taken.get()
    worker.join()
    return used


def _idle(path: str, seconds: float, taken: Any) -> None:
    async def serve() -> float:
        async with await strongroom.aopen(path) as ctx:
            dispatcher = AsyncDispatcher(ctx)
            dispatcher.handler("echo")(lambda payload, call: None)
            serving = asyncio.create_task(dispatcher.run())
            await asyncio.sleep(0.2)
            before = time.process_time()
            await asyncio.sleep(seconds)
            used = time.process_time() - before
            dispatcher.stop()
            await serving
            return used

    taken.put(asyncio.run(serve()))


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
