"""What a process does to a store through an adapter. Each line that it prints is acknowledged.

Each imports its own framework: all of them together take seconds.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

NOTE = "/memories/log.md"


def graph(address: str, name: str, turns: int) -> None:
    """Ask a graph again and again, and say how many messages it holds."""
    from langchain_core.messages import HumanMessage

    from strongroom.adapters.langgraph import StrongroomSaver
    from tests.adapters.langgraph.savers import chat, config

    with StrongroomSaver(address) as saver:
        agent = chat(saver)
        for number in range(turns):
            message = HumanMessage(f"{name} {number}", id=f"{name}-{number}")
            state = agent.invoke({"messages": [message]}, config("t"), durability="sync")
            print(len(state["messages"]), flush=True)


def session(address: str, name: str, turns: int) -> None:
    """Add an item at a time to one conversation."""
    from strongroom.adapters.openai_agents import StrongroomSession

    async def add() -> None:
        with StrongroomSession("s", address) as conversation:
            for number in range(turns):
                await conversation.add_items([{"role": "user", "content": f"{name} {number}"}])
                print(number, flush=True)

    asyncio.run(add())


def notes(address: str, name: str, turns: int) -> None:
    """Insert a line at a time into one note."""
    from strongroom.adapters.anthropic import StrongroomMemoryTool

    with StrongroomMemoryTool(address) as tool:
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

    from strongroom.adapters.pydantic_ai import StrongroomConversationStore

    agent = Agent(TestModel(custom_output_text="yes"))

    async def ask(store: StrongroomConversationStore, text: str) -> None:
        while True:
            known = await store.load("c") or Conversation(conversation_id="c")
            result = await agent.run(text, conversation=known)
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


def _history(provider: Any, name: str, turns: int) -> None:
    from agent_framework import Message

    async def save() -> None:
        for number in range(turns):
            turn = [Message("user", [f"{name} {number}"]), Message("assistant", [f"{name} {number} yes"])]
            await provider.save_messages("s", turn)
            print(number, flush=True)

    asyncio.run(save())


PROGRAMS: dict[str, Callable[[str, str, int], None]] = {
    "graph": graph,
    "session": session,
    "notes": notes,
    "conversation": conversation,
    "chat": chat,
    "their_chat": their_chat,
    "history": history,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
