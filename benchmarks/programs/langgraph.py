"""LangGraph's SqliteSaver and PostgresSaver, as a graph with one channel of messages uses them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

from benchmarks.workload import TURN, messages, require_synced


class Thread:
    """A thread whose state is a list of messages. Both savers keep a whole state for each step."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
        self._step = 0

    def get(self) -> list[Any]:
        found = self._saver.get_tuple({"configurable": {"thread_id": "s", "checkpoint_ns": ""}})
        history: list[Any] = found.checkpoint["channel_values"]["messages"]
        return history

    def put(self, history: Sequence[Any]) -> None:
        self._step += 1
        versions: Any = {"messages": f"{self._step:032}"}
        checkpoint: Any = empty_checkpoint() | {
            "channel_values": {"messages": list(history)},
            "channel_versions": versions,
        }
        self._config = self._saver.put(self._config, checkpoint, {"source": "loop", "step": self._step}, versions)

    def turn(self) -> None:
        self.put([*self.get(), *messages(*TURN)])


@contextmanager
def sqlite(path: str, length: int) -> Iterator[dict[str, Callable[[], object]]]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        saver = SqliteSaver(connection)
        saver.setup()
        thread = Thread(saver)
        thread.put(messages(0, length))
        ((journal,),) = connection.execute("PRAGMA journal_mode").fetchall()
        ((synchronous,),) = connection.execute("PRAGMA synchronous").fetchall()
        require_synced(journal, synchronous)

        yield {"turn": thread.turn}


@contextmanager
def turn_by_turn(path: str, turns: int) -> Iterator[dict[str, Callable[[], object]]]:
    """A file that was filled by so many turns of two messages."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    history = messages(0, 2 * turns)
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # only the size of the file is asked for
        saver = SqliteSaver(connection)
        saver.setup()
        thread = Thread(saver)
        for number in range(turns):
            thread.put(history[: 2 * number + 2])
    yield {}


@contextmanager
def postgres(url: str, length: int) -> Iterator[dict[str, Callable[[], object]]]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        thread = Thread(saver)
        thread.put(messages(0, length))
        yield {"turn": thread.turn}
