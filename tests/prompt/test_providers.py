"""Every history in the shape of every provider: none of their rules is broken, and nothing is made up."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings

from strongroom.services.prompt.formats import ENDING, FORMATS, begun, ended, shaped
from strongroom.services.prompt.turns import INTERRUPTED, Answer, Text, ToolCall, Turn, repaired
from tests.prompt.histories import histories, said
from tests.prompt.providers import broken

HISTORIES = int(os.environ.get("STRONGROOM_HISTORIES", "200"))

CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}],
}
ANSWER: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "found"}


@settings(max_examples=HISTORIES)
@given(histories())
def test_no_rule_of_a_provider_is_broken(history: list[dict[str, Any]]) -> None:
    made = repaired(history)
    for format in FORMATS:
        messages, system = shaped(ended(begun(made.turns, format), format), ["be kind"], format)
        assert broken(format, messages, system) == [], format


@settings(max_examples=HISTORIES)
@given(histories())
def test_every_call_is_answered_once_and_right_behind_it(history: list[dict[str, Any]]) -> None:
    turns = repaired(history).turns
    for place, turn in enumerate(turns):
        calls = [block.id for block in turn.blocks if isinstance(block, ToolCall)]
        if calls:
            assert [block.id for block in turns[place + 1].blocks if isinstance(block, Answer)] == calls


@pytest.mark.parametrize("format", FORMATS)
def test_a_request_that_is_as_it_should_be_goes_out_as_it_came_in(format: str) -> None:
    turns = repaired([said("user", "where?"), CALL, ANSWER, said("assistant", "there"), said("user", "thanks")]).turns
    messages, _ = shaped(turns, [], format)  # type: ignore[arg-type]
    if format == "openai":
        assert messages == [
            said("user", "where?"),
            {**CALL, "tool_calls": [{**CALL["tool_calls"][0], "function": {"name": "find", "arguments": '{"q":1}'}}]},
            ANSWER,
            said("assistant", "there"),
            said("user", "thanks"),
        ]
    assert broken(format, messages, shaped(turns, [], format)[1]) == []  # type: ignore[arg-type]


def test_a_call_without_an_answer_gets_one_that_says_so() -> None:
    made = repaired([said("user", "where?"), CALL])
    assert made.completed == 1
    assert [block.text for block in made.turns[-1].blocks if isinstance(block, Answer)] == [INTERRUPTED]


def test_an_answer_without_a_call_is_left_out_and_named() -> None:
    made = repaired([said("user", "where?"), ANSWER])
    assert (len(made.turns), made.unsaid) == (1, {1: "no_call"})


def test_of_two_answers_to_one_call_the_first_is_sent_and_the_other_named() -> None:
    assert repaired([CALL, ANSWER, ANSWER]).unsaid == {2: "no_call"}


def test_what_is_sent_beside_an_answer_without_a_call_is_not_unsaid() -> None:
    both = said("user", [{"type": "tool_result", "tool_use_id": "gone"}, {"type": "text", "text": "hello"}])
    assert repaired([both]).unsaid == {}


def test_an_answer_that_came_late_is_moved_behind_its_call() -> None:
    made = repaired([CALL, said("user", "hurry"), ANSWER])
    assert [type(block).__name__ for turn in made.turns for block in turn.blocks] == ["ToolCall", "Answer", "Text"]
    assert made.completed == 0


def test_an_id_that_is_used_again_is_told_apart() -> None:
    turns = repaired([CALL, ANSWER, CALL, {**ANSWER, "content": "again"}]).turns
    ids = [block.id for turn in turns for block in turn.blocks if isinstance(block, ToolCall)]
    assert len(set(ids)) == 2
    answers = [block for turn in turns for block in turn.blocks if isinstance(block, Answer)]
    assert [(one.id, one.text) for one in answers] == [(ids[0], "found"), (ids[1], "again")]


# ---- the rules themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_only_where_a_provider_wants_it_the_user_has_the_last_word(format: str) -> None:
    turns = repaired([said("user", "where?"), said("assistant", "there ")]).turns
    last = ended(turns, format)[-1]  # type: ignore[arg-type]
    assert last == (Turn("user", (Text(ENDING),)) if format in ("anthropic", "gemini") else turns[-1])


def test_texts_of_one_message_are_one_text_and_pictures_make_it_parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    two = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages, _ = shaped(repaired([said("user", two), said("user", [*two, picture])]).turns, [], "openai")
    assert messages == [said("user", "a\n\nb"), said("user", [*two, picture])]


OK = {"role": "user", "content": "hi"}
BAD: dict[str, list[list[dict[str, Any]]]] = {
    "openai": [
        [said("user", [{"type": "text", "text": "a"}])],
        [OK, CALL],
        [ANSWER],
        [CALL, OK, ANSWER],
        [{"role": "assistant", "content": None}],
    ],
    "responses": [
        [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}],
        [{"type": "function_call_output", "call_id": "a", "output": "x"}],
    ],
    "anthropic": [
        [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}],
        [{"role": "user", "content": [{"type": "text", "text": " "}]}],
        [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}]}] * 2,
        [said(role, [{"type": "text", "text": "a"}]) for role in ("user", "assistant")],
    ],
    "gemini": [
        [{"role": "model", "parts": [{"text": "a"}]}],
        [{"role": "user", "parts": []}],
        [{"role": role, "parts": [{"text": "a"}]} for role in ("user", "model")],
        [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"text": "b"}]},
        ],
    ],
}


@pytest.mark.parametrize(("format", "place"), [(name, place) for name in BAD for place in range(len(BAD[name]))])
def test_the_rules_refuse_what_a_provider_refuses(format: str, place: int) -> None:
    assert broken(format, BAD[format][place], [] if format == "anthropic" else None)
