"""Sessions beside ContextStore, openai-agents' SQLiteSession and LangGraph's SqliteSaver, from their packages.

All write ahead and sync the disk at each commit (WAL, synchronous=FULL), but for ContextStore, which keeps SQLite's
default (a rollback journal, synced too). Rivals take turns in one process, on one disk; the median counts.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import Result, median, micro

SIZES = {0: 5, 1_000: 20, 10_000: 100}
TURNS = (300, 10_000)
ROUNDS, CALLS = 5, 10
LONG = 1_000_000
BUDGET = 4_000
TALK = (
    "I really think we should take the kids out to that lake again before summer is over because last year they kept "
    "talking about how much fun swimming with their cousins was and my sister already asked when her family could come "
    "along what do you say about the second weekend of August if work lets me go early on Friday"
)
WORDS = TALK.split()

Work = Callable[[], Awaitable[Any]]


def message(number: int) -> dict[str, Any]:
    """Return a turn of 5 to 44 words, 130 bytes on average, as people chat."""
    length = 5 + number * 7 % 40
    text = " ".join(WORDS[(number * 11 + place * (1 + number % 3)) % len(WORDS)] for place in range(length))
    return {"role": "user" if number % 2 else "assistant", "content": f"{text} {number}."}


def messages(start: int, stop: int) -> list[dict[str, Any]]:
    return [message(number) for number in range(start, stop)]


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size, wanted in SIZES.items():
            yield from asyncio.run(beside_contextstore(folder, size, wanted))
        for turns in TURNS:
            yield from asyncio.run(beside_agents(folder, turns))
            yield from asyncio.run(beside_langgraph(folder, turns))
        yield from disk(folder)
        yield from flat(folder)


async def duel(ours: Work, theirs: Work) -> tuple[float, float]:
    """Return the median seconds of each: ten calls in a row, in turn, so that both see the same machine."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for work, times in zip((ours, theirs), taken, strict=True):
            start = time.perf_counter()
            for _ in range(CALLS):
                await work()
            times.append((time.perf_counter() - start) / CALLS)
    return median(taken[0]), median(taken[1])


def result(name: str, times: tuple[float, float], wanted: float, note: str = "") -> Result:
    ours, peer = times
    return Result(name, peer / ours, wanted, ours=micro(ours), peer=micro(peer), note=note)


async def filled(ctx: Any, count: int) -> Any:
    session = await ctx.sessions.open("s")
    for start in range(0, count, 1000):
        await session.append(messages(start, min(start + 1000, count)))
    return session


async def beside_contextstore(folder: Path, size: int, wanted: float) -> list[Result]:
    from contextstore import ContextBuilder, SQLiteMemory

    theirs = SQLiteMemory(str(folder / f"theirs-{size}.db"))
    history = [message(number) | {"id": str(number), "timestamp": f"{number:09}"} for number in range(size)]
    await theirs.save_context("s", history)
    async with strongroom.aopen(folder / f"ours-{size}.db") as ctx:
        session = await filled(ctx, size)
        times = await duel(lambda: session.append([message(1)]), lambda: theirs.append_context("s", [message(1)]))
        results = [result(f"append at {size:,} messages", times, wanted, "beside ContextStore")]
        if size == max(SIZES):
            times = await duel(lambda: session.load(k=10), lambda: theirs.load_context("s", k=10))
            results.append(result(f"load the last 10 of {size:,}", times, 50, "beside ContextStore"))
            builder = ContextBuilder.from_model("fallback")

            async def build() -> None:
                builder.build(history, max_tokens=BUDGET)

            times = await duel(lambda: session.window(max_tokens=BUDGET), build)
            note = "beside ContextStore's builder, which is given the history as a list"
            results.append(result(f"window of {BUDGET:,} tokens of {size:,}", times, 50, note))
    return results


# ---- a turn: read the window, append two ----------------------------------------------------------------------------


async def our_turn(session: Any) -> None:
    await session.window(max_tokens=BUDGET)
    await session.append(messages(1, 3))


async def beside_agents(folder: Path, turns: int) -> list[Result]:
    from agents.memory import SQLiteSession

    theirs = SQLiteSession("s", folder / f"agents-{turns}.db")
    await theirs.add_items(messages(0, 2 * turns))
    with theirs._locked_connection() as connection:
        assert_durable(connection)
    async with strongroom.aopen(folder / f"agents-ours-{turns}.db") as ctx:
        session = await filled(ctx, 2 * turns)
        fitting = len((await session.window(max_tokens=BUDGET)).messages)

        async def their_turn(limit: int | None = None) -> None:
            await theirs.get_items(limit)
            await theirs.add_items(messages(1, 3))

        whole = await duel(lambda: our_turn(session), their_turn)
        limited = await duel(lambda: our_turn(session), lambda: their_turn(fitting))
    theirs.close()
    name = f"a turn after {turns:,}"
    return [
        result(f"{name}, SQLiteSession", whole, 0, "which reads the whole history; told, not wanted"),
        result(
            f"{name}, SQLiteSession of {fitting}",
            limited,
            0,
            "which reads as many items, but counts no tokens; told, not wanted",
        ),
    ]


