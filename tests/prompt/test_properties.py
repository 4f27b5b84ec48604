"""Prompts over generated histories: never over budget, a larger one loses nothing, the same input the same bytes."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.blocking import Context
from strongroom.errors import BudgetExceeded
from strongroom.services.prompt.composing import count_sent, count_system
from strongroom.services.prompt.formats import FORMATS
from strongroom.services.prompt.values import Prompt
from strongroom.tokens import Custom, Tokenizer, count_tools, tokenizer
from tests.prompt.histories import histories
from tests.prompt.providers import broken
from tests.services.memory_samples import mcr

HISTORIES = int(os.environ.get("STRONGROOM_HISTORIES", "60"))
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
TOKENIZERS: dict[str, Tokenizer] = {
    "estimate": tokenizer("estimate"),
    "letters": Custom(len, name="letters"),
    "halves": Custom(lambda text: len(text) // 2, name="halves"),  # sees more in a whole than in its halves
    "words": Custom(lambda text: text.split(), name="words"),
}


def begun(history: list[dict[str, Any]], counter: str) -> Context:
    ctx = strongroom.open("memory://")
    session = ctx.sessions.open("s", tokenizer=TOKENIZERS[counter])
    for message in history:
        session.append(message)  # type: ignore[arg-type]
    run = ctx.runs.create(run_id="r", objective="watch the tides", constraints=["be polite", "no haste"])
    run.update(next_action="look at the sea")
    facts = [mcr(f"the tide turns at {hour}") for hour in range(4)]
    batch = ctx.memories.propose(facts, proposer="a")
    ctx.memories.commit(batch.id, reviewer="b")
    return ctx


def prompt(ctx: Context, counter: str, **options: Any) -> Prompt | None:
    session = ctx.sessions.open("s", tokenizer=TOKENIZERS[counter])
    try:
        return ctx.prompt(session=session, run="r", system="You watch tides.", tools=TOOLS, **options)
    except BudgetExceeded:
        return None


def held(made: Prompt) -> set[tuple[str, str]]:
    """Return all that stands in a prompt. What was said is what was said, word for word or quoted."""
    names = {"earlier": "conversation"}
    return {(names.get(part.name, part.name), id) for part in made.receipt.parts for id in part.ids}


def counted(made: Prompt, counter: Tokenizer) -> int:
    sent = sum(count_sent(message, counter) for message in made.messages)
    return sent + count_system(made.system, counter) + count_tools(made.tools, counter)


CASES = {"history": histories(), "format": st.sampled_from(FORMATS), "counter": st.sampled_from([*TOKENIZERS])}


@settings(max_examples=HISTORIES)
@given(budget=st.integers(0, 1500), **CASES)
def test_what_is_sent_fits_and_no_provider_refuses_it(
    history: list[dict[str, Any]], format: Any, counter: str, budget: int
) -> None:
    with begun(history, counter) as ctx:
        made = prompt(ctx, counter, max_tokens=budget, format=format)
        if made is not None:
            assert made.total_tokens == counted(made, TOKENIZERS[counter]) <= budget
            spent = [part.tokens for part in made.receipt.parts]
            assert sum(spent) == made.total_tokens
            assert min(spent) >= 0
            assert broken(format, made.messages, made.system) == []


@settings(max_examples=HISTORIES)
@given(budget=st.integers(30, 1200), more=st.integers(1, 200), **CASES)
def test_a_larger_budget_never_loses_anything(
    history: list[dict[str, Any]], format: Any, counter: str, budget: int, more: int
) -> None:
    with begun(history, counter) as ctx:
        small = prompt(ctx, counter, max_tokens=budget, format=format)
        large = prompt(ctx, counter, max_tokens=budget + more, format=format)
        if small is not None:
            assert large is not None
            assert held(small) <= held(large)


@settings(max_examples=HISTORIES // 2)
@given(budget=st.integers(100, 1200), **CASES)
def test_the_same_input_gives_the_same_bytes(
    history: list[dict[str, Any]], format: Any, counter: str, budget: int
) -> None:
    with begun(history, counter) as ctx:
        first, again = (prompt(ctx, counter, max_tokens=budget, format=format) for _ in range(2))
        assert msgspec.json.encode(first) == msgspec.json.encode(again)


@settings(max_examples=HISTORIES // 2)
@given(history=histories(), counter=st.sampled_from([*TOKENIZERS]), budget=st.integers(100, 1200))
def test_every_message_is_in_the_prompt_or_said_to_be_left_out(
    history: list[dict[str, Any]], counter: str, budget: int
) -> None:
    with begun(history, counter) as ctx:
        made = prompt(ctx, counter, max_tokens=budget)
        if made is not None:
            parts = {part.name: part.ids for part in made.receipt.parts}
            left = [one.count for one in made.receipt.left_out if one.part == "conversation"]
            assert len(parts.get("conversation", ())) + sum(left) == len(history)
