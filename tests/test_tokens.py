"""Tokens: exact where there is a vocabulary, an honest estimate where there is none."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import InvalidInput
from strongroom.scope import Scope
from strongroom.tokens import Custom, count_message, count_tools, counting, estimate, tokenizer

CORPUS: dict[str, list[str]] = json.loads((Path(__file__).parent / "data" / "tokens_corpus.json").read_text())
WORDS = Custom(str.split, name="words")


@pytest.mark.parametrize("kind", sorted(CORPUS))
def test_the_estimate_is_within_a_quarter_of_the_exact_count(kind: str) -> None:
    exact, estimate = tokenizer("o200k_base"), tokenizer("estimate")
    for text in ["\n".join(CORPUS[kind]), *CORPUS[kind]]:
        assert estimate.count(text) == pytest.approx(exact.count(text), rel=0.25), text[:40]


def test_the_corpus_catches_a_bad_estimate() -> None:
    """The same measure refuses counting words, and counting bytes by four."""
    exact = tokenizer("o200k_base")
    texts = ["\n".join(texts) for texts in CORPUS.values()]
    for counts in ([len(text.split()) * 1.3 for text in texts], [len(text.encode()) / 4 for text in texts]):
        ratios = [count / exact.count(text) for count, text in zip(counts, texts, strict=True)]
        assert not all(0.75 <= ratio <= 1.25 for ratio in ratios)


@given(st.text())
def test_the_estimate_is_zero_for_nothing_and_for_nothing_else(text: str) -> None:
    assert (tokenizer("estimate").count(text) == 0) == (text == "")


@given(st.text(st.characters(max_codepoint=127)))
def test_a_text_of_ascii_alone_is_cut_as_it_is_beside_other_letters(text: str) -> None:
    def cut(pieces: re.Pattern[str]) -> list[tuple[str | None, str]]:
        return [(piece.lastgroup, piece[0]) for piece in pieces.finditer(text)]

    assert cut(estimate._ASCII) == cut(estimate._PIECES)


@given(st.text(), st.text())
def test_the_estimate_does_not_shrink_much_when_text_is_added(first: str, second: str) -> None:
    estimate = tokenizer("estimate")
    # Joining can merge the two pieces that meet, no more.
    assert estimate.count(first + second) <= estimate.count(first) + estimate.count(second) + 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("default", "estimate"),
        ("estimate", "estimate"),
        ("o200k_base", "o200k_base"),
        ("cl100k_base", "cl100k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("openai/gpt-4o", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("claude-sonnet-4", "estimate"),
        ("gemini-2.5-pro", "estimate"),
        ("llama-3-70b", "estimate"),
    ],
)
def test_a_name_stands_for_a_tokenizer(name: str, expected: str) -> None:
    found = tokenizer(name)
    assert found.name == expected
    assert found.approximate == (expected == "estimate")


def test_known_counts_are_exact() -> None:
    assert tokenizer("cl100k_base").count("hello world") == 2
    assert tokenizer("o200k_base").count("hello world") == 2
    assert tokenizer("cl100k_base").count("你好世界") == 5


def test_special_token_text_is_data() -> None:
    for name in ("o200k_base", "cl100k_base", "estimate"):
        assert tokenizer(name).count("<|endoftext|>") > 1


def test_without_the_extra_an_encoding_is_refused_and_a_model_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splintr", None)
    counting._named.cache_clear()
    counting._encoding.cache_clear()
    try:
        with pytest.raises(InvalidInput, match=r"strongroom\[tokens\]"):
            tokenizer("o200k_base")
        assert tokenizer("gpt-4o").approximate
        assert Scope.__struct_defaults__[-1].count("works") > 0
    finally:
        counting._named.cache_clear()
        counting._encoding.cache_clear()


def test_any_callable_is_a_tokenizer() -> None:
    assert tokenizer(lambda text: len(text)).count("four") == 4
    assert tokenizer(str.split).count("two words") == 2
    with pytest.raises(InvalidInput):
        tokenizer(lambda text: -1).count("x")
    with pytest.raises(InvalidInput):
        tokenizer(3)  # type: ignore[arg-type]


def test_a_message_costs_its_words_its_role_and_the_format() -> None:
    assert count_message({"role": "user", "content": "two words"}, WORDS) == 3 + 1 + 2


def test_every_text_part_is_counted_and_a_picture_has_a_fixed_price() -> None:
    parts: list[dict[str, Any]] = [{"type": "text", "text": "one two"}, {"type": "text", "text": "three"}]
    small = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000, "detail": "low"}}
    assert count_message({"role": "user", "content": parts}, WORDS) == 3 + 1 + 3
    assert count_message({"role": "user", "content": [*parts, small]}, WORDS) == 3 + 1 + 3 + 85


def test_tool_calls_are_counted_and_book_keeping_is_not() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}}
    bare = count_message({"role": "assistant", "content": None}, WORDS)
    assert count_message({"role": "assistant", "content": None, "tool_calls": [call]}, WORDS) > bare
    noted = {"role": "user", "content": "x", "id": "a b c", "metadata": {"k": "v w"}, "timestamp": "t u", "priority": 3}
    assert count_message(noted, WORDS) == count_message({"role": "user", "content": "x"}, WORDS)


def test_tool_schemas_are_counted_as_the_json_they_are_sent_as() -> None:
    assert count_tools([{"name": "a tool"}, {"name": "b"}], WORDS) == 3
