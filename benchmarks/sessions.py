"""What does a durable turn of a conversation cost, early and late, beside what frameworks bring along?

A turn reads what a model is to see next, and appends two messages. Ours counts tokens and cuts a window of 4,000; the
others return all they have, or as many items as such a window holds. Everybody is called as its users call it, in a
process and an environment of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import SECONDS, Result, compare, pick
from benchmarks.processes import MissingPeerError, Program
from benchmarks.workload import SYNCED, messages, per_byte

__all__ = ["measure", "messages", "per_byte"]

TURNS = pick((300, 10_000), (300,))
JOURNAL = f"ours: {SYNCED}; theirs: a rollback journal, synced"


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        for turns in TURNS:
            yield from at(Path(name), turns)


def at(folder: Path, turns: int) -> Iterator[Result]:
    length = 2 * turns
    with Program("ours:conversation", address=str(folder / f"ours-{turns}.db"), length=length) as ours:
        fitting = ours.call("fitting")
        window = f"a window of {fitting} messages"
        agents: dict[str, Any] = {"path": str(folder / f"agents-{turns}.db"), "length": length, "fitting": fitting}
        langgraph = {"path": str(folder / f"langgraph-{turns}.db"), "length": length}
        adk = {"path": str(folder / f"adk-{turns}.db"), "length": length}
        llamaindex = {"path": str(folder / f"llamaindex-{turns}.db"), "length": length}
        rivals: list[tuple[str, str, str, str, dict[str, Any], str]] = [
            ("SQLiteSession, as many items", "agents:conversation", "limited", "async_turn", agents, SYNCED),
            ("SQLiteSession, all items", "agents:conversation", "turn", "async_turn", agents, SYNCED),
            ("SqliteSaver", "langgraph:sqlite", "turn", "turn", langgraph, SYNCED),
            ("ADK's SqliteSessionService", "adk:conversation", "turn", "async_turn", adk, JOURNAL),
            ("LlamaIndex's SQLAlchemyChatStore", "llamaindex:conversation", "turn", "async_turn", llamaindex, JOURNAL),
        ]
        for name, program, function, own, arguments, durability in rivals:
            arguments = arguments | {"path": f"{arguments['path']}-{function}"}
            try:
                with Program(program, peer=True, **arguments) as peer:
                    pair = compare(ours.timed(own), peer.timed(function), SECONDS, timed=True)
            except MissingPeerError as missing:
                print(missing)
                continue
            yield pair.row("sessions", f"a turn after {turns:,}, {name}", durability=durability, note=window)
