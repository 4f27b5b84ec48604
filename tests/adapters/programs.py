"""What a process does to a store through an adapter. Each line that it prints is acknowledged.

Each imports its own framework: all of them together take seconds.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOTE = "/memories/log.md"
HARNESS = "main/log.md"
ADK: dict[str, str] = {"app_name": "A", "user_id": "u", "session_id": "s"}


def graph(address: str, name: str, turns: int) -> None:
    """Ask a graph again and again, and say how many messages it holds."""
    from strongroom.adapters.langgraph import StrongroomSaver

    with StrongroomSaver(address) as saver:
        _graph(saver, name, turns)


def their_graph(address: str, name: str, turns: int) -> None:
    """The same with LangGraph's own saver."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(address) as saver:
        _graph(saver, name, turns)


def _graph(saver: Any, name: str, turns: int) -> None:
    from langchain_core.messages import HumanMessage

    from tests.adapters.langgraph.savers import chat, config

    agent = chat(saver)
    for number in range(turns):
        message = HumanMessage(f"{name} {number}", id=f"{name}-{number}")
        state = agent.invoke({"messages": [message]}, config("t"), durability="sync")
        print(len(state["messages"]), flush=True)


def items(address: str, name: str, turns: int) -> None:
    """Put an item at a time into LangGraph's long-term store."""
    from strongroom.adapters.langgraph import StrongroomStore

    with StrongroomStore(address) as store:
        _items(store, name, turns)


def their_items(address: str, name: str, turns: int) -> None:
    """The same with LangGraph's own store."""
    from langgraph.store.sqlite import SqliteStore

    with SqliteStore.from_conn_string(address) as store:
        _items(store, name, turns)


def _items(store: Any, name: str, turns: int) -> None:
    for number in range(turns):
        store.put(("n",), f"{name} {number}", {"text": f"{name} {number}"})
        print(number, flush=True)


def session(address: str, name: str, turns: int) -> None:
    """Add an item at a time to one conversation."""
    from strongroom.adapters.openai_agents import StrongroomSession

    with StrongroomSession("s", address) as conversation:
        _session(conversation, name, turns)


def their_session(address: str, name: str, turns: int) -> None:
    """The same with the SDK's own session."""
    from agents import SQLiteSession

    _session(SQLiteSession("s", address), name, turns)


def _session(conversation: Any, name: str, turns: int) -> None:
    async def add() -> None:
        for number in range(turns):
            await conversation.add_items([{"role": "user", "content": f"{name} {number}"}])
            print(number, flush=True)

    asyncio.run(add())


def notes(address: str, name: str, turns: int) -> None:
    """Insert a line at a time into one note."""
    from strongroom.adapters.anthropic import StrongroomMemoryTool

    with StrongroomMemoryTool(address) as tool:
        _notes(tool, name, turns)


def their_notes(address: str, name: str, turns: int) -> None:
    """The same with the SDK's own tool."""
    from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

    _notes(BetaLocalFilesystemMemoryTool(address), name, turns)


def _notes(tool: Any, name: str, turns: int) -> None:
    for number in range(turns):
        line = {"command": "insert", "path": NOTE, "insert_line": 1, "insert_text": f"{name} {number}"}
        tool.call(line)
        print(number, flush=True)


def conversation(address: str, name: str, turns: int) -> None:
    """Ask an agent again and again in one conversation; whoever is refused loads it and asks once more."""
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationConflict
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import UsageLimits

    from strongroom.adapters.pydantic_ai import StrongroomConversationStore

    agent = Agent(TestModel(custom_output_text="yes"))

    async def ask(store: StrongroomConversationStore, text: str) -> None:
        while True:
            known = await store.load("c") or Conversation(conversation_id="c")
            result = await agent.run(text, conversation=known, usage_limits=UsageLimits(request_limit=None))
            try:
                await store.save(result)
            except ConversationConflict:
                continue
            return

    async def talk() -> None:
        with StrongroomConversationStore(address) as store:
            for number in range(turns):
                await ask(store, f"{name} {number}")
                print(number, flush=True)

    asyncio.run(talk())


def chat(address: str, name: str, turns: int) -> None:
    """Add a message at a time to one key of LlamaIndex."""
    from strongroom.adapters.llama_index import StrongroomChatStore

    with StrongroomChatStore(address) as store:
        _chat(store, name, turns)


def their_chat(address: str, name: str, turns: int) -> None:
    """The same with LlamaIndex's own store."""
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    address = f"sqlite+aiosqlite:///{address}"
    _chat(SQLAlchemyChatStore(table_name="messages", async_database_uri=address), name, turns)


def _chat(store: Any, name: str, turns: int) -> None:
    from llama_index.core.base.llms.types import ChatMessage

    async def add() -> None:
        for number in range(turns):
            await store.add_message("s", ChatMessage(role="user", content=f"{name} {number}"))
            print(number, flush=True)

    asyncio.run(add())


