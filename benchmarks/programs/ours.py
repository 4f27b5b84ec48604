"""Strongroom, as its users would call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.workload import BUDGET, TURN, message, messages


@contextmanager
def conversation(address: str, length: int, durability: str = "") -> Iterator[dict[str, Any]]:
    """A session of so many messages: its turns (read a window, append two), and what they are made of."""
    options: dict[str, Any] = {"durability": durability} if durability else {}
    with strongroom.open(address, **options) as ctx:
        session = filled(ctx, length)
        awaited: list[Any] = []

        def turn() -> None:
            session.window(max_tokens=BUDGET)
            session.append(messages(*TURN))

        async def async_turn() -> None:
            if not awaited:
                awaited.append(await ctx.awaitable.sessions.open("s"))
            await awaited[0].window(max_tokens=BUDGET)
            await awaited[0].append(messages(*TURN))

        async def async_append() -> None:
            if not awaited:
                awaited.append(await ctx.awaitable.sessions.open("s"))
            await awaited[0].append([message(1)])

        async def async_load() -> None:
            await awaited[0].load(k=10)

        yield {
            "turn": turn,
            "async_turn": async_turn,
            "append": lambda: session.append([message(1)]),
            "async_append": async_append,
            "async_load": async_load,
            "fitting": lambda: len(session.window(max_tokens=BUDGET).messages),
        }


def filled(ctx: Any, length: int, name: str = "s") -> Any:
    session = ctx.sessions.open(name)
    for start in range(0, length, 1000):
        session.append(messages(start, min(start + 1000, length)))
    return session


@contextmanager
def slots() -> Iterator[dict[str, Callable[[], object]]]:
    """A thread in this process, durable nowhere; and the same by the names of the older buffer."""
    from benchmarks.programs.notes import Note
    from strongroom.compat.xml_pipeline.memory.context_buffer import ContextBuffer

    older, note = ContextBuffer(), Note("hello")
    older.max_slots_per_thread = 10**9
    with strongroom.open("memory://") as ctx:
        yield {
            "append": lambda: ctx.threads.append("t", note, from_id="a", to_id="b"),
            "compat": lambda: older.append("t", note, "a", "b"),
        }


@contextmanager
def memories(path: str, size: int) -> Iterator[dict[str, Callable[[], object]]]:
    """Memories by one line, with the same stand-in for an embedder that the peer has."""
    from benchmarks.programs.notes import WIDTH, vector
    from strongroom.embedders import Embedder

    embedder: Any = Embedder(
        lambda texts: [vector(text) for text in texts], name="stand-in", revision="1", dimension=WIDTH
    )
    with strongroom.open(path) as ctx:
        kept = ctx.memories.using(embedder=embedder)
        numbers = count()

        def add() -> None:
            kept.add(message(next(numbers))["content"], user_id="u")

        for _ in range(size):
            add()
        yield {"add": add, "search": lambda: kept.search("swimming in the lake", 10, user_id="u")}


@contextmanager
def first_search(folder: str, size: int, seconds: float) -> Iterator[dict[str, Callable[[], object]]]:
    """A long session that was never searched: how long is the longest call until somebody has found something?"""
    import time

    longest = {"append": 0.0, "search": 0.0, "size": 0.0}
    with strongroom.open(Path(folder) / "first.db") as ctx:
        session = ctx.sessions.open("s")
        end = time.monotonic() + seconds
        for start in range(0, size, 500):
            began = time.perf_counter()
            session.append(messages(start, start + 500))
            longest["append"] = max(longest["append"], time.perf_counter() - began)
            longest["size"] = start + 500
            if time.monotonic() > end:
                break

        def search() -> dict[str, float]:
            for words in ("the lake", "cousins swimming", "second weekend of August"):
                began = time.perf_counter()
                assert session.search(words, k=10)
                longest["search"] = max(longest["search"], time.perf_counter() - began)
            return longest

        yield {"search": search}
