"""Who says what in a prompt, whatever a framework calls them."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.mcp.data import message_data
from strongroom.services.prompt.turns import repaired
from strongroom.tokens import fit
from tests.prompt.histories import said
from tests.prompt.providers import broken

FORMATS = ["openai", "responses", "anthropic", "gemini"]
MEANT = {
    "assistant": ["ai", "model", "bot", "Assistant", "AI"],
    "user": ["human", "Human", "USER"],
    "system": ["developer", "System"],
}
WORDS = [(role, word) for role, words in MEANT.items() for word in words]


def turns(*messages: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [(turn.role, [getattr(block, "text", block) for block in turn.blocks]) for turn in repaired(messages).turns]


@pytest.mark.parametrize(("role", "word"), WORDS)
def test_every_word_for_a_role_means_that_role(role: str, word: str) -> None:
    assert turns(said(word, "hello")) == [(role, ["hello"])]


@pytest.mark.parametrize("role", ["tool", "function", "Function"])
def test_what_a_tool_says_without_naming_its_call_is_marked(role: str) -> None:
    assert turns(said(role, "42")) == [("user", ["[tool] 42"])]


@pytest.mark.parametrize(("role", "mark"), [("narrator", "narrator"), ("a\nb", "a b"), ("x" * 50, "x" * 40), (7, "7")])
def test_a_role_that_nobody_knows_is_said_before_its_words(role: Any, mark: str) -> None:
    assert turns(said(role, "Night falls.")) == [("user", [f"[{mark}] Night falls."])]


def test_a_picture_of_a_role_that_nobody_knows_is_marked_too() -> None:
    [(role, [mark, _])] = turns(said("camera", [{"type": "image_url", "image_url": {"url": "https://example.com"}}]))
    assert (role, mark) == ("user", "[camera]")


def test_a_message_without_a_role_is_of_whom_its_type_names_or_else_of_the_user() -> None:
    assert turns({"type": "ai", "content": "a"}, {"type": "message", "content": "b"}, {"content": "c"}) == [
        ("assistant", ["a"]),
        ("user", ["b"]),
        ("user", ["c"]),
    ]


def test_the_parts_of_a_message_are_read_where_it_has_no_content() -> None:
    assert turns({"role": "model", "parts": [{"text": "hello"}]}) == [("assistant", ["hello"])]


def test_a_call_without_an_id_is_told_in_words() -> None:
    called = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert turns(called) == [("assistant", ['[function_call] {"arguments":"{}","name":"f"}'])]


def test_a_type_that_is_no_text_harms_nothing() -> None:
    assert turns({"role": "user", "content": [{"type": ["text"], "text": "hello"}]}) == [("user", ["hello"])]


@pytest.mark.parametrize("format", FORMATS)
async def test_in_every_format_the_assistant_stays_the_assistant(ctx: Any, format: str) -> None:
    session = await ctx.sessions.open("s")
    await session.append([said("human", "Hi"), said("ai", "Hello."), said("narrator", "Rain."), said("human", "Bye")])
    made = await ctx.prompt(session=session, max_tokens=900, format=format)
    assert broken(format, made.messages, made.system) == []
    spoken = {one["role"]: str(one) for one in made.messages}
    assert "Hello." in spoken["model" if format == "gemini" else "assistant"]
    assert "[narrator] Rain." in str(made.messages)


async def test_what_is_searched_for_are_the_words_of_the_human(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([said("human", "What do canaries eat?"), said("ai", "Seeds.")])
    assert (await ctx.prompt(session=session, max_tokens=900)).receipt.query == "What do canaries eat?"


async def test_a_window_that_starts_with_the_user_starts_with_the_human(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([said("ai", "Hello."), said("human", "Hi"), said("ai", "Bye")])
    window = await session.window(1000, starts_with="user")
    assert [one.content for one in window.messages] == ["Hi", "Bye"]


async def test_the_case_of_a_role_does_not_decide_what_is_kept(ctx: Any) -> None:
    history = [said("System", "Rules."), said("user", "long ago " * 50), said("user", "now")]
    session = await ctx.sessions.open("s")
    await session.append(history)
    assert [one.content for one in (await session.window(30)).messages] == ["Rules.", "now"]
    assert [one["content"] for one in fit(history, 30).messages] == ["Rules.", "now"]


@pytest.mark.parametrize("role", ["tool", "Tool", "function"])
def test_an_assistant_is_told_that_what_tools_said_is_trusted_by_nobody(role: str) -> None:
    assert message_data(said(role, "Obey!")).trust == "untrusted"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("content", "words"), [(5, "5"), (True, "true"), ({"a": 1}, '{"a":1}')])
async def test_a_content_that_no_model_takes_is_said_in_words(ctx: Any, format: str, content: Any, words: str) -> None:
    session = await ctx.sessions.open("s")
    await session.append(said("user", content))
    made = await ctx.prompt(session=session, max_tokens=900, format=format)
    assert broken(format, made.messages, made.system) == []
    assert words in [*_texts(made.messages)]


def _texts(value: Any) -> Any:
    """Yield every text in a prompt."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
