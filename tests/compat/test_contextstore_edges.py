"""Values at the edge, taken as ContextStore takes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strongroom.compat.contextstore import (
    ContextBuilder,
    InMemoryEmbeddingStore,
    InMemoryMemory,
    ModelTokenizer,
    SessionStore,
    SessionStoreConfig,
    get_strategy,
    tokenizer_from_name,
)

WORDS = tokenizer_from_name("fallback")
HISTORY: list[dict[str, Any]] = [
    {"id": str(n), "role": "user", "content": "word " * 10, "timestamp": f"2024-01-01T00:0{n}:00Z"} for n in range(1, 6)
]


def model_tokenizer() -> ModelTokenizer:
    return ModelTokenizer(SimpleNamespace(encode=lambda text: [7, *text.encode()]), "with a beginning")


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [str(message["id"]) for message in messages]


# ---- tokenizers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fallback", "nobody's model"])
def test_an_option_that_only_another_tokenizer_has_is_left_alone(name: str) -> None:
    found = tokenizer_from_name(name, cache="here", tokens_per_word=2.0)
    assert found.count_tokens("one two").count == 4


@pytest.mark.parametrize("text", ["", None])
def test_no_text_has_no_tokens(text: Any) -> None:
    assert WORDS.count_tokens(text).count == 0
    assert model_tokenizer().count_tokens(text).count == 0
    assert model_tokenizer().tokenize(text) == []


def test_a_tokenizer_is_called_by_its_encoding_for_the_usual_models_and_by_the_model_for_others() -> None:
    pytest.importorskip("splintr")
    names = ["gpt-4", "gpt-4o", "cl100k_base", "gpt-4.1"]
    assert [tokenizer_from_name(name).name for name in names] == ["cl100k_base", "o200k_base", "cl100k_base", "gpt-4.1"]


# ---- budgets and strategies -----------------------------------------------------------------------------------------


def test_a_budget_may_be_a_share_of_a_window() -> None:
    builder = ContextBuilder(WORDS)
    assert builder.build(HISTORY, 40 * 0.75).messages == builder.build(HISTORY, 30).messages


def test_a_budget_below_nothing_lets_nothing_in() -> None:
    built = ContextBuilder(WORDS).build(HISTORY, 100 - 200)
    assert (built.messages, built.metadata["dropped_ids"]) == ([], ids(HISTORY))


def test_a_budget_without_end_lets_everything_in() -> None:
    assert ContextBuilder(WORDS).build(HISTORY, float("inf")).messages == HISTORY


@pytest.mark.parametrize("budget", ["30", None, float("nan")])
def test_what_is_no_number_is_no_budget(budget: Any) -> None:
    with pytest.raises(ValueError, match="max_tokens must be a number"):
        ContextBuilder(WORDS).build(HISTORY, budget)


@pytest.mark.parametrize("name", ["truncate_oldest", "recent_only", "summarize_oldest"])
def test_a_cut_tells_which_strategy_made_it_and_other_options_are_left_alone(name: str) -> None:
    cut = get_strategy(name, summarizer=lambda messages: "S", another=1).apply(HISTORY, 30, WORDS)
    assert cut.metadata["strategy"] == name


def test_a_summary_has_the_time_of_the_first_message_it_stands_for() -> None:
    cut = get_strategy("summarize_oldest", summarizer=lambda messages: "S").apply(HISTORY, 30, WORDS)
    assert cut.messages[0]["timestamp"] == HISTORY[0]["timestamp"]
    untimed = [{"id": str(n), "role": "user", "content": "word " * 10} for n in range(5)]
    cut = get_strategy("summarize_oldest", summarizer=lambda messages: "S").apply(untimed, 30, WORDS)
    assert "timestamp" not in cut.messages[0]


# ---- loading and finding --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "found"), [(-1, []), (0, []), (True, ["5"]), (99, ids(HISTORY))])
async def test_as_many_are_loaded_as_there_are(k: Any, found: list[str]) -> None:
    memory = InMemoryMemory()
    await memory.save_context("s", HISTORY)
    assert ids(await memory.load_context("s", k)) == found


@pytest.mark.parametrize("query", [[], [0.0, 0.0]])
async def test_nothing_is_near_a_vector_without_a_direction(query: list[float]) -> None:
    store = InMemoryEmbeddingStore()
    await store.add("s", "1", [1.0, 0.0])
    assert await store.search("s", query, 5) == []


async def test_what_is_told_of_a_message_without_a_role_names_none() -> None:
    config = SessionStoreConfig(auto_embed=True, embed_fn=lambda texts: [[1.0, 0.0]] * len(texts))
    store = SessionStore(InMemoryMemory(), InMemoryEmbeddingStore(), config)
    await store.save_context("s", [{"id": "1", "content": {"text": "hello"}}])
    assert (await store.retrieve_relevant("s", "any"))[0].metadata == {"text": "hello"}


async def test_an_embedder_that_returns_no_numbers_is_told_which_vector_is_none() -> None:
    vectors: Any = [["a"]]
    config = SessionStoreConfig(auto_embed=True, embed_fn=lambda texts: vectors)
    store = SessionStore(InMemoryMemory(), InMemoryEmbeddingStore(), config)
    with pytest.raises(ValueError, match="vector 0 holds non-numeric values"):
        await store.save_context("s", [{"id": "1", "role": "user", "content": "hello"}])
