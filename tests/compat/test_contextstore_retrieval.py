"""ContextStore's embeddings, index and SessionStore by their own names."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from strongroom.compat.contextstore import (
    InMemoryEmbeddingStore,
    InMemoryMemory,
    Interaction,
    MemoryBackend,
    RetrievalBackend,
    RetrievedItem,
    SessionStore,
    SessionStoreConfig,
    infer_embedding_dim,
    retrieve_relevant,
    validate_vectors,
)
from tests.hashed import hashed


def embed(texts: list[str]) -> list[list[float]]:
    vectors: list[list[float]] = hashed(texts).tolist()
    return vectors


class Counting:
    """An embedding function that keeps what it was asked."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.broken = False

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(texts)
        if self.broken:
            raise RuntimeError("the model is away")
        return embed(texts)


def store_with(function: Any, retrieval: Any = None) -> SessionStore:
    config = SessionStoreConfig(auto_embed=True, embed_fn=function)
    return SessionStore(InMemoryMemory(), retrieval or InMemoryEmbeddingStore(), config)


def talk(*texts: str) -> list[dict[str, Any]]:
    return [{"id": str(number), "role": "user", "content": text} for number, text in enumerate(texts)]


def names(found: list[RetrievedItem]) -> list[str]:
    return [one.message_id for one in found]


# ---- vectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ("not a list", "must be a list"),
        ([[1.0], "not a list"], "is not a list"),
        ([[1.0, 2.0], [3.0]], "expected 2"),
        ([[1.0, "two"]], "non-numeric"),
    ],
)
def test_what_is_wrong_with_vectors_is_said_in_the_known_words(vectors: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        validate_vectors(vectors)


def test_a_dimension_that_was_not_expected_is_said_in_the_known_words() -> None:
    with pytest.raises(ValueError, match="Expected embedding dimension 3"):
        validate_vectors([[1.0, 2.0]], expected_dim=3)
    with pytest.raises(ValueError, match="empty list"):
        infer_embedding_dim([])


def test_vectors_are_checked() -> None:
    validate_vectors([[1.0, 2.0], [3.0, 4.0]], expected_dim=2)
    assert infer_embedding_dim(np.ones((2, 3))) == 3
    validate_vectors([])
    wrong: list[Any] = [[[]], [[1.0], [1.0, 2.0]], [[float("nan")]], [[float("inf")]], [["a"]]]
    for vectors in wrong:
        with pytest.raises(ValueError, match="vector"):
            validate_vectors(vectors)
    with pytest.raises(ValueError, match="3 dimensions"):
        validate_vectors([[1.0, 2.0]], expected_dim=3)


# ---- the index ------------------------------------------------------------------------------------------------------


async def filled() -> InMemoryEmbeddingStore:
    store = InMemoryEmbeddingStore()
    await store.add("s", "east", [1.0, 0.0], {"text": "east"})
    await store.add("s", "north", [0.0, 1.0])
    await store.add("s", "northeast", [5.0, 5.0])
    return store


async def test_the_nearest_come_first() -> None:
    found = await (await filled()).search("s", [2.0, 0.0], 2)
    assert names(found) == ["east", "northeast"]
    assert (found[0].score, found[0].metadata) == (1.0, {"text": "east"})
    assert isinstance(await filled(), RetrievalBackend)


@pytest.mark.parametrize("k", [0, -1])
async def test_none_were_asked_for(k: int) -> None:
    assert await (await filled()).search("s", [1.0, 0.0], k) == []


async def test_an_unknown_session_has_nothing_to_find() -> None:
    assert await (await filled()).search("other", [1.0, 0.0], 5) == []


@pytest.mark.parametrize("vector", [[float("nan"), 0.0], [float("inf"), 0.0], [1.0, 0.0, 0.0], []])
async def test_a_vector_that_does_not_belong_is_refused_and_the_rest_stays_searchable(vector: list[float]) -> None:
    store = await filled()
    with pytest.raises(ValueError, match="vector"):
        await store.add("s", "wrong", vector)
    assert not await store.has_embedding("s", "wrong")
    assert names(await store.search("s", [1.0, 0.0], 9)) == ["east", "northeast", "north"]


async def test_sessions_may_have_different_dimensions() -> None:
    store = await filled()
    await store.add("t", "x", [1.0, 2.0, 3.0])
    assert names(await store.search("t", [1.0, 2.0, 3.0], 1)) == ["x"]


async def test_adding_again_replaces_vector_and_metadata() -> None:
    store = await filled()
    await store.add("s", "east", [0.0, 1.0])
    found = await store.search("s", [0.0, 1.0], 3)
    assert {one.message_id: (one.score, one.metadata) for one in found}["east"] == (1.0, {})
    assert len(found) == 3


async def test_what_was_removed_is_not_found() -> None:
    store = await filled()
    await store.remove("s", "east")
    await store.remove("nobody", "east")
    assert "east" not in names(await store.search("s", [1.0, 0.0], 9))
    assert not await store.has_embedding("s", "east")


# ---- embedding functions --------------------------------------------------------------------------------------------


async def plain_async(texts: list[str]) -> list[list[float]]:
    return embed(texts)


class AsyncObject:
    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return embed(texts)


@pytest.mark.parametrize(
    "function",
    [embed, plain_async, Counting(), AsyncObject(), lambda texts: np.array(embed(texts), np.float32)],
    ids=["function", "async function", "object", "async object", "numpy"],
)
async def test_any_kind_of_embedding_function_will_do(function: Any) -> None:
    store = InMemoryEmbeddingStore()
    for text in ("cats and dogs", "the stock market"):
        await store.add("s", text, embed([text])[0])
    assert names(await retrieve_relevant("s", "dogs and cats", function, store, k=1)) == ["cats and dogs"]


async def test_nothing_is_embedded_for_no_results() -> None:
    function = Counting()
    assert await retrieve_relevant("s", "x", function, InMemoryEmbeddingStore(), k=0) == []
    assert function.calls == []


async def test_too_few_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="2 vectors for 2 texts"):
        await store_with(lambda texts: [[1.0, 2.0]]).save_context("s", talk("a", "b"))


