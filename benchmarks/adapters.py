"""Adapters beside the frameworks' own SQLite stores, with the same durability (WAL, synchronous=FULL).

Rivals take turns in one process, on one disk; the median counts. What is stored is what a framework stores:
checkpoints of a graph with one channel of messages, items of a conversation, items of a long-term store.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.measuring import Result, median, micro, seconds
from benchmarks.sessions import messages, per_byte

SIZES = (10, 300, 3_000)  # messages that a thread holds; SqliteSaver writes all of them at each step
LONG = 10_000
ROUNDS = 7


def measure(sizes: tuple[int, ...] = SIZES, long: int = LONG) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in sizes:
            yield from savers(folder, size)
        for size in (*sizes[:2], long):
            yield from conversations(folder, size)
        yield from stores(folder, long)


def result(name: str, ours: float, peer: float, wanted: float) -> Result:
    return Result(name, peer / ours, wanted, ours=micro(ours), peer=micro(peer))


def duel(ours: Any, peer: Any, times: int = 5) -> tuple[float, float]:
    pairs = [(seconds(ours, times), seconds(peer, times)) for _ in range(ROUNDS)]
    return median([one for one, _ in pairs]), median([two for _, two in pairs])


# ---- LangGraph -------------------------------------------------------------------------------------------------------


class Thread:
    """A thread whose state is a list of messages that grows by two at each step."""

    def __init__(self, saver: Any, size: int) -> None:
        from langchain_core.messages import AIMessage, HumanMessage

        self._saver, self._config = saver, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        kinds = (AIMessage, HumanMessage)
        self._new = lambda n: kinds[n % 2](messages(n, n + 1)[0]["content"], id=f"m{n}")
        self._history: list[Any] = []
        while len(self._history) < size:
            self.step()

    def step(self) -> None:
        """One superstep: what a task wrote, then the checkpoint."""
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.base.id import uuid6

        count = len(self._history)
        new = [self._new(count), self._new(count + 1)]
        if count:
            self._saver.put_writes(self._config, [("messages", new)], "task")
        self._history = [*self._history, *new]
        checkpoint: Any = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": self._history}
        checkpoint["channel_versions"] = {"messages": f"{count + 2:032}"}
        self._config = self._saver.put(self._config, checkpoint, {"step": count}, checkpoint["channel_versions"])

    def latest(self) -> None:
        assert self._saver.get_tuple({"configurable": {"thread_id": "t"}}) is not None

    def ten(self) -> None:
        assert list(self._saver.list({"configurable": {"thread_id": "t"}}, limit=10))


def savers(folder: Path, size: int) -> Iterator[Result]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from strongroom.adapters.langgraph import StrongroomSaver

    mine, theirs = folder / f"ours-{size}.db", folder / f"theirs-{size}.db"
    with StrongroomSaver(mine) as saver, closing(sqlite3.connect(theirs, check_same_thread=False)) as connection:
        peer = SqliteSaver(connection)
        peer.setup()
        connection.execute("PRAGMA synchronous = FULL")
        one, other = Thread(saver, size), Thread(peer, size)
        yield result(f"LangGraph, a superstep at {size:,}", *duel(one.step, other.step), 1.0 if size <= 10 else 1.5)
        yield result(f"LangGraph, get latest at {size:,}", *duel(one.latest, other.latest), 1.0)
        yield result(f"LangGraph, list 10 at {size:,}", *duel(one.ten, other.ten), 1.0)
    history = messages(0, size)
    ours, peers = per_byte(mine, history), per_byte(theirs, history)
    wanted = 30.0 if size >= 300 else 0.5
    yield Result(f"LangGraph, bytes on disk at {size:,}", peers / ours, wanted, ours=f"{ours:.1f}", peer=f"{peers:.1f}")


def stores(folder: Path, size: int) -> Iterator[Result]:
    from langgraph.store.base import PutOp
    from langgraph.store.sqlite import SqliteStore

    from strongroom.adapters.langgraph import StrongroomStore

    theirs = folder / "theirs-store.db"
    with (
        StrongroomStore(folder / "ours-store.db") as store,
        closing(sqlite3.connect(theirs, check_same_thread=False, isolation_level=None)) as connection,
    ):
        peer = SqliteStore(connection)
        peer.setup()
        connection.execute("PRAGMA synchronous = FULL")
        for start in range(0, size, 500):
            some = range(start, start + 500)
            ops = [PutOp(("u", f"{n % 20}"), f"k{n}", {"n": n, "text": "lorem " * 15}) for n in some]
            store.batch(ops)
            peer.batch(ops)
        name = f"LangGraph store, newest 10 of {size:,}"
        yield result(name, *duel(lambda: store.search(("u",)), lambda: peer.search(("u",))), 1.0)
        update = ("u", "3"), "k3", {"n": 1}
        yield result("LangGraph store, an update", *duel(lambda: store.put(*update), lambda: peer.put(*update)), 0.7)


# ---- OpenAI Agents ---------------------------------------------------------------------------------------------------


def conversations(folder: Path, size: int) -> Iterator[Result]:
    from agents.memory import SQLiteSession

    from strongroom.adapters.openai_agents import StrongroomSession

    with asyncio.Runner() as runner, StrongroomSession("s", folder / f"ours-agents-{size}.db") as ours:
        theirs = SQLiteSession("s", folder / f"theirs-agents-{size}.db")

        def turn(session: Any) -> None:
            runner.run(session.get_items(50))
            runner.run(session.add_items(messages(1, 3)))

        for session in (ours, theirs):
            for start in range(0, size, 500):
                runner.run(session.add_items(messages(start, min(start + 500, size))))
        yield result(f"OpenAI Agents, a turn at {size:,}", *duel(lambda: turn(ours), lambda: turn(theirs)), 1.0)
        whole = duel(lambda: runner.run(ours.get_items()), lambda: runner.run(theirs.get_items()), 1)
        yield result(f"OpenAI Agents, all items of {size:,}", *whole, 1.0)
        theirs.close()