def history(address: str, name: str, turns: int) -> None:
    """Save a turn at a time to one session of Microsoft Agent Framework."""
    from strongroom.adapters.agent_framework import StrongroomHistoryProvider

    with StrongroomHistoryProvider(address) as provider:
        _history(provider, name, turns)


def their_history(address: str, name: str, turns: int) -> None:
    """The same with the framework's own files."""
    from agent_framework import FileHistoryProvider

    _history(FileHistoryProvider(address), name, turns)


def _history(provider: Any, name: str, turns: int) -> None:
    from agent_framework import Message

    async def save() -> None:
        for number in range(turns):
            turn = [Message("user", [f"{name} {number}"]), Message("assistant", [f"{name} {number} yes"])]
            await provider.save_messages("s", turn)
            print(number, flush=True)

    asyncio.run(save())


def events(address: str, name: str, turns: int) -> None:
    """Append an event at a time to one session of ADK; whoever is refused reads it and appends once more."""
    from strongroom.adapters.adk import StrongroomSessionService

    with StrongroomSessionService(address) as service:
        _events(service, name, turns)


def their_events(address: str, name: str, turns: int) -> None:
    """The same with ADK's own service."""
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    _events(SqliteSessionService(address), name, turns)


def _events(service: Any, name: str, turns: int) -> None:
    from google.adk.errors import StaleSessionError
    from google.adk.events.event import Event
    from google.genai import types

    async def say(text: str) -> None:
        while True:
            known = await service.get_session(**ADK)
            content = types.Content(role="user", parts=[types.Part(text=text)])
            try:
                await service.append_event(known, Event(author="user", invocation_id="i", content=content))
            except StaleSessionError:
                continue
            return

    async def talk() -> None:
        for number in range(turns):
            await say(f"{name} {number}")
            print(number, flush=True)

    asyncio.run(talk())


def records(address: str, name: str, turns: int) -> None:
    """Save a record at a time to one scope of CrewAI."""
    from strongroom.adapters.crewai import StrongroomStorage

    with StrongroomStorage(address) as storage:
        _records(storage, name, turns)


def their_records(address: str, name: str, turns: int) -> None:
    """The same with CrewAI's own storage."""
    from crewai.memory.storage.lancedb_storage import LanceDBStorage

    _records(LanceDBStorage(path=address, vector_dim=2), name, turns)


def _records(storage: Any, name: str, turns: int) -> None:
    from crewai.memory.types import MemoryRecord

    for number in range(turns):
        storage.save([MemoryRecord(content=f"{name} {number}", scope="/team", embedding=[1.0, float(number)])])
        print(number, flush=True)


def files(address: str, name: str, turns: int) -> None:
    """Add a line at a time to a file of Pydantic AI's harness; whoever is refused reads it and tries once more."""
    from strongroom.adapters.pydantic_ai_harness import StrongroomMemoryStore

    with StrongroomMemoryStore(address) as store:
        asyncio.run(_files(store, name, turns))


def their_files(address: str, name: str, turns: int) -> None:
    """The same with the harness's own store."""
    from pydantic_ai_harness.memory import SqliteMemoryStore

    asyncio.run(_files(SqliteMemoryStore(database=address), name, turns))


async def _files(store: Any, name: str, turns: int) -> None:
    from pydantic_ai_harness.memory import MemoryConflictError

    for number in range(turns):
        while True:
            known = await store.read(HARNESS, max_chars=1_000_000)
            text, version = ("", None) if known is None else (known.content, known.version)
            try:
                await store.write(HARNESS, f"{text}{name} {number}\n", expected_version=version)
            except MemoryConflictError:
                continue
            break
        print(number, flush=True)


def memories(address: str, name: str, turns: int) -> None:
    """Add a memory at a time to one user of mem0."""
    from strongroom.adapters.mem0 import Memory

    with Memory(address) as memory:
        _memories(memory, name, turns)


def their_memories(address: str, name: str, turns: int) -> None:
    """The same with mem0's own store."""
    from tests.adapters.mem0.own import qdrant

    _memories(qdrant(Path(address)), name, turns)


def _memories(memory: Any, name: str, turns: int) -> None:
    for number in range(turns):
        memory.add(f"{name} {number}", user_id="u", infer=False)
        print(number, flush=True)


PROGRAMS: dict[str, Callable[[str, str, int], None]] = {
    "graph": graph,
    "their_graph": their_graph,
    "items": items,
    "their_items": their_items,
    "session": session,
    "their_session": their_session,
    "notes": notes,
    "their_notes": their_notes,
    "conversation": conversation,
    "chat": chat,
    "their_chat": their_chat,
    "history": history,
    "their_history": their_history,
    "events": events,
    "their_events": their_events,
    "records": records,
    "their_records": their_records,
    "files": files,
    "their_files": their_files,
    "memories": memories,
    "their_memories": their_memories,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