async def beside_langgraph(folder: Path, turns: int) -> list[Result]:
    with closing(sqlite3.connect(folder / f"langgraph-{turns}.db", check_same_thread=False)) as connection:
        saver = Saver(connection)
        saver.put(messages(0, 2 * turns))
        assert_durable(connection)
        with strongroom.open(folder / f"langgraph-ours-{turns}.db") as ctx:
            session = ctx.sessions.open("s")
            session.append(messages(0, 2 * turns))

            async def our_turn() -> None:  # blocking calls on both sides: this saver has no others
                session.window(max_tokens=BUDGET)
                session.append(messages(1, 3))

            async def their_turn() -> None:
                saver.put([*saver.get(), *messages(1, 3)])

            times = await duel(our_turn, their_turn)
    return [
        result(
            f"a turn after {turns:,}, SqliteSaver",
            times,
            0,
            "which keeps a whole state for each step; told, not wanted",
        )
    ]


class Saver:
    """LangGraph's SqliteSaver as a graph with one channel of messages uses it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        connection.execute("PRAGMA synchronous = FULL")
        self._saver = SqliteSaver(connection)
        self._saver.setup()
        self._config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}

    def get(self) -> list[Any]:
        found = self._saver.get_tuple({"configurable": {"thread_id": "s"}})
        assert found is not None
        history: list[Any] = found.checkpoint["channel_values"]["messages"]
        return history

    def put(self, history: Sequence[Any]) -> None:
        from langgraph.checkpoint.base import empty_checkpoint

        checkpoint: Any = empty_checkpoint() | {"channel_values": {"messages": history}}
        self._config = self._saver.put(self._config, checkpoint, {"source": "loop"}, {})


def assert_durable(connection: sqlite3.Connection) -> None:
    """Make sure that a peer syncs each commit as we do: what it did not ask for it must have by default."""
    ((journal,),) = connection.execute("PRAGMA journal_mode").fetchall()
    ((synchronous,),) = connection.execute("PRAGMA synchronous").fetchall()
    assert (journal, synchronous) == ("wal", 2), f"not the same durability: {journal}, {synchronous}"


# ---- disk and length ------------------------------------------------------------------------------------------------


def disk(folder: Path, turns: int = 3_000, few: int = 300) -> Iterator[Result]:
    """Measure files after closing, each turn of two messages in a commit of its own."""
    from agents.memory import SQLiteSession

    history = messages(0, 2 * turns)
    with strongroom.open(folder / "disk.db", durability="relaxed") as ctx:
        session = ctx.sessions.open("s")
        for place in range(0, len(history), 2):
            session.append(history[place : place + 2])
    plain = per_byte(folder / "disk.db", history)
    with strongroom.open(folder / "disk.db") as ctx:
        ctx.sessions.open("s").search("the lake", k=10)
    indexed = per_byte(folder / "disk.db", history)
    theirs = SQLiteSession("s", folder / "agents-disk.db")

    async def fill() -> None:
        for place in range(0, len(history), 2):
            await theirs.add_items(history[place : place + 2])

    asyncio.run(fill())
    theirs.close()
    with closing(sqlite3.connect(folder / "langgraph-disk.db")) as connection:
        saver = Saver(connection)
        connection.execute("PRAGMA synchronous = OFF")
        for place in range(2, 2 * few + 1, 2):
            saver.put(history[:place])
    agents = per_byte(folder / "agents-disk.db", history)
    langgraph = per_byte(folder / "langgraph-disk.db", history[: 2 * few])
    name = "bytes on disk per byte of text"
    for ours, label in ((plain, name), (indexed, f"{name}, searchable")):
        yield Result(label, ours, 2.0, True, f"{ours:.2f}", f"{agents:.2f}", "beside SQLiteSession")
    note = f"beside SqliteSaver after {few} turns: it grows with their square"
    yield Result(f"{name}, {few} turns", plain, 2.0, True, f"{plain:.2f}", f"{langgraph:.1f}", note)


def per_byte(path: Path, history: Sequence[dict[str, Any]]) -> float:
    size = sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
    return size / sum(len(one["content"].encode()) for one in history)


def flat(folder: Path) -> Iterator[Result]:
    with strongroom.open(folder / "long.db", durability="relaxed") as ctx:
        small, large = ctx.sessions.open("small"), ctx.sessions.open("large")
        small.append(messages(LONG - 1000, LONG))  # the same newest messages, so the same window
        for start in range(0, LONG, 5000):
            large.append(messages(start, start + 5000))
        times: dict[str, list[float]] = {"small": [], "large": []}
        for _ in range(101):
            for name, session in (("small", small), ("large", large)):
                start_time = time.perf_counter()
                session.window(max_tokens=BUDGET)
                times[name].append(time.perf_counter() - start_time)
    ours, peer = median(times["large"]), median(times["small"])
    note = "ours: a window over 1,000,000 messages; peer: over 1,000"
    yield Result("window, long history", ours / peer, 1.3, True, micro(ours), micro(peer), note)
