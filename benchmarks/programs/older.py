"""The two older packages whose names strongroom.compat keeps: ContextStore, and xml-pipeline's buffer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from benchmarks.programs.notes import Note
from benchmarks.workload import message


@contextmanager
def slots() -> Iterator[dict[str, Callable[[], object]]]:
    from xml_pipeline.memory.context_buffer import ContextBuffer

    buffer, note = ContextBuffer(), Note("hello")
    buffer.max_slots_per_thread = 10**9
    yield {"append": lambda: buffer.append("t", note, "a", "b")}


@asynccontextmanager
async def conversation(path: str, length: int) -> AsyncIterator[dict[str, Callable[[], Any]]]:
    """ContextStore's SQLiteMemory, which keeps SQLite's default: a rollback journal, synced at each commit."""
    from contextstore import SQLiteMemory

    memory = SQLiteMemory(path)
    await memory.save_context(
        "s", [message(number) | {"id": str(number), "timestamp": f"{number:09}"} for number in range(length)]
    )

    async def append() -> None:
        await memory.append_context("s", [message(1)])

    async def load() -> None:
        await memory.load_context("s", k=10)

    yield {"append": append, "load": load}


@asynccontextmanager
async def vectors(size: int, width: int, queries: int) -> AsyncIterator[dict[str, Callable[[], Any]]]:
    """ContextStore's vectors in memory; returns the median seconds of a search."""
    import random

    from contextstore import InMemoryEmbeddingStore

    rng = random.Random(1)
    store = InMemoryEmbeddingStore()
    for number in range(size):
        await store.add("s", str(number), [rng.gauss(0, 1) for _ in range(width)])

    async def search() -> float:
        taken = []
        for _ in range(queries):
            query = [rng.gauss(0, 1) for _ in range(width)]
            start = time.perf_counter()
            await store.search("s", query, 10)
            taken.append(time.perf_counter() - start)
        return sorted(taken)[len(taken) // 2]

    yield {"search": search}
