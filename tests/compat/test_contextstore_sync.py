"""ContextStore's calls for programs without an event loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strongroom.compat import contextstore
from strongroom.compat.contextstore.sync import InMemoryMemory, Memory, SessionStore, SQLiteMemory, retrieve_relevant
from tests.hashed import hashed

HELLO = {"id": "1", "role": "user", "content": "Hello!"}
ANSWER = {"id": "2", "role": "assistant", "content": "Hi there!"}


def embed(texts: list[str]) -> list[list[float]]:
    vectors: list[list[float]] = hashed(texts).tolist()
    return vectors


@pytest.fixture(params=["memory", "file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    return InMemoryMemory() if request.param == "memory" else SQLiteMemory(tmp_path / "chat.db")


def contents(memory: Memory) -> list[Any]:
    return [message["content"] for message in memory.load_context("s")]


def test_a_conversation_is_kept_without_an_event_loop(memory: Memory) -> None:
    memory.save_context("s", [HELLO])
    memory.append_context("s", [ANSWER])
    assert contents(memory) == ["Hello!", "Hi there!"]
    assert [one["id"] for one in memory.load_context("s", 1)] == ["2"]
    memory.delete_interaction("s", "2")
    assert contents(memory) == ["Hello!"]
    memory.delete_session("s")
    with pytest.raises(ValueError, match="does not exist"):
        memory.append_context("s", [HELLO])


async def test_a_running_event_loop_is_not_in_the_way(memory: Memory) -> None:
    memory.save_context("s", [HELLO])
    assert contents(memory) == ["Hello!"]


def test_messages_are_searched_without_an_event_loop(memory: Memory) -> None:
    index = contextstore.InMemoryEmbeddingStore()
    config = contextstore.SessionStoreConfig(auto_embed=True, embed_fn=embed)
    store = SessionStore(memory, index, config)
    store.save_context("s", [HELLO, ANSWER])
    store.add_message_embedding("s", "note", "Bonjour")
    store.spawn_background_embedding("s", "later", "Good evening")
    store.wait_for_embeddings()
    assert {one.message_id for one in store.retrieve_relevant("s", "hello", k=9)} == {"1", "2", "note", "later"}
    assert len(retrieve_relevant("s", "hello", embed, index, k=2)) == 2


def test_a_background_failure_is_told_by_waiting() -> None:
    def broken(texts: list[str]) -> list[list[float]]:
        raise RuntimeError("the model is away")

    config = contextstore.SessionStoreConfig(embed_fn=broken)
    store = SessionStore(InMemoryMemory(), contextstore.InMemoryEmbeddingStore(), config)
    store.spawn_background_embedding("s", "1", "x")
    with pytest.raises(RuntimeError, match="away"):
        store.wait_for_embeddings()


def test_a_memory_of_ones_own_can_be_wrapped() -> None:
    inner = contextstore.InMemoryMemory()
    Memory(inner).save_context("s", [HELLO])
    assert contents(Memory(inner)) == ["Hello!"]
