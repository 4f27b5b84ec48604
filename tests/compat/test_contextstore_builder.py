"""ContextStore's tokenizers, strategies and ContextBuilder by their own names."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.compat.contextstore import (
    ContextBuilder,
    FallbackWordCountTokenizer,
    InMemoryMemory,
    ModelTokenizer,
    Tokenizer,
    deterministic_sort_key,
    get_strategy,
    tokenizer_from_name,
)

BUILDER = ContextBuilder()
FIVE = "one two three four five"  # 6 tokens by the fallback
STRATEGIES = ["truncate_oldest", "recent_only", "summarize_oldest"]


def turns(count: int, text: str = FIVE) -> list[dict[str, Any]]:
    return [
        {"id": str(n), "role": "user", "content": text, "timestamp": f"2024-01-01T{n // 60:02d}:{n % 60:02d}:00Z"}
        for n in range(count)
    ]


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]


# ---- tokenizers -----------------------------------------------------------------------------------------------------


def test_the_fallback_counts_words_and_rounds_down() -> None:
    counted = FallbackWordCountTokenizer().count_tokens(FIVE)
    assert (counted.count, counted.approximate) == (6, True)
    assert FallbackWordCountTokenizer(tokens_per_word=2.0).count_tokens(FIVE).count == 10
    assert FallbackWordCountTokenizer().count_tokens("").count == 0
    assert FallbackWordCountTokenizer().tokenize(FIVE) is None
    assert FallbackWordCountTokenizer().name == "fallback_word_count"


@pytest.mark.parametrize("text", ["汉" * 2000, "あ" * 2000, "한" * 2000, "ก" * 2000])
def test_writing_without_spaces_is_not_one_word(text: str) -> None:
    assert FallbackWordCountTokenizer().count_tokens(text).count >= 2000


@pytest.mark.parametrize("name", ["gpt-4", "gpt-4-turbo", "gpt-4o", "gpt-3.5-turbo", "text-embedding-3-small"])
def test_a_known_model_is_counted_exactly(name: str) -> None:
    pytest.importorskip("splintr")
    counted = tokenizer_from_name(name).count_tokens("tokenization is fun")
    assert (counted.approximate, counted.count in (4, 5)) == (False, True)


@pytest.mark.parametrize("name", ["gpt-4", "gpt-4o", "cl100k_base", "o200k_base", "no such model"])
def test_a_tokenizer_that_cannot_be_had_is_replaced_by_the_fallback(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from strongroom.tokens import counting

    monkeypatch.setattr(counting, "_encoding", lambda name: None)
    counting._named.cache_clear()
    try:
        assert tokenizer_from_name(name).name == "fallback_word_count"
    finally:
        counting._named.cache_clear()


def test_options_reach_the_fallback() -> None:
    assert tokenizer_from_name("fallback", tokens_per_word=3.0).count_tokens("a b").count == 6


def test_what_looks_like_a_control_token_is_text() -> None:
    pytest.importorskip("splintr")
    assert tokenizer_from_name("gpt-4").count_tokens("<|endoftext|>").count > 1


def test_any_object_that_encodes_can_be_a_model_tokenizer() -> None:
    class Letters:
        def encode(self, text: str) -> list[int]:
            return [ord(letter) for letter in text]

    made = ModelTokenizer(Letters(), "letters")
    assert (made.name, made.count_tokens("abc").count, made.tokenize("ab")) == ("letters", 3, [97, 98])


def test_a_name_that_only_tiktoken_knows_is_counted_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = SimpleNamespace(name="p50k_base", encode_ordinary=lambda text: [7] * len(text))
    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=lambda name: encoding))
    found = tokenizer_from_name("p50k_base")
    counted = found.count_tokens("four")
    assert (found.name, counted.count, counted.approximate) == ("p50k_base", 4, False)


def test_a_model_that_only_tiktoken_knows_is_counted_by_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise ValueError(name)

    encoding = SimpleNamespace(name="r50k_base", encode_ordinary=str.split)
    known = SimpleNamespace(get_encoding=unknown, encoding_for_model={"davinci": encoding}.__getitem__)
    monkeypatch.setitem(sys.modules, "tiktoken", known)
    assert tokenizer_from_name("davinci").count_tokens("two words").count == 2
    assert tokenizer_from_name("nobody").count_tokens("two words").approximate


@pytest.mark.parametrize("installed", [True, False])
def test_a_fallback_is_logged(
    installed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def offline(name: str) -> None:
        raise OSError("no network")

    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=offline) if installed else None)
    with caplog.at_level(logging.WARNING):
        assert tokenizer_from_name("p50k_base", tokens_per_word=2).count_tokens("two words").count == 4
    assert ["Falling back to word counts for 'p50k_base'" in one.getMessage() for one in caplog.records] == [True]


def test_an_exact_tokenizer_gives_ids_too() -> None:
    found = tokenizer_from_name("cl100k_base")
    assert found.tokenize("hello world") == [15339, 1917]


def test_a_builder_keeps_the_tokenizer_it_was_given() -> None:
    builder = ContextBuilder.from_model("gpt-4")
    assert builder.tokenizer is builder._tokenizer


def test_metrics_hold_the_metadata_as_a_whole() -> None:
    told: list[dict[str, Any]] = []
    built = BUILDER.build(turns(9), 18, metrics_callback=told.append)
    assert (told[0]["metadata"], told[0]["total_tokens"]) == (built.metadata, built.total_tokens)


# ---- order ----------------------------------------------------------------------------------------------------------


def test_equal_times_are_ordered_by_id() -> None:
    same = [{"id": one, "content": "x", "timestamp": "2024-01-01T00:00:00Z"} for one in "cab"]
    assert ids(BUILDER.build(same, 100).messages) == ["a", "b", "c"]


def test_numbers_in_ids_are_ordered_as_numbers() -> None:
    same = [{"id": one, "content": "x", "timestamp": "2024-01-01T00:00:00Z"} for one in ["10", "9", "m10", "m9"]]
    assert ids(sorted(same, key=deterministic_sort_key)) == ["9", "10", "m9", "m10"]


def test_times_are_compared_as_instants() -> None:
    mixed: list[dict[str, Any]] = [
        {"id": "third", "content": "x", "timestamp": "2024-01-01T00:00:02Z"},
        {"id": "first", "content": "x", "timestamp": "2024-01-01T05:00:00+05:00"},
        {"id": "second", "content": "x", "timestamp": 1704067201.0},
    ]
    assert ids(BUILDER.build(mixed, 100).messages) == ["first", "second", "third"]


def test_messages_without_times_stay_in_their_order() -> None:
    plain = [{"id": one, "content": "x"} for one in ["9", "10", "b", "a"]]
    assert ids(BUILDER.build(plain, 100).messages) == ["9", "10", "b", "a"]


def test_a_history_that_mixes_times_with_and_without_an_offset_stays_in_its_order() -> None:
    history = [
        {"id": "1", "role": "user", "content": "old question", "timestamp": "2024-06-01T15:00:00+00:00"},
        {"id": "2", "role": "assistant", "content": "old answer", "timestamp": "2024-06-01T15:00:01+00:00"},
        {"id": "3", "role": "user", "content": "new question", "timestamp": "2024-06-01T08:00:02"},
    ]
    assert ids(BUILDER.build(history, 100).messages) == ["1", "2", "3"]
    assert ids(BUILDER.build(history, 3).messages) == ["3"]


def test_times_without_an_offset_stay_in_their_order_when_the_clocks_go_back() -> None:
    history = [
        {"id": "1", "content": "x", "timestamp": "2024-11-03T01:59:59"},
        {"id": "2", "content": "x", "timestamp": "2024-11-03T01:00:01"},
    ]
    assert ids(BUILDER.build(history, 100).messages) == ["1", "2"]


async def test_a_question_and_its_answer_saved_together_are_never_swapped() -> None:
    memory = InMemoryMemory()
    for _ in range(20):
        await memory.save_context("s", [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])
        built = BUILDER.build(await memory.load_context("s"), 100)
        assert [message["content"] for message in built.messages] == ["q", "a"]


# ---- cutting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_cut_if_everything_fits(strategy: str) -> None:
    built = BUILDER.build(turns(3), 18, strategy=strategy)
    assert (built.strategy_used, built.total_tokens, built.approximate, len(built.messages)) == ("none", 18, True, 3)
    assert built.metadata == {
        "truncation_applied": False,
        "tokens_before": 18,
        "dropped_ids": [],
        "summarized_ids": [],
        "iterations": 0,
    }


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
def test_the_newest_messages_that_fit_stay(strategy: str) -> None:
    built = BUILDER.build(turns(5), 13, strategy=strategy)
    assert (ids(built.messages), built.total_tokens, built.strategy_used) == (["3", "4"], 12, strategy)
    assert built.metadata["dropped_ids"] == ["0", "1", "2"]
    assert (built.metadata["truncation_applied"], built.metadata["tokens_before"]) == (True, 30)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_budget_of_nothing_gives_nothing(strategy: str) -> None:
    assert BUILDER.build(turns(3), 0, strategy=strategy, strategy_opts=_summing("x")).messages == []
    assert BUILDER.build([], 0, strategy=strategy).messages == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_single_message_over_the_budget_gives_nothing(strategy: str) -> None:
    built = BUILDER.build(turns(1), 3, strategy=strategy)
    assert (built.messages, built.metadata["dropped_ids"]) == ([], ["0"])


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
def test_there_are_no_holes_behind_a_newest_message_that_is_too_big(strategy: str) -> None:
    history = [{"role": "system", "content": "be kind", "id": "s"}, *turns(3), *turns(1, "word " * 100)]
    history[-1] = {**history[-1], "id": "big", "timestamp": "2025-01-01T00:00:00Z"}
    assert ids(BUILDER.build(history, 20, strategy=strategy).messages) == ["s"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_system_prompt_stays(strategy: str) -> None:
    history = [{"id": "s", "role": "system", "content": "be kind", "timestamp": "2023-01-01T00:00:00Z"}, *turns(9)]
    built = BUILDER.build(history, 14, strategy=strategy, strategy_opts=_summing("word " * 50))
    assert ids(built.messages) == ["s", "7", "8"]


def test_an_unknown_strategy_is_refused_even_if_everything_fits() -> None:
    with pytest.raises(ValueError, match="Unknown strategy"):
        BUILDER.build([], 100, strategy="newest_only")
    with pytest.raises(ValueError, match="Unknown strategy"):
        get_strategy("newest_only")


def test_both_filters_come_before_the_cut() -> None:
    history = turns(6)
    by_post = BUILDER.build(history, 12, post_filter=lambda message: int(message["id"]) < 4)
    by_pre = BUILDER.build(history, 12, pre_filter=lambda message: int(message["id"]) < 4)
    assert ids(by_post.messages) == ids(by_pre.messages) == ["2", "3"]


def test_metrics_are_told() -> None:
    told: list[dict[str, Any]] = []
    BUILDER.build(turns(5), 13, metrics_callback=told.append)
    assert told[0]["total_tokens"] == 12
    assert told[0]["strategy_used"] == "truncate_oldest"
    assert told[0]["dropped_ids"] == ["0", "1", "2"]


def test_what_is_built_is_the_callers_own() -> None:
    history = turns(2)
    BUILDER.build(history, 100).messages[0]["content"] = "edited"
    assert history == turns(2)


@pytest.mark.parametrize(
    "content",
    [None, "", [{"type": "text", "text": FIVE}], {"text": FIVE}, {"data": FIVE}, {"other": [1, 2]}, [1, 2]],
)
@pytest.mark.parametrize("model", ["fallback", "gpt-4"])
def test_content_of_any_shape_can_be_counted(content: Any, model: str) -> None:
    built = ContextBuilder.from_model(model).build([{"id": "1", "role": "user", "content": content}], 100)
    assert len(built.messages) == 1


def test_a_model_tokenizer_counts_all_that_is_sent() -> None:
    pytest.importorskip("splintr")
    builder = ContextBuilder.from_model("gpt-4")
    text = builder.tokenizer.count_tokens("Hello!").count
    assert builder.build([{"id": "1", "role": "user", "content": "Hello!"}], 100).total_tokens == text + 4


def test_a_tokenizer_of_ones_own_is_asked() -> None:
    class Letters(FallbackWordCountTokenizer):
        def count_tokens(self, text: str) -> Any:
            return type(super().count_tokens(text))(len(text))

    builder = ContextBuilder(Letters())
    assert isinstance(builder.tokenizer, Tokenizer)
    built = builder.build(turns(3, "abc"), 6)
    assert (ids(built.messages), built.total_tokens, built.approximate) == (["1", "2"], 6, False)


# ---- summaries ------------------------------------------------------------------------------------------------------


def _summing(text: str, chunk_size: int = 5) -> dict[str, Any]:
    return {"summarizer": lambda messages: text, "chunk_size": chunk_size}


def summarised(count: int, budget: int, **opts: Any) -> Any:
    return BUILDER.build(turns(count), budget, strategy="summarize_oldest", strategy_opts=opts)


def test_the_oldest_are_summarised_and_all_of_them_named() -> None:
    built = summarised(32, 20, **_summing("in short"))
    summary, *rest = built.messages
    assert (summary["id"], summary["role"], summary["content"]) == ("summary_0", "system", "in short")
    assert summary["metadata"] == {"is_summary": True, "summarized_count": 30}
    assert built.metadata["summarized_ids"] == [str(number) for number in range(30)]
    assert ids(rest) == ["30", "31"]
    assert (built.metadata["dropped_ids"], built.metadata["iterations"]) == ([], 6)


@pytest.mark.parametrize("chunk_size", [1, 2, 100])
def test_a_summary_that_does_not_shrink_ends_it(chunk_size: int) -> None:
    built = summarised(40, 20, **_summing("word " * 500, chunk_size))
    assert ids(built.messages) == ["37", "38", "39"]
    assert built.metadata["fallback_reason"] == "summary_too_long"


def test_a_chunk_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="chunk_size"):
        summarised(4, 10, **_summing("x", 0))


def test_without_a_summarizer_the_oldest_are_dropped() -> None:
    built = summarised(4, 13)
    assert (ids(built.messages), built.metadata["fallback_reason"]) == (["2", "3"], "no_summarizer")


def test_a_summarizer_that_fails_makes_the_oldest_drop() -> None:
    def fail(messages: list[dict[str, Any]]) -> str:
        raise RuntimeError("no model today")

    built = summarised(4, 13, summarizer=fail)
    assert (ids(built.messages), built.metadata["fallback_reason"]) == (["2", "3"], "summarizer_failed")
    assert "no model today" in built.metadata["error"]


async def _short(messages: list[dict[str, Any]]) -> str:
    return f"{len(messages)} messages"


def test_an_async_summarizer_is_awaited() -> None:
    assert summarised(12, 20, summarizer=_short).messages[0]["content"] == "6 messages"


async def test_an_async_summarizer_is_awaited_inside_a_running_loop() -> None:
    assert summarised(12, 20, summarizer=_short).messages[0]["content"] == "6 messages"


@given(
    st.lists(st.text("ab ", max_size=30), max_size=12),
    st.integers(0, 60),
    st.sampled_from(STRATEGIES),
    st.text("ab ", max_size=40),
    st.integers(1, 4),
)
def test_every_message_is_sent_dropped_or_summarised_and_the_budget_holds(
    texts: list[str], budget: int, strategy: str, summary: str, chunk_size: int
) -> None:
    history = [{"id": str(n), "role": "system" if n % 5 == 0 else "user", "content": t} for n, t in enumerate(texts)]
    built = BUILDER.build(history, budget, strategy=strategy, strategy_opts=_summing(summary, chunk_size))
    assert built.total_tokens <= budget
    sent = [one for one in ids(built.messages) if not one.startswith("summary_")]
    told = [*sent, *built.metadata["dropped_ids"], *built.metadata["summarized_ids"]]
    assert sorted(told, key=int) == [str(number) for number in range(len(texts))]
