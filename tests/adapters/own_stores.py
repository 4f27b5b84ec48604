"""What the frameworks' own stores keep when two processes work on one thread: `python -m tests.adapters.own_stores`.

The same programs as in the tests of our adapters, with the store that each framework brings along. No test asserts
what others keep; the table in docs/adapters.md is what this printed. `STRONGROOM_TURNS=100` is its size.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.adapters.frameworks import has
from tests.adapters.processes import TURNS, lines_of, started
from tests.adapters.programs import ADK, NOTE


class Sqlite:
    """LangGraph's `SqliteSaver`: the turns that some checkpoint holds."""

    needs, program = "langgraph.checkpoint.sqlite", "their_graph"

    def prepare(self, address: str) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(address) as saver:
            saver.setup()

    def kept(self, address: str) -> set[str]:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(address) as saver:
            found = [one.checkpoint["channel_values"].get("messages", []) for one in saver.list(None)]
        return {str(message.content) for messages in found for message in messages}


class Agents:
    """OpenAI Agents' `SQLiteSession`."""

    needs, program = "agents", "their_session"

    def prepare(self, address: str) -> None:
        from agents import SQLiteSession

        SQLiteSession("s", address).close()

    def kept(self, address: str) -> set[str]:
        from agents import SQLiteSession

        with closing(SQLiteSession("s", address)) as session:
            items: Any = asyncio.run(session.get_items())
        return {item["content"] for item in items}


class Notes:
    """Anthropic's `BetaLocalFilesystemMemoryTool`."""

    needs, program = "anthropic", "their_notes"

    def prepare(self, address: str) -> None:
        from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

        tool: Any = BetaLocalFilesystemMemoryTool(address)
        tool.call({"command": "create", "path": NOTE, "file_text": "start\n"})

    def kept(self, address: str) -> set[str]:
        return set((Path(address) / NOTE.strip("/")).read_text().splitlines())


class History:
    """Microsoft Agent Framework's `FileHistoryProvider`."""

    needs, program = "agent_framework", "their_history"

    def prepare(self, address: str) -> None:
        pass

    def kept(self, address: str) -> set[str]:
        from agent_framework import FileHistoryProvider

        return {one.text for one in asyncio.run(FileHistoryProvider(address).get_messages("s"))}


class Events:
    """ADK's `SqliteSessionService`, whoever is refused tries again."""

    needs, program = "google.adk", "their_events"

    def prepare(self, address: str) -> None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        asyncio.run(SqliteSessionService(address).create_session(**ADK))

    def kept(self, address: str) -> set[str]:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        session: Any = asyncio.run(SqliteSessionService(address).get_session(**ADK))
        return {one.content.parts[0].text for one in session.events}


class Chats:
    """LlamaIndex's `SQLAlchemyChatStore` on SQLite."""

    needs, program = "llama_index.core", "their_chat"

    def prepare(self, address: str) -> None:
        self.kept(address)

    def kept(self, address: str) -> set[str]:
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

        store = SQLAlchemyChatStore(table_name="messages", async_database_uri=address)
        return {str(one.content) for one in asyncio.run(store.get_messages("s", None))}


class Records:
    """CrewAI's `LanceDBStorage`."""

    needs, program = "crewai", "their_records"

    def prepare(self, address: str) -> None:
        from crewai.memory.storage.lancedb_storage import LanceDBStorage
        from crewai.memory.types import MemoryRecord

        storage = LanceDBStorage(path=address, vector_dim=2)
        storage.save([MemoryRecord(content="start", scope="/team", embedding=[0.0, 1.0])])

    def kept(self, address: str) -> set[str]:
        from crewai.memory.storage.lancedb_storage import LanceDBStorage

        found = LanceDBStorage(path=address, vector_dim=2).list_records(limit=10 * TURNS)
        return {one.content for one in found}


class Memories:
    """mem0 on Qdrant's local files."""

    needs, program = "mem0", "their_memories"

    def prepare(self, address: str) -> None:
        Path(address).mkdir()

    def kept(self, address: str) -> set[str]:
        from tests.adapters.mem0.own import qdrant

        found = qdrant(Path(address)).get_all(filters={"user_id": "u"}, top_k=10 * TURNS)["results"]
        return {one["memory"] for one in found}


STORES: tuple[Callable[[], Any], ...] = (Sqlite, Agents, Notes, History, Events, Chats, Memories, Records)


def measured(store: Any, folder: Path) -> str:
    """Let two processes work on a store, and return a row of the table."""
    address = str(folder / "theirs")
    if store.program == "their_chat":
        address = f"sqlite+aiosqlite:///{address}.db"
    store.prepare(address)
    running = [started(store.program, address, name, TURNS, quiet=True) for name in ("one", "two")]
    acknowledged = sum(len(process.communicate(timeout=1_200)[0].split()) for process in running)
    ended = ["to its end" if process.returncode == 0 else "failed" for process in running]
    kept = len(store.kept(address) & lines_of())
    name = str(type(store).__doc__).partition(":")[0].rstrip(".")
    return f"| {name} | {acknowledged} | {kept} | {', '.join(ended)} |"


def main() -> None:
    print(f"| own store, {2 * TURNS} turns | acknowledged | kept | the two processes |\n|---|---|---|---|")
    for make in STORES:
        store = make()
        if has(store.needs):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
                print(measured(store, Path(name)), flush=True)


if __name__ == "__main__":
    main()