# ---- the session store ----------------------------------------------------------------------------------------------


async def test_saved_messages_are_found_with_their_text() -> None:
    store = store_with(embed)
    await store.save_context("s", talk("What is Python?", "Python is a programming language.", "Paris."))
    [first] = await store.retrieve_relevant("s", "a programming language", k=1)
    assert (first.message_id, first.metadata["text"]) == ("1", "Python is a programming language.")


async def test_an_empty_session_finds_nothing() -> None:
    assert await store_with(embed).retrieve_relevant("s", "x") == []


async def test_messages_without_an_id_are_embedded_too() -> None:
    store = store_with(embed)
    items: list[Any] = [{"role": "user", "content": "no id"}, "raw text", Interaction(content={"text": "i"})]
    await store.save_context("s", items)
    stored = [message["id"] for message in await store.load_context("s")]
    assert sorted(names(await store.retrieve_relevant("s", "raw text"))) == sorted(stored)


async def test_each_message_is_embedded_once_and_many_in_one_call() -> None:
    function = Counting()
    store = store_with(function)
    await store.save_context("s", talk(*(f"text {number}" for number in range(60))))
    assert [len(call) for call in function.calls] == [60]
    await store.save_context("s", await store.load_context("s"))
    assert len(function.calls) == 1


async def test_a_message_that_says_something_else_is_embedded_again() -> None:
    store = store_with(embed)
    await store.save_context("s", talk("about cats"))
    await store.save_context("s", talk("about the stock market"))
    [found] = await store.retrieve_relevant("s", "the stock market")
    assert found.metadata["text"] == "about the stock market"
    assert found.score > 0.5


class Unforgetting:
    """An index without `remove`."""

    def __init__(self) -> None:
        inner = InMemoryEmbeddingStore()
        self.add, self.search, self.has_embedding = inner.add, inner.search, inner.has_embedding


@pytest.mark.parametrize("index", [InMemoryEmbeddingStore, Unforgetting])
async def test_deleted_messages_are_never_found(index: Any) -> None:
    store = store_with(embed, index())
    await store.save_context("s", talk("apples", "pears", "plums"))
    await store.delete_interaction("s", "1")
    assert names(await store.retrieve_relevant("s", "plums", k=3)) == ["0"]
    await store.save_context("s", [])
    assert await store.retrieve_relevant("s", "apples") == []
    await store.save_context("s", talk("grapes"))
    await store.delete_session("s")
    assert await store.retrieve_relevant("s", "grapes") == []
    await store.save_context("s", talk("grapes"))
    assert names(await store.retrieve_relevant("s", "grapes")) == ["0"]


