"""Windows, as properties over any conversation: within the budget, in pairs, the longest that fits, ever growing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.errors import BudgetExceeded
from strongroom.tokens import Custom, Window, count_message, fit
from strongroom.tokens.choosing import STRATEGIES, Item, Strategy, newest_run
from strongroom.tokens.messages import answers, calls

EXAMPLES = settings(max_examples=int(os.environ.get("STRONGROOM_EXAMPLES", "30")))
LETTERS = Custom(len, name="letters")
CONTIGUOUS = ["truncate_oldest", "recent_only"]
BUDGET = st.integers(0, 400)

IDS = st.sampled_from(["c1", "c2", "c3"])
TEXT = st.text("abc ", max_size=12)
MESSAGE: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": TEXT}),
    st.fixed_dictionaries({"role": st.just("user"), "content": TEXT, "priority": st.integers(0, 9)}),
    st.fixed_dictionaries({"role": st.just("system"), "content": TEXT}),
    st.fixed_dictionaries({"role": st.just("user"), "content": TEXT, "pinned": st.booleans()}),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": st.none(),
            "tool_calls": st.lists(IDS, min_size=1, max_size=2, unique=True).map(
                lambda ids: [{"id": one, "function": {"name": "f", "arguments": "{}"}} for one in ids]
            ),
        },
        optional={"pinned": st.booleans()},
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "content": TEXT, "tool_call_id": IDS}, optional={"pinned": st.booleans()}
    ),
)
MESSAGES = st.lists(MESSAGE, max_size=14)


def window(messages: Sequence[Mapping[str, Any]], budget: int, strategy: Any) -> Window | None:
    """The window, or None if it says that it cannot be."""
    try:
        return fit(messages, budget, strategy, LETTERS, query="abc a", summarizer=lambda older: f"{len(older)} older")
    except BudgetExceeded:
        return None


def orphans(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The answers whose call does not stand before them."""
    seen: set[str] = set()
    missing: list[str] = []
    for message in messages:
        missing += [one for one in answers(message) if one not in seen]
        seen |= calls(message)
    return missing


@pytest.mark.parametrize("strategy", STRATEGIES)
@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET)
def test_a_window_never_exceeds_its_budget_and_counts_right(
    strategy: str, messages: list[dict[str, Any]], budget: int
) -> None:
    made = window(messages, budget, strategy)
    if made is not None:
        assert made.total_tokens == sum(count_message(message, LETTERS) for message in made.messages) <= budget


@pytest.mark.parametrize("strategy", STRATEGIES)
@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET)
def test_the_receipt_accounts_for_every_message_once(
    strategy: str, messages: list[dict[str, Any]], budget: int
) -> None:
    made = window(messages, budget, strategy)
    if made is not None:
        receipt = made.receipt
        assert (
            len(receipt.kept) + sum(out.count for out in receipt.left_out) == len(messages) == receipt.messages_before
        )
        assert receipt.tokens_before == sum(count_message(message, LETTERS) for message in messages)
        assert receipt.tokens_after == made.total_tokens
        assert list(receipt.kept) == sorted(receipt.kept)


@pytest.mark.parametrize("strategy", STRATEGIES)
@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET)
def test_a_tool_call_and_its_answer_are_never_split(strategy: str, messages: list[dict[str, Any]], budget: int) -> None:
    made = window(messages, budget, strategy)
    if made is not None and made.receipt.left_out:
        assert not orphans(made.messages)


def test_the_check_for_split_pairs_notices_one() -> None:
    assert orphans([{"role": "tool", "tool_call_id": "c1", "content": "x"}]) == ["c1"]


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "summarize_oldest"])
@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET, more=st.integers(1, 60))
def test_a_larger_budget_only_adds_messages(
    strategy: str, messages: list[dict[str, Any]], budget: int, more: int
) -> None:
    small, large = window(messages, budget, strategy), window(messages, budget + more, strategy)
    if small is not None:
        assert large is not None
        assert set(small.receipt.kept) <= set(large.receipt.kept)


@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET)
def test_the_same_window_is_made_twice(messages: list[dict[str, Any]], budget: int) -> None:
    for strategy in STRATEGIES:
        assert window(messages, budget, strategy) == window(messages, budget, strategy)


