"""What our adapters keep when two processes work on one thread: the other half of `own_stores.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from tests.adapters.processes import TURNS
from tests.adapters.programs import ADK, HARNESS, NOTE


def nothing(address: str) -> None:
    """Prepare nothing."""


class Ours(Struct, frozen=True):
    """An adapter: the module that it needs, the program that uses it, and what is found in a store afterwards."""

    framework: str
    needs: str
    program: str
    kept: Callable[[str], Iterable[str]]
    prepare: Callable[[str], None] = nothing


def in_checkpoints(address: str) -> Iterable[str]:
    from strongroom.adapters.langgraph import StrongroomSaver

    with StrongroomSaver(address) as saver:
        found = [one.checkpoint["channel_values"].get("messages", []) for one in saver.list(None)]
    return {str(message.content) for messages in found for message in messages}


def in_items(address: str) -> Iterable[str]:
    from strongroom.adapters.langgraph import StrongroomStore

    with StrongroomStore(address) as store:
        return [one.value["text"] for one in store.search(("n",), limit=10 * TURNS)]


def in_session(address: str) -> Iterable[str]:
    from strongroom.adapters.openai_agents import StrongroomSession

    with StrongroomSession("s", address) as session:
        items: Any = asyncio.run(session.get_items())
    return [item["content"] for item in items]


def new_note(address: str) -> None:
    from strongroom.adapters.anthropic import StrongroomMemoryTool

    with StrongroomMemoryTool(address) as tool:
        tool.call({"command": "create", "path": NOTE, "file_text": "start\n"})


def in_note(address: str) -> Iterable[str]:
    from strongroom.adapters.anthropic import StrongroomMemoryTool

    with StrongroomMemoryTool(address) as tool:
        return str(tool.opened.ctx.files.read(NOTE).text).split("\n")


def new_events(address: str) -> None:
    from strongroom.adapters.adk import StrongroomSessionService

    with StrongroomSessionService(address) as service:
        asyncio.run(service.create_session(**ADK))


def in_events(address: str) -> Iterable[str]:
    from strongroom.adapters.adk import StrongroomSessionService

    with StrongroomSessionService(address) as service:
        session: Any = asyncio.run(service.get_session(**ADK))
    return [one.content.parts[0].text for one in session.events]


def in_history(address: str) -> Iterable[str]:
    from strongroom.adapters.agent_framework import StrongroomHistoryProvider

    with StrongroomHistoryProvider(address) as provider:
        return [one.text for one in asyncio.run(provider.get_messages("s"))]


def in_records(address: str) -> Iterable[str]:
    from strongroom.adapters.crewai import StrongroomStorage

    with StrongroomStorage(address) as storage:
        return [one.content for one in storage.list_records("/team", limit=10 * TURNS)]


def in_chat(address: str) -> Iterable[str]:
    from strongroom.adapters.llama_index import StrongroomChatStore

    with StrongroomChatStore(address) as store:
        return [str(one.content) for one in asyncio.run(store.get_messages("s", None))]


def in_conversation(address: str) -> Iterable[str]:
    from strongroom.adapters.pydantic_ai import StrongroomConversationStore

    with StrongroomConversationStore(address) as store:
        return [str(one.content) for one in store.opened.ctx.sessions.get("pydantic_ai/c").load()]


def in_file(address: str) -> Iterable[str]:
    from strongroom.adapters.pydantic_ai_harness import StrongroomMemoryStore

    with StrongroomMemoryStore(address) as store:
        found = asyncio.run(store.read(HARNESS, max_chars=1_000_000))
    return [] if found is None else found.content.splitlines()


def in_memories(address: str) -> Iterable[str]:
    from strongroom.adapters.mem0 import Memory

    with Memory(address) as memory:
        return [one["memory"] for one in memory.get_all(filters={"user_id": "u"}, top_k=10 * TURNS)["results"]]


ADAPTERS = (
    Ours("LangGraph, checkpoints", "langgraph", "graph", in_checkpoints),
    Ours("LangGraph, store", "langgraph", "items", in_items),
    Ours("OpenAI Agents", "agents", "session", in_session),
    Ours("Anthropic", "anthropic", "notes", in_note, new_note),
    Ours("ADK", "google.adk", "events", in_events, new_events),
    Ours("Microsoft Agent Framework", "agent_framework", "history", in_history),
    Ours("CrewAI", "crewai", "records", in_records),
    Ours("LlamaIndex", "llama_index.core", "chat", in_chat),
    Ours("Pydantic AI", "pydantic_ai.conversation_store", "conversation", in_conversation),
    Ours("Harness of Pydantic AI", "pydantic_ai_harness", "files", in_file),
    Ours("mem0", "mem0", "memories", in_memories),
)