async def test_if_embedding_fails_the_messages_are_kept_and_the_caller_is_told() -> None:
    function = Counting()
    store = store_with(function)
    await store.save_context("s", talk("first"))
    function.broken = True
    with pytest.raises(RuntimeError, match="away"):
        await store.append_context("s", [{"role": "user", "content": "second"}])
    with pytest.raises(RuntimeError, match="away"):
        await store.save_context("new", talk("alone"))
    assert [message["content"] for message in await store.load_context("s")] == ["first", "second"]
    assert [message["content"] for message in await store.load_context("new")] == ["alone"]


async def test_what_could_not_be_embedded_is_embedded_by_the_next_save() -> None:
    function = Counting()
    store = store_with(function)
    function.broken = True
    with pytest.raises(RuntimeError, match="away"):
        await store.save_context("s", talk("first"))
    function.broken = False
    await store.save_context("s", await store.load_context("s"))
    assert [one.metadata["text"] for one in await store.retrieve_relevant("s", "first", k=3)] == ["first"]


@pytest.mark.parametrize("index", [InMemoryEmbeddingStore, Unforgetting])
async def test_texts_under_an_id_that_no_message_has_go_with_their_session(index: Any) -> None:
    store = store_with(embed, index())
    await store.save_context("s", talk("first"))
    await store.add_message_embedding("s", "a note", "not a message")
    await store.delete_session("s")
    assert await store.retrieve_relevant("s", "not a message", k=5) == []


async def test_background_embedding_is_found_once_waited_for() -> None:
    store = store_with(embed)
    task = store.spawn_background_embedding("s", "msg-5", "Some text to embed")
    await store.wait_for_embeddings()
    assert task.done()
    assert names(await store.retrieve_relevant("s", "some text")) == ["msg-5"]


async def test_a_background_failure_is_told_by_waiting() -> None:
    function = Counting()
    function.broken = True
    store = store_with(function)
    store.spawn_background_embedding("s", "1", "x")
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="away"):
        await store.wait_for_embeddings()
    await store.wait_for_embeddings()


async def test_an_id_is_embedded_once() -> None:
    function = Counting()
    store = store_with(function)
    await store.add_message_embedding("s", "1", "text", {"source": "test"})
    await store.add_message_embedding("s", "1", "text")
    assert len(function.calls) == 1


async def test_what_is_missing_is_named() -> None:
    memory = InMemoryMemory()
    with pytest.raises(ValueError, match=r"^auto_embed requires embed_fn to be set in config$"):
        SessionStore(memory, InMemoryEmbeddingStore(), SessionStoreConfig(auto_embed=True))
    with pytest.raises(ValueError, match=r"^auto_embed requires a retrieval backend$"):
        SessionStore(memory, None, SessionStoreConfig(auto_embed=True, embed_fn=embed))
    with pytest.raises(ValueError, match=r"^No retrieval backend configured$"):
        await SessionStore(memory).retrieve_relevant("s", "x")
    with pytest.raises(ValueError, match=r"^No embed_fn configured$"):
        await SessionStore(memory, InMemoryEmbeddingStore()).add_message_embedding("s", "1", "x")


class DictMemory(MemoryBackend):
    """A backend of a user's own."""

    def __init__(self) -> None:
        self.kept: dict[str, list[dict[str, Any]]] = {}

    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        return list(self.kept.get(session_id, []))

    async def save_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
        self.kept[session_id] = list(context)

    async def append_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
        self.kept[session_id] += context

    async def delete_session(self, session_id: str) -> None:
        del self.kept[session_id]

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        kept = self.kept[session_id]
        del kept[[one["id"] for one in kept].index(interaction_id) :]


async def test_a_backend_of_ones_own_works_with_the_session_store() -> None:
    store = SessionStore(DictMemory(), InMemoryEmbeddingStore(), SessionStoreConfig(True, embed))
    await store.save_context("s", talk("apples", "pears"))
    await store.append_context("s", [{"id": "x", "role": "user", "content": "plums"}])
    await store.delete_interaction("s", "1")
    assert names(await store.retrieve_relevant("s", "plums", k=9)) == ["0"]
    assert [message["content"] for message in await store.load_context("s")] == ["apples"]
