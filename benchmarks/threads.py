"""Threads beside the context buffer of xml-pipeline, from its package."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import holdfast
from benchmarks.measuring import Result, duel, median, micro


@dataclass
class Note:
    text: str


def measure() -> Iterator[Result]:
    yield in_process()
    with tempfile.TemporaryDirectory() as folder:
        yield following(Path(folder) / "follow.db")


def in_process() -> Result:
    from xml_pipeline.memory.context_buffer import ContextBuffer

    theirs = ContextBuffer()
    theirs.max_slots_per_thread = 10**9
    ctx = holdfast.open("memory://")
    note = Note("hello")
    ours, peer = duel(
        lambda: ctx.threads.append("t", note, from_id="a", to_id="b"),
        lambda: theirs.append("t", note, "a", "b"),
        3000,
    )
    return Result("append in process", peer / ours, 3, ours=micro(ours), peer=micro(peer))


def following(path: Path, appends: int = 100) -> Result:
    with holdfast.open(path) as ctx:
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
    with holdfast.open(path) as ctx:
        followed = ctx.threads.follow("t", after=0)
        ready.set()  # type: ignore[attr-defined]
        for _ in range(appends):
            slot = next(followed)
            taken.put(time.time() - slot.payload)  # type: ignore[attr-defined]
