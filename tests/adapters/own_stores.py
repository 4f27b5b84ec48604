"""What the frameworks' own stores keep when two processes work on one thread, by the same programs as our adapters.

No test asserts what others keep; `kept.py` tells it.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from tests.adapters.processes import TURNS
from tests.adapters.programs import ADK, HARNESS, NOTE


class Own(Protocol):
    """A framework's own store: its name, the program that uses it, and what is found in it afterwards."""

    name: str
    program: str

    def prepare(self, address: str) -> None: ...
    def kept(self, address: str) -> set[str]: ...


class Sqlite:
    name, program = "`SqliteSaver`", "their_graph"

    def prepare(self, address: str) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(address) as saver:
            saver.setup()

    def kept(self, address: str) -> set[str]:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(address) as saver:
            found = [one.checkpoint["channel_values"].get("messages", []) for one in saver.list(None)]
        return {str(message.content) for messages in found for message in messages}


class Items:
    name, program = "`SqliteStore`", "their_items"

    def prepare(self, address: str) -> None:
        from langgraph.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(address) as store:
            store.setup()

    def kept(self, address: str) -> set[str]:
        from langgraph.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(address) as store:
            return {one.value["text"] for one in store.search(("n",), limit=10 * TURNS)}


class Agents:
    name, program = "`SQLiteSession`", "their_session"

    def prepare(self, address: str) -> None:
        from agents import SQLiteSession

        SQLiteSession("s", address).close()

    def kept(self, address: str) -> set[str]:
        from agents import SQLiteSession

        with closing(SQLiteSession("s", address)) as session:
            items: Any = asyncio.run(session.get_items())
        return {item["content"] for item in items}


class Notes:
    name, program = "`BetaLocalFilesystemMemoryTool`", "their_notes"

    def prepare(self, address: str) -> None:
        from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

        tool: Any = BetaLocalFilesystemMemoryTool(address)
        tool.call({"command": "create", "path": NOTE, "file_text": "start\n"})

    def kept(self, address: str) -> set[str]:
        return set((Path(address) / NOTE.strip("/")).read_text().splitlines())


class History:
    name, program = "`FileHistoryProvider`", "their_history"

    def prepare(self, address: str) -> None:
        pass

    def kept(self, address: str) -> set[str]:
        from agent_framework import FileHistoryProvider

        return {one.text for one in asyncio.run(FileHistoryProvider(address).get_messages("s"))}


class Events:
    name, program = "`SqliteSessionService`", "their_events"

    def prepare(self, address: str) -> None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        asyncio.run(SqliteSessionService(address).create_session(**ADK))

    def kept(self, address: str) -> set[str]:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        session: Any = asyncio.run(SqliteSessionService(address).get_session(**ADK))
        return {one.content.parts[0].text for one in session.events}


class Chats:
    name, program = "`SQLAlchemyChatStore` on SQLite", "their_chat"

    def prepare(self, address: str) -> None:
        self.kept(address)

    def kept(self, address: str) -> set[str]:
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

        store = SQLAlchemyChatStore(table_name="messages", async_database_uri=f"sqlite+aiosqlite:///{address}")
        return {str(one.content) for one in asyncio.run(store.get_messages("s", None))}


class Records:
    name, program = "`LanceDBStorage`", "their_records"

    def prepare(self, address: str) -> None:
        from crewai.memory.storage.lancedb_storage import LanceDBStorage
        from crewai.memory.types import MemoryRecord

        storage = LanceDBStorage(path=address, vector_dim=2)
        storage.save([MemoryRecord(content="start", scope="/team", embedding=[0.0, 1.0])])

    def kept(self, address: str) -> set[str]:
        from crewai.memory.storage.lancedb_storage import LanceDBStorage

        found = LanceDBStorage(path=address, vector_dim=2).list_records(limit=10 * TURNS)
        return {one.content for one in found}


class Files:
    name, program = "`SqliteMemoryStore`", "their_files"

    def prepare(self, address: str) -> None:
        self.kept(address)

    def kept(self, address: str) -> set[str]:
        from pydantic_ai_harness.memory import SqliteMemoryStore

        found = asyncio.run(SqliteMemoryStore(database=address).read(HARNESS, max_chars=1_000_000))
        return set() if found is None else set(found.content.splitlines())


class Memories:
    name, program = "Qdrant's local files", "their_memories"

    def prepare(self, address: str) -> None:
        Path(address).mkdir()

    def kept(self, address: str) -> set[str]:
        from tests.adapters.mem0.own import qdrant

        found = qdrant(Path(address)).get_all(filters={"user_id": "u"}, top_k=10 * TURNS)["results"]
        return {one["memory"] for one in found}


STORES: dict[str, Own] = {
    "LangGraph, checkpoints": Sqlite(),
    "LangGraph, store": Items(),
    "OpenAI Agents": Agents(),
    "Anthropic": Notes(),
    "ADK": Events(),
    "Microsoft Agent Framework": History(),
    "CrewAI": Records(),
    "LlamaIndex": Chats(),
    "Harness of Pydantic AI": Files(),
    "mem0": Memories(),
}