@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET)
def test_system_messages_and_pins_are_in_every_window(messages: list[dict[str, Any]], budget: int) -> None:
    for strategy in STRATEGIES:
        made = window(messages, budget, strategy)
        if made is not None:
            kept = [m for m in messages if m["role"] == "system" or (m.get("pinned") is True and not answers(m))]
            assert len(made.messages) >= len(kept)
            assert all(message in made.messages for message in kept)


@EXAMPLES
@given(
    items=st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "call", "answer"]), IDS), max_size=12),
    room=st.integers(0, 40),
)
@example(items=[(1, "answer", "c1")], room=5)
def test_the_newest_run_is_the_longest_that_fits(items: list[tuple[int, str, str]], room: int) -> None:
    """Compared with trying every start."""
    history = [
        Item(
            place,
            tokens,
            calls=frozenset([one]) if kind == "call" else frozenset(),
            answers=frozenset([one]) if kind == "answer" else frozenset(),
        )
        for place, (tokens, kind, one) in enumerate(items)
    ]

    def allowed(start: int) -> bool:
        waiting: set[str] = set()
        for one in reversed(history[start:]):
            waiting = (waiting - one.calls) | one.answers
        return sum(one.tokens for one in history[start:]) <= room and not waiting

    best = next(start for start in range(len(history) + 1) if allowed(start))
    assert newest_run(history, frozenset(), room) == best


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "relevant"])
@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET, cuts=st.lists(st.integers(0, 13), max_size=2), odd=st.booleans())
def test_a_session_decides_as_a_plain_list_does(
    strategy: Strategy, messages: list[Any], budget: int, cuts: list[int], odd: bool
) -> None:
    """Though it reads only what may fit, and some of its history may be hidden or filtered."""

    def where(message: Mapping[str, Any]) -> bool:
        return not odd or len(str(message["content"])) % 2 == 1

    def summarizer(older: list[dict[str, Any]]) -> str:
        return f"{len(older)} older"

    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s", tokenizer=LETTERS)
        session.append([{"role": "user", "content": "to be hidden", "priority": 9, "pinned": True}] * 3)
        session.replace([])
        session.append(messages)
        for cut in cuts:
            loaded = session.load()
            if cut < len(loaded):
                session.truncate_from(loaded[cut].id)
                session.append(messages[cut:])
        loaded = session.load()
        options: dict[str, Any] = {"where": where if odd else None, "summarizer": summarizer}
        try:
            expected = fit(loaded, budget, strategy, LETTERS, **options)
        except BudgetExceeded as problem:
            with pytest.raises(BudgetExceeded) as refused:
                session.window(max_tokens=budget, strategy=strategy, **options)
            assert refused.value.limit == problem.limit
            return
        made = session.window(max_tokens=budget, strategy=strategy, **options)
        assert made.messages == expected.messages
        assert made.total_tokens == expected.total_tokens
        assert made.receipt.messages_before == expected.receipt.messages_before
        if made.receipt.tokens_before_exact:
            assert made.receipt.tokens_before == expected.receipt.tokens_before


def unanswered(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The calls that no answer stands behind."""
    waiting: list[str] = []
    for message in messages:
        for one in answers(message):
            if one in waiting:
                waiting.remove(one)
        waiting += calls(message)
    return waiting


@pytest.mark.parametrize("strategy", STRATEGIES)
@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET, cut=st.integers(0, 12))
def test_no_window_holds_half_a_tool_call_unless_it_is_pinned(
    strategy: str, messages: list[dict[str, Any]], budget: int, cut: int
) -> None:
    history = [{key: value for key, value in one.items() if key != "pinned"} for one in messages[cut:]]
    made = window(history, budget, strategy)
    if made is not None:
        assert not orphans(made.messages)
        assert not unanswered(made.messages)


@EXAMPLES
@given(messages=MESSAGES, budget=BUDGET)
def test_a_window_starts_with_the_role_it_was_asked_to(messages: list[dict[str, Any]], budget: int) -> None:
    history = [{key: value for key, value in one.items() if key != "pinned"} for one in messages]
    try:
        made = fit(history, budget, tokenizer=LETTERS, starts_with="user", keep_roles=())
    except BudgetExceeded:
        return
    assert [one["role"] for one in made.messages[:1]] in ([], ["user"])
    assert not orphans(made.messages) and not unanswered(made.messages)
