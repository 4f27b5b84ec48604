"""What do adapters cost beside the frameworks' own stores, with the same durability?

What is stored is what a framework stores: checkpoints of a graph with one channel of messages, items of a long-term
store, items of a conversation, events of a session. LangGraph and OpenAI Agents are in our own environment, so rivals
take turns in one process; google-adk is not, so each has a process, and ours runs in what `make adapters` makes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
from agents.memory import SQLiteSession
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore
from tests.servers.postgres import PostgresServer

from benchmarks import loops
from benchmarks.measuring import SECONDS, Result, compare, figure, pick
from benchmarks.processes import ROOT, MissingPeerError, Program
from benchmarks.workload import SYNCED, messages, on_disk, per_byte, require_synced
from strongroom.adapters.langgraph import StrongroomSaver, StrongroomStore
from strongroom.adapters.openai_agents import StrongroomSession

QUESTION = "adapters"
SIZES = pick((10, 300, 10_000), (300,))  # messages that a thread holds
STEP_BY_STEP = (
    300  # above, threads are begun in longer steps; the peers', which write all messages at each step, in one
)
LONG_STEP = 100
LISTED = 10
LOOP = 300  # steps
LONG = pick(10_000, 1_000)
BRIEF = SECONDS * 0.6
LONG_READ = SECONDS * 4
JOURNAL = f"ours: {SYNCED}; theirs: a rollback journal, synced"
WAL = "the server's WAL, fsync on"
GROWN = f"begun by steps of {LONG_STEP} messages, theirs by one step, then ten of two"
CHAT = "two short messages at each step"
LATEST: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in SIZES:
            yield from savers(folder, size)
        yield loop(folder)
        yield from stores(folder, LONG)
        for size in SIZES:
            yield from conversations(folder, size)
        yield from events(folder)
        yield from on_postgres()


def row(
    name: str, ours: Callable[[], object], peer: Callable[[], object], seconds: float = BRIEF, **more: str
) -> Result:
    return compare(ours, peer, seconds).row(QUESTION, name, **more)


# ---- LangGraph -------------------------------------------------------------------------------------------------------


class Thread:
    """A thread whose state is a list of messages that grows by two at each step."""

    def __init__(self, saver: Any) -> None:
        self._saver, self._config, self._history = saver, LATEST, list[Any]()

    def grow(self, size: int, long_step: int) -> Thread:
        """Fill the thread; the last ten steps are ordinary ones, so that ten checkpoints can be listed."""
        while len(self._history) < size:
            left = size - len(self._history) - 2 * LISTED
            self.step(min(long_step, left) if size > STEP_BY_STEP and left > 0 else 2)
        return self

    def step(self, new: int = 2) -> None:
        """One superstep: what a task wrote, then the checkpoint."""
        count = len(self._history)
        kinds = (AIMessage, HumanMessage)
        said = [kinds[n % 2](one["content"], id=f"m{n}") for n, one in enumerate(messages(count, count + new), count)]
        if count:
            self._saver.put_writes(self._config, [("messages", said)], "task")
        self._history = [*self._history, *said]
        checkpoint: Any = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": self._history}
        checkpoint["channel_versions"] = {"messages": f"{count + new:032}"}
        self._config = self._saver.put(self._config, checkpoint, {"step": count}, checkpoint["channel_versions"])

    def over(self, saver: Any) -> Thread:
        """Return the same thread in a saver that was opened again."""
        self._saver = saver
        return self

    def latest(self) -> None:
        assert self._saver.get_tuple({"configurable": {"thread_id": "t"}}) is not None

    def ten(self) -> None:
        assert list(self._saver.list({"configurable": {"thread_id": "t"}}, limit=LISTED))


def rows(where: str, size: int, one: Thread, other: Thread, durability: str) -> Iterator[Result]:
    note = GROWN if size > STEP_BY_STEP else ""
    # Ten thousand objects a call make Python collect garbage, 0.2 s at every third call, whoever's it is: a round of
    # one or two calls would tell whom it happened to.
    reading = BRIEF if size <= STEP_BY_STEP else LONG_READ
    # Steps come last: whoever makes more of them in the same time would have a longer list to read.
    for name, ours, peer, seconds in (
        ("get latest", one.latest, other.latest, reading),
        ("list 10", one.ten, other.ten, BRIEF),
        ("a superstep", one.step, other.step, BRIEF),
    ):
        yield row(f"LangGraph, {where}: {name} at {size:,}", ours, peer, seconds, durability=durability, note=note)


def savers(folder: Path, size: int) -> Iterator[Result]:
    mine, theirs = folder / f"ours-{size}.db", folder / f"theirs-{size}.db"
    with StrongroomSaver(mine, durability="relaxed") as saver:
        one = Thread(saver).grow(size, LONG_STEP)
    with closing(sqlite3.connect(theirs, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        other = Thread(SqliteSaver(connection)).grow(size, size)
    if size <= STEP_BY_STEP:
        history = messages(0, size)
        ours, peers = per_byte(mine, history), per_byte(theirs, history)
        name = f"LangGraph, SQLite: bytes on disk per byte of text at {size:,}"
        yield figure(QUESTION, name, peers / ours, ours=f"{ours:.1f}", peer=f"{peers:.1f}", note=CHAT)
    with StrongroomSaver(mine) as saver, closing(sqlite3.connect(theirs, check_same_thread=False)) as connection:
        peer = SqliteSaver(connection)
        peer.setup()
        synced(connection)
        yield from rows("SQLite", size, one.over(saver), other.over(peer), SYNCED)


def loop(folder: Path) -> Result:
    """Compare files after the steps of an agent's loop. Only their sizes are asked for, so nobody syncs."""
    mine, theirs = folder / "ours-loop.db", folder / "theirs-loop.db"
    with StrongroomSaver(mine, durability="relaxed") as saver:
        loops.run(saver, LOOP)
    with closing(sqlite3.connect(theirs, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        loops.run(SqliteSaver(connection), LOOP)
    ours, peers = (on_disk(path) / loops.text_bytes(LOOP) for path in (mine, theirs))
    name = f"LangGraph, SQLite: bytes on disk per byte of text, {LOOP} steps of an agent's loop"
    note = f"a message of {loops.WORDS} words at each step"
    return figure(QUESTION, name, peers / ours, ours=f"{ours:.1f}", peer=f"{peers:.1f}", note=note)


def synced(connection: sqlite3.Connection) -> None:
    """Let a peer sync each commit as we do."""
    connection.execute("PRAGMA synchronous = FULL")
    ((journal,),) = connection.execute("PRAGMA journal_mode").fetchall()
    ((synchronous,),) = connection.execute("PRAGMA synchronous").fetchall()
    require_synced(journal, synchronous)


def stores(folder: Path, size: int) -> Iterator[Result]:
    with (
        StrongroomStore(folder / "ours-store.db") as store,
        closing(sqlite3.connect(folder / "theirs.db", check_same_thread=False, isolation_level=None)) as connection,
    ):
        peer = SqliteStore(connection)
        peer.setup()
        connection.execute("PRAGMA synchronous = FULL")
        yield from items("SQLite", store, peer, size, JOURNAL)


def items(where: str, store: Any, peer: Any, size: int, durability: str) -> Iterator[Result]:
    for start in range(0, size, 500):
        some = range(start, start + 500)
        ops = [PutOp(("u", f"{n % 20}"), f"k{n}", {"n": n, "text": "lorem " * 15}) for n in some]
        store.batch(ops)
        peer.batch(ops)
    name = f"LangGraph store, {where}: newest 10 of {size:,}"
    yield row(name, lambda: store.search(("u",)), lambda: peer.search(("u",)), durability="a read")
    update = ("u", "3"), "k3", {"n": 1}
    name = f"LangGraph store, {where}: an update"
    yield row(name, lambda: store.put(*update), lambda: peer.put(*update), durability=durability)


def on_postgres() -> Iterator[Result]:
    server = PostgresServer()
    try:
        for size in SIZES[-2:]:
            ours, theirs = server.new_database(), server.new_database()
            with StrongroomSaver(ours) as saver, PostgresSaver.from_conn_string(theirs) as peer:
                peer.setup()
                one, other = Thread(saver).grow(size, LONG_STEP), Thread(peer).grow(size, size)
                if size <= STEP_BY_STEP:
                    yield bytes_in(server, size, ours, theirs)
                yield from rows("Postgres", size, one, other, WAL)
        with (
            StrongroomStore(server.new_database()) as store,
            PostgresStore.from_conn_string(server.new_database()) as peers,
        ):
            peers.setup()
            yield from items("Postgres", store, peers, LONG, WAL)
    finally:
        server.close()


def bytes_in(server: PostgresServer, size: int, ours: str, theirs: str) -> Result:
    """Compare whole databases, each less what an empty one takes."""

    def amount(url: str) -> int:
        with psycopg.connect(url) as connection:
            found: Any = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(found[0])

    empty, text = amount(server.new_database()), sum(len(one["content"]) for one in messages(0, size))
    mine, peers = ((amount(url) - empty) / text for url in (ours, theirs))
    name = f"LangGraph, Postgres: bytes on disk per byte of text at {size:,}"
    return figure(QUESTION, name, peers / mine, ours=f"{mine:.1f}", peer=f"{peers:.1f}")


# ---- OpenAI Agents ---------------------------------------------------------------------------------------------------


def conversations(folder: Path, size: int) -> Iterator[Result]:
    mine, theirs = folder / f"ours-agents-{size}.db", folder / f"theirs-agents-{size}.db"
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        ours = stack.enter_context(StrongroomSession("s", mine))
        peer = stack.enter_context(closing(SQLiteSession("s", theirs)))

        def turn(session: Any) -> None:
            runner.run(session.get_items(50))
            runner.run(session.add_items(messages(1, 3)))

        for session in (ours, peer):
            for start in range(0, size, 500):
                runner.run(session.add_items(messages(start, min(start + 500, size))))
        name = f"OpenAI Agents, SQLite: a turn at {size:,}"
        yield row(name, lambda: turn(ours), lambda: turn(peer), durability=SYNCED, note="the newest 50 items, two more")
        name = f"OpenAI Agents, SQLite: all items of {size:,}"
        yield row(name, lambda: runner.run(ours.get_items()), lambda: runner.run(peer.get_items()), durability="a read")


# ---- ADK -------------------------------------------------------------------------------------------------------------


def events(folder: Path) -> Iterator[Result]:
    for size in SIZES:
        mine, theirs = folder / f"ours-adk-{size}.db", folder / f"theirs-adk-{size}.db"
        try:
            with (
                Program("adk:adapter", environment=ROOT / ".adapters", path=str(mine), length=size) as ours,
                Program("adk:conversation", peer=True, path=str(theirs), length=size) as peer,
            ):
                if size <= STEP_BY_STEP:
                    history = messages(0, size)
                    one, other = (
                        on_disk(path) / sum(len(each["content"]) for each in history) for path in (mine, theirs)
                    )
                    name = f"ADK, SQLite: bytes on disk per byte of text at {size:,}"
                    yield figure(QUESTION, name, other / one, ours=f"{one:.1f}", peer=f"{other:.1f}")
                for what, function, note in (
                    ("append an event", "append", "it changes the session's state"),
                    ("get the newest 20", "newest", ""),
                ):
                    pair = compare(ours.timed(function), peer.timed(function), BRIEF, timed=True)
                    yield pair.row(QUESTION, f"ADK, SQLite: {what} at {size:,}", durability=JOURNAL, note=note)
        except MissingPeerError as missing:
            print(missing)
            return
