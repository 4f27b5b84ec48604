"""The usage examples of ContextStore, with only the import changed."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from strongroom.compat.contextstore import (
    ContextBuilder,
    InMemoryEmbeddingStore,
    InMemoryMemory,
    MemoryBackend,
    SessionStore,
    SessionStoreConfig,
    SQLiteMemory,
    retrieve_relevant,
    tokenizer_from_name,
)

pytestmark = pytest.mark.usefixtures("here", "zone")


@pytest.fixture(params=[1, 2], autouse=True)
def twice(request: pytest.FixtureRequest, here: Path) -> None:
    """Find the files of a first time, or none."""
    if request.param == 2:
        test_quick_start_with_a_file()


def embed_fn(texts: list[str]) -> list[list[float]]:
    vectors = []
    for text in texts:
        digest = hashlib.sha256(text.lower().encode()).digest()
        vectors.append([byte / 255.0 for byte in digest] + [0.0] * (768 - 32))
    return vectors


def test_quick_start_with_a_file() -> None:
    async def main() -> list[dict[str, Any]]:
        memory = SQLiteMemory("chat.db")
        await memory.save_context(
            "session-1", [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi there!"}]
        )
        return await memory.load_context("session-1")

    history = asyncio.run(main())
    assert [(one["role"], one["content"]) for one in history] == [("user", "Hello!"), ("assistant", "Hi there!")]
    assert Path("chat.db").exists()


def test_quick_start_in_memory() -> None:
    async def main() -> list[dict[str, Any]]:
        memory = InMemoryMemory()
        await memory.save_context("session-1", [{"role": "user", "content": "Hello!"}])
        return await memory.load_context("session-1")

    assert asyncio.run(main())[0]["content"] == "Hello!"


def test_building_within_a_budget() -> None:
    builder = ContextBuilder.from_model("gpt-4")
    messages = [
        {"id": "1", "role": "user", "content": "Hello!", "timestamp": "2024-01-01T00:00:00Z"},
        {"id": "2", "role": "assistant", "content": "Hi!", "timestamp": "2024-01-01T00:01:00Z"},
    ]
    result = builder.build(messages, max_tokens=4000)
    assert result.messages == messages
    assert 0 < result.total_tokens < 20
    assert isinstance(result.approximate, bool)


def test_each_strategy() -> None:
    builder = ContextBuilder.from_model("gpt-4")
    messages = [{"id": str(n), "role": "user", "content": "word " * 100} for n in range(100)]
    oldest = builder.build(messages, max_tokens=4000, strategy="truncate_oldest")
    recent = builder.build(messages, max_tokens=4000, strategy="recent_only")
    summary = builder.build(
        messages,
        max_tokens=4000,
        strategy="summarize_oldest",
        strategy_opts={"summarizer": lambda msgs: "Summary: ...", "chunk_size": 5},
    )
    for result in (oldest, recent, summary):
        assert result.messages[-1]["id"] == "99"
        assert result.total_tokens <= 4000
    assert summary.messages[0]["content"] == "Summary: ..."


def test_tokenizer_options() -> None:
    assert tokenizer_from_name("gpt-4").count_tokens("Hello").count == 1
    assert tokenizer_from_name("fallback").count_tokens("Hello").approximate


class Completions:
    """What stands in for the model: it answers with the number of messages it was sent."""

    def create(self, *, model: str, messages: list[dict[str, str]]) -> Any:
        assert all(set(message) == {"role", "content"} for message in messages)
        answer = SimpleNamespace(content=f"I was sent {len(messages)} messages")
        return SimpleNamespace(choices=[SimpleNamespace(message=answer)])


def test_the_full_example_over_ten_turns() -> None:
    client = SimpleNamespace(chat=SimpleNamespace(completions=Completions()))
    memory = SQLiteMemory("chat.db")
    builder = ContextBuilder.from_model("gpt-4")

    async def chat(session_id: str, user_message: str) -> Any:
        history = await memory.load_context(session_id)
        history.append(
            {
                "id": str(uuid4()),
                "role": "user",
                "content": user_message,
                "timestamp": datetime.now().isoformat(),
            }
        )
        result = builder.build(history, max_tokens=4000)
        response = client.chat.completions.create(
            model="gpt-4",
            messages=[{"role": m["role"], "content": m["content"]} for m in result.messages],
        )
        assistant_msg = {
            "id": str(uuid4()),
            "role": "assistant",
            "content": response.choices[0].message.content,
            "timestamp": datetime.now().isoformat(),
        }
        history.append(assistant_msg)
        await memory.save_context(session_id, history)
        return assistant_msg["content"]

    before = len(asyncio.run(memory.load_context("session-1")))  # with times that ContextStore gave them, in UTC
    answers = [asyncio.run(chat("session-1", f"turn {turn}")) for turn in range(10)]
    assert answers == [f"I was sent {before + 2 * turn + 1} messages" for turn in range(10)]
    history = asyncio.run(memory.load_context("session-1"))
    assert [one["role"] for one in history] == ["user", "assistant"] * (before // 2 + 10)
    built = builder.build(history, max_tokens=4000).messages
    assert [one["content"] for one in built] == [one["content"] for one in history]
    assert builder.build(history, max_tokens=30).messages[-1] == history[-1]


def test_a_custom_backend_needs_all_five_methods() -> None:
    class RedisBackend(MemoryBackend):
        async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
            return []

        async def save_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
            pass

        async def append_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
            pass

        async def delete_session(self, session_id: str) -> None:
            pass

        async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
            pass

    assert asyncio.run(SessionStore(RedisBackend()).load_context("s")) == []
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (MemoryBackend,), {})()


def test_semantic_retrieval() -> None:
    async def main() -> list[Any]:
        store = InMemoryEmbeddingStore()
        await store.add("session-1", "msg-1", embed_fn(["Hello!"])[0], {"text": "Hello!"})
        await store.add("session-1", "msg-2", embed_fn(["How are you?"])[0], {"text": "How are you?"})
        return await retrieve_relevant("session-1", "hello!", embed_fn, store, k=5)

    results = asyncio.run(main())
    assert [item.metadata.get("text") for item in results] == ["Hello!", "How are you?"]
    assert f"{results[0].message_id}: {results[0].score:.3f}" == "msg-1: 1.000"


def test_the_unified_workflow() -> None:
    async def main() -> list[Any]:
        memory = SQLiteMemory("chat.db")
        retrieval = InMemoryEmbeddingStore()
        config = SessionStoreConfig(auto_embed=True, embed_fn=embed_fn)
        store = SessionStore(memory, retrieval, config)
        await store.save_context(
            "session-1",
            [
                {"id": "1", "role": "user", "content": "What is Python?"},
                {"id": "2", "role": "assistant", "content": "Python is a programming language."},
                {"id": "3", "role": "user", "content": "What is the capital of France?"},
                {"id": "4", "role": "assistant", "content": "Paris."},
            ],
        )
        relevant = await store.retrieve_relevant("session-1", "what is python?", k=3)
        store.spawn_background_embedding("session-1", "msg-5", "Some text to embed")
        await store.wait_for_embeddings()
        assert await retrieval.has_embedding("session-1", "msg-5")
        return relevant

    relevant = asyncio.run(main())
    assert (len(relevant), relevant[0].metadata.get("text")) == (3, "What is Python?")
