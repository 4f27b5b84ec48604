"""The drop-in names beside the packages they stand in for."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import Result, duel, median, micro


@dataclass
class Note:
    text: str


def measure() -> Iterator[Result]:
    yield in_process()
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(appending(Path(folder)))


def in_process() -> Result:
    from xml_pipeline.memory.context_buffer import ContextBuffer as Original

    from strongroom.compat.xml_pipeline.memory.context_buffer import ContextBuffer

    ours, theirs, note = ContextBuffer(), Original(), Note("hello")
    ours.max_slots_per_thread = theirs.max_slots_per_thread = 10**9
    mine, peer = duel(lambda: ours.append("t", note, "a", "b"), lambda: theirs.append("t", note, "a", "b"), 3000)
    return Result("ContextBuffer.append", peer / mine, 2, ours=micro(mine), peer=micro(peer))


async def appending(folder: Path) -> list[Result]:
    from contextstore import SQLiteMemory as Original

    from strongroom.compat.contextstore import SQLiteMemory

    ours, theirs = SQLiteMemory(str(folder / "ours.db")), Original(str(folder / "theirs.db"))
    message = [{"role": "user", "content": "some words to read " * 12}]
    for memory in (ours, theirs):
        await memory.save_context("s", message)
    mine, peer = [], []
    for _ in range(40):
        mine.append(await timed(lambda: ours.append_context("s", message)))
        peer.append(await timed(lambda: theirs.append_context("s", message)))
    await ours.save_context("long", message * 10_000)
    late = [await timed(lambda: ours.append_context("long", message)) for _ in range(40)]
    first, last, original = median(mine), median(late), median(peer)
    return [
        Result("SQLiteMemory.append_context", original / first, 4, ours=micro(first), peer=micro(original)),
        Result("the same after 10,000 messages", last / first, 1.3, True, micro(last), micro(first)),
    ]


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start
