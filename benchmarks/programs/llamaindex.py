"""LlamaIndex's SQLAlchemyChatStore on SQLite: a rollback journal, synced at each commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from benchmarks.workload import TURN, message


def said(number: int) -> ChatMessage:
    return ChatMessage(**message(number))


@asynccontextmanager
async def conversation(path: str, length: int) -> AsyncIterator[dict[str, Callable[[], Any]]]:
    """Its turns: get all messages (it can skip the oldest, not ask for the newest), add two."""
    store = SQLAlchemyChatStore(table_name="chat", async_database_uri=f"sqlite+aiosqlite:///{path}")
    for start in range(0, length, 1000):
        await store.add_messages("s", [said(number) for number in range(start, min(start + 1000, length))])

    async def turn() -> None:
        assert len(await store.get_messages("s")) >= length
        await store.add_messages("s", [said(number) for number in range(*TURN)])

    yield {"turn": turn}
