"""Sessions beside ContextStore and openai-agents' SQLiteSession, from their packages."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import holdfast
from benchmarks.measuring import Result, median, micro

SIZES = {0: 5, 1_000: 20, 10_000: 100}
TURNS = (300, 10_000)
ROUNDS = 15


def message(number: int) -> dict[str, Any]:
    return {
        "role": "user" if number % 2 else "assistant",
        "content": f"message {number}: " + "some words to read " * 12,
    }


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(beside_contextstore(Path(folder)))
        yield from flat(Path(folder))
        yield from asyncio.run(beside_agents(Path(folder)))


async def timed(work: Callable[[], Awaitable[Any]], rounds: int = ROUNDS) -> float:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - start)
    return median(taken)


async def beside_contextstore(folder: Path) -> list[Result]:
    from contextstore import ContextBuilder, SQLiteMemory

    results = []
    builder = ContextBuilder.from_model("fallback")
    for size, wanted in SIZES.items():
        theirs = SQLiteMemory(str(folder / f"theirs-{size}.db"))
        history = [message(number) | {"id": str(number), "timestamp": f"{number:09}"} for number in range(size)]
        await theirs.save_context("s", history)
        async with await holdfast.aopen(folder / f"ours-{size}.db") as ctx:
            session = await ctx.sessions.open("s")
            for start in range(0, size, 1000):
                await session.append([message(number) for number in range(start, start + 1000)])
            ours = await timed(lambda session=session: session.append([message(1)]))
            peer = await timed(lambda theirs=theirs: theirs.append_context("s", [message(1)]))
            results.append(
                Result(f"append at {size:,} messages", peer / ours, wanted, ours=micro(ours), peer=micro(peer))
            )
            if size == max(SIZES):
                ours = await timed(lambda session=session: session.load(k=10))
                peer = await timed(lambda theirs=theirs: theirs.load_context("s", k=10))
                results.append(
                    Result("load the last 10 of 10,000", peer / ours, 50, ours=micro(ours), peer=micro(peer))
                )
                ours = await timed(lambda session=session: session.window(max_tokens=4000))

                async def build(history: Any = history) -> None:
                    builder.build(history, max_tokens=4000)

                peer = await timed(build, 5)
                results.append(
                    Result("window of 4,000 tokens of 10,000", peer / ours, 50, ours=micro(ours), peer=micro(peer))
                )
    return results


def flat(folder: Path, million: int = 1_000_000) -> Iterator[Result]:
    with holdfast.open(folder / "long.db", durability="relaxed") as ctx:
        small, large = ctx.sessions.open("small"), ctx.sessions.open("large")
        small.append([message(number) for number in range(1000)])
        for start in range(0, million, 5000):
            large.append([message(number) for number in range(start, start + 5000)])
        times: dict[str, list[float]] = {"small": [], "large": []}
        for _ in range(60):
            for name, session in (("small", small), ("large", large)):
                start_time = time.perf_counter()
                session.window(max_tokens=4000)
                times[name].append(time.perf_counter() - start_time)
    ours, theirs = median(times["large"]), median(times["small"])
    note = "a window over 1,000,000 messages beside one over 1,000"
    yield Result("window, long history", ours / theirs, 1.3, True, micro(ours), micro(theirs), note)


async def beside_agents(folder: Path) -> list[Result]:
    from agents.memory import SQLiteSession

    results = []
    for turns in TURNS:
        theirs = SQLiteSession("s", folder / f"agents-{turns}.db")
        items: list[Any] = [message(number) for number in range(turns * 2)]
        await theirs.add_items(items)
        async with await holdfast.aopen(folder / f"turns-{turns}.db") as ctx:
            session = await ctx.sessions.open("s")
            for start in range(0, len(items), 1000):
                await session.append(items[start : start + 1000])

            async def our_turn(session: Any = session) -> None:
                await session.window(max_tokens=4000)
                await session.append([message(1), message(2)])

            async def their_turn(theirs: Any = theirs) -> None:
                await theirs.get_items()
                await theirs.add_items([message(1), message(2)])

            ours, peer = await timed(our_turn), await timed(their_turn)
            results.append(Result(f"a turn after {turns:,} turns", peer / ours, 1, ours=micro(ours), peer=micro(peer)))
            if turns == max(TURNS):
                ctx.store.blocking.compact()  # type: ignore[attr-defined]
                text = sum(len(item["content"]) for item in items)
                size = (folder / f"turns-{turns}.db").stat().st_size / text
                results.append(Result("bytes on disk per byte of text", size, 2.0, at_most=True, ours=f"{size:.2f}"))
        theirs.close()
    return results
