"""Windows of stored sessions: what is always in, what is counted, what is read, and what the receipt says."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.blocking import Context
from strongroom.bridge import Inline, can_search
from strongroom.context import AsyncContext
from strongroom.errors import BudgetExceeded, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.sessions import session as session_module
from strongroom.services.sessions import writes as session_writes
from strongroom.store import AnyQuestion, Slice
from strongroom.tokens import Custom, fit
from strongroom.tokens.choosing import MOST_TOKENS

WORDS = Custom(str.split, name="words")  # one token a word, so a message of n words costs n + 4


def said(*texts: str, **more: Any) -> list[Any]:
    return [{"role": "user", "content": text, **more} for text in texts]


def texts(window: Any) -> list[Any]:
    return [message["content"] for message in window.messages]


async def opened(ctx: Any, *messages: dict[str, Any]) -> Any:
    session = await ctx.sessions.open("s", tokenizer=WORDS)
    await session.append(messages)
    return session


class Counting(MemoryStore):
    """A store that counts what it hands out."""

    records = 0
    reads = 0

    def read(self, questions: Sequence[AnyQuestion]) -> list[Any]:
        answers = super().read(questions)
        self.reads += 1
        self.records += sum(len(one.records) for one in answers if isinstance(one, Slice))
        return answers


@pytest.mark.parametrize("length", [100, 5000])
def test_a_window_reads_what_it_returns_however_long_the_session(length: int) -> None:
    store = Counting()
    with Context(AsyncContext(Scope(Inline(store)))) as ctx:
        session = ctx.sessions.open("s", tokenizer=WORDS)
        session.append([{"role": "system", "content": "be brief"}, *said(*["some words"] * length)])
        store.records = store.reads = 0
        window = session.window(max_tokens=66)
    assert len(window.messages) == 11
    assert store.records <= len(window.messages) + 2  # the note of the system message, and room it takes up
    assert store.reads == 2


async def test_the_system_prompt_and_pins_survive_in_their_order(ctx: Any) -> None:
    session = await opened(ctx, {"role": "system", "content": "rules"}, *said("a", "b", "c", "d"))
    await session.pin((await session.load())[2].id)
    window = await session.window(max_tokens=20)
    assert texts(window) == ["rules", "b", "c", "d"]
    await session.unpin(window.messages[1].id)
    assert texts(await session.window(max_tokens=20)) == ["rules", "b", "c", "d"]
    await session.append(said("e"))
    assert texts(await session.window(max_tokens=20)) == ["rules", "c", "d", "e"]


async def test_a_message_that_says_so_is_pinned_when_it_is_written(ctx: Any) -> None:
    session = await opened(ctx, *said("keep me", pinned=True), *said("a", "b"))
    assert texts(await session.window(max_tokens=11)) == ["keep me", "b"]


async def test_kept_messages_that_do_not_fit_are_an_error_and_not_a_cut(ctx: Any) -> None:
    session = await opened(ctx, {"role": "system", "content": "a b c d e"}, *said("x"))
    with pytest.raises(BudgetExceeded) as problem:
        await session.window(max_tokens=8)
    assert (problem.value.needed, problem.value.limit) == (9, 8)
    assert texts(await session.window(max_tokens=8, keep_roles=())) == ["x"]


async def test_hidden_system_messages_do_not_come_back(ctx: Any) -> None:
    session = await opened(ctx, {"role": "system", "content": "old"}, *said("a"))
    await session.replace([{"role": "system", "content": "new"}, *said("b", "c")])
    assert texts(await session.window(max_tokens=11)) == ["new", "c"]
    await session.restore()
    assert texts(await session.window(max_tokens=17)) == ["old", "new", "c"]


async def test_the_newest_message_is_kept_or_it_is_an_error(ctx: Any) -> None:
    session = await opened(ctx, *said("a", "one two three four"))
    with pytest.raises(BudgetExceeded) as problem:
        await session.window(max_tokens=7, strategy="recent_only")
    assert problem.value.needed == 8
    assert texts(await session.window(max_tokens=8, strategy="recent_only")) == ["one two three four"]
    assert texts(await session.window(max_tokens=7)) == []


async def test_a_tool_call_is_not_sent_without_its_answer(ctx: Any) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "f"}}]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "found"}
    session = await opened(ctx, *said("a"), call, answer, *said("b"))
    small = await session.window(max_tokens=12)
    assert texts(small) == ["b"]
    assert [(out.reason, out.count) for out in small.receipt.left_out] == [("budget", 2), ("tool_pair", 1)]
    stored = await session.load()
    await session.pin(stored[2].id)
    assert (await session.info()).pinned == (1, 2)


async def test_filters_run_before_the_cut(ctx: Any) -> None:
    session = await opened(ctx, *said("keep one", "drop it", "keep two", "drop that"))
    window = await session.window(max_tokens=12, where=lambda message: message["content"].startswith("keep"))
    assert texts(window) == ["keep one", "keep two"]
    assert [(out.reason, out.count) for out in window.receipt.left_out] == [("filtered", 2)]


async def test_system_prompt_tools_and_reserve_are_counted_in(ctx: Any) -> None:
    session = await opened(ctx, *said("a", "b", "c"))
    window = await session.window(max_tokens=20, system="be brief", tools=[{"name": "a tool"}], reserve_tokens=2)
    assert window.messages == [{"role": "system", "content": "be brief"}, *said("b", "c")]
    assert window.total_tokens == 6 + 2 + 5 + 5
    assert (window.receipt.stable_prefix, window.receipt.stable_prefix_tokens) == (1, 6)
    with pytest.raises(BudgetExceeded):
        await session.window(max_tokens=9, system="be brief", tools=[{"name": "a tool"}], reserve_tokens=2)


async def test_a_receipt_tells_what_was_left_out(ctx: Any) -> None:
    session = await opened(ctx, {"role": "system", "content": "rules"}, *said("a", "b", "c", "d"))
    cut = (await session.window(max_tokens=15)).receipt
    assert cut.kept == (0, 3, 4)
    assert [(out.reason, out.count, out.first, out.last) for out in cut.left_out] == [("budget", 2, 1, 2)]
    assert (cut.messages_before, cut.tokens_before, cut.tokens_after) == (5, 25, 15)
    assert (cut.stable_prefix, cut.stable_prefix_tokens, cut.tokenizer) == (1, 5, "words")
    all_of_it = (await session.window(max_tokens=99)).receipt
    assert all_of_it.left_out == ()
    assert (all_of_it.tokens_before, all_of_it.tokens_before_exact, all_of_it.stable_prefix) == (25, True, 5)


async def test_priority_takes_the_newest_then_the_important_then_the_recent(ctx: Any) -> None:
    session = await opened(ctx, *said("low", priority=1), *said("high", priority=9), *said("a", "b", "c"))
    for budget, expected in [(5, ["c"]), (10, ["high", "c"]), (15, ["low", "high", "c"])]:
        assert texts(await session.window(max_tokens=budget, strategy="priority")) == expected
    assert texts(await session.window(max_tokens=20, strategy="priority")) == ["low", "high", "b", "c"]


async def test_relevant_puts_what_was_found_before_the_newest(ctx: Any) -> None:
    if not can_search(ctx.store):
        pytest.skip("this store has no full-text index")
    session = await opened(ctx, *said("my cat is called Minka"), *said(*["nothing of note"] * 20))
    window = await session.window(max_tokens=30, strategy="relevant", query="What is the name of the cat?")
    assert window.messages[0]["content"] == "my cat is called Minka"
    assert len(window.messages) == 3
    with pytest.raises(InvalidInput, match="query"):
        await session.window(max_tokens=30, strategy="relevant")


async def test_summaries_stand_for_the_oldest_and_are_made_once(ctx: Any) -> None:
    session = await opened(ctx, {"role": "system", "content": "rules"}, *said(*(f"turn {n}" for n in range(20))))
    asked: list[int] = []

    def summarizer(messages: list[dict[str, Any]]) -> str:
        asked.append(len(messages))
        return "they talked"

    first = await session.window(max_tokens=60, strategy="summarize_oldest", summarizer=summarizer)
    assert first.messages[0]["content"] == "rules"
    assert first.messages[1]["content"].endswith("they talked")
    assert [(out.reason, out.count) for out in first.receipt.left_out] == [("summarized", 14)]
    again = await session.window(max_tokens=60, strategy="summarize_oldest", summarizer=summarizer)
    assert (again.messages, asked) == (first.messages, [14])
    await session.append(said("turn 20"))
    await session.window(max_tokens=60, strategy="summarize_oldest", summarizer=summarizer)
    assert asked == [14, 2]  # the summary so far, and the one message that fell out
    assert len(await session.load()) == 22


async def test_a_summary_of_messages_that_are_hidden_now_is_not_used(ctx: Any) -> None:
    session = await opened(ctx, *said(*(f"turn {n}" for n in range(20))))
    made = iter(["of the first twenty", "of the others"])
    options: dict[str, Any] = {"strategy": "summarize_oldest", "summarizer": lambda messages: next(made)}
    await session.window(max_tokens=60, **options)
    await session.truncate_from((await session.load())[2].id)
    await session.append(said(*(f"other {n}" for n in range(20))))
    window = await session.window(max_tokens=60, **options)
    assert window.messages[0]["content"].endswith("of the others")


@pytest.mark.parametrize(
    ("summarizer", "reason"),
    [
        (None, "no_summarizer"),
        (lambda messages: 1 / 0, "summarizer_failed: ZeroDivisionError"),
        (lambda messages: "", "summarizer_failed"),
        (lambda messages: "word " * 99, "summary_too_long"),
        (lambda messages: messages, "summarizer_failed"),
    ],
)
def test_a_summarizer_that_fails_falls_back_and_says_why(summarizer: Any, reason: str) -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s", tokenizer=WORDS)
        session.append(said(*"abcdefghij"))
        options: dict[str, Any] = {"strategy": "summarize_oldest", "summarizer": summarizer}
        window = session.window(max_tokens=25, **options)
        plain = fit(session.load(), 25, tokenizer=WORDS, **options)
    for made in (window, plain):
        assert texts(made) == ["f", "g", "h", "i", "j"]
        assert made.receipt.fallback is not None and made.receipt.fallback.startswith(reason)


async def test_an_async_summarizer_is_awaited() -> None:
    async def summarizer(messages: list[dict[str, Any]]) -> str:
        return "awaited"

    async with strongroom.aopen("memory://") as ctx:
        session = await ctx.sessions.open("s", tokenizer=WORDS)
        await session.append(said(*"abcdefghijklmnop"))
        window = await session.window(max_tokens=60, strategy="summarize_oldest", summarizer=summarizer)
        assert window.messages[0]["content"].endswith("awaited")


def test_no_input_of_a_summarizer_is_larger_than_allowed() -> None:
    sizes: list[int] = []

    def summarizer(messages: list[dict[str, Any]]) -> str:
        sizes.append(sum(len(str(message["content"]).split()) + 4 for message in messages))
        return "short"

    messages = [*said("w " * 200), *said(*(f"turn {n}" for n in range(40)))]
    window = fit(messages, 60, "summarize_oldest", WORDS, summarizer=summarizer, input_tokens=50)
    assert len(sizes) > 1 and max(sizes) <= 50
    assert ("too_large_to_summarize", 1) in [(out.reason, out.count) for out in window.receipt.left_out]


def test_a_long_history_is_summarised_over_several_windows() -> None:
    calls = 0

    def summarizer(messages: list[dict[str, Any]]) -> str:
        nonlocal calls
        calls += 1
        return "short"

    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s", tokenizer=WORDS)
        session.append(said(*(f"turn {n}" for n in range(400))))
        options: dict[str, Any] = {"strategy": "summarize_oldest", "summarizer": summarizer, "input_tokens": 60}
        covered = []
        for _ in range(4):
            receipt = session.window(max_tokens=60, **options).receipt
            covered.append(next(out.count for out in receipt.left_out if out.reason == "summarized"))
            assert calls <= 16 * len(covered)
    assert covered[0] < covered[1] < covered[2] < covered[3] < 400


async def test_changing_the_tokenizer_counts_what_is_stored_anew(ctx: Any) -> None:
    session = await opened(ctx, *said("one two three", "four five six"))
    letters = Custom(len, name="letters")
    again = await ctx.sessions.open("s", tokenizer=letters)
    await again.append(said("seven"))
    assert [message.tokens for message in await again.load()] == [3 + 4 + 13, 3 + 4 + 13, 3 + 4 + 5]
    assert (await again.window(max_tokens=33)).total_tokens == 32
    assert texts(await again.window(max_tokens=31)) == ["seven"]
    # Whoever still holds the old tokenizer goes on counting with it, and is understood.
    await session.append(said("eight nine"))
    assert [message.tokens for message in await again.load(k=1)] == [3 + 4 + 10]
    assert (await again.info()).tokenizer == "letters"


async def test_a_session_counted_by_a_callable_asks_for_it(ctx: Any) -> None:
    await opened(ctx, *said("a"))
    stranger = await ctx.sessions.get("s")
    with pytest.raises(InvalidInput, match="'words'"):
        await stranger.append(said("b"))
    await stranger.rename("can be done without")
    await stranger.delete()


@pytest.mark.parametrize("options", [{"max_tokens": -1}, {"max_tokens": "9"}, {"max_tokens": 9, "strategy": "best"}])
def test_a_budget_or_strategy_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput):
        ctx.sessions.open("s").window(**options)


def test_a_budget_beyond_counting_is_refused_by_its_name_and_bound() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        session.append({"role": "user", "content": "hi"})
        refused = f"max_tokens must be a whole number from 0 to {MOST_TOKENS}, not {MOST_TOKENS + 1}"
        with pytest.raises(InvalidInput, match=refused):
            session.window(max_tokens=MOST_TOKENS + 1)
        with pytest.raises(InvalidInput, match=refused):
            ctx.prompt(session=session, max_tokens=MOST_TOKENS + 1)
        assert len(session.window(max_tokens=MOST_TOKENS).messages) == 1
        assert len(ctx.prompt(session=session, max_tokens=MOST_TOKENS).messages) == 1


def test_a_window_of_nothing_is_empty() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        for strategy in ("truncate_oldest", "recent_only", "priority", "summarize_oldest"):
            window = session.window(max_tokens=0, strategy=strategy)
            assert (window.messages, window.total_tokens, window.receipt.messages_before) == ([], 0, 0)


HALF: Any = {"role": "tool", "content": "of a call that is not there", "tool_call_id": "c1", "pinned": True}


def test_recent_only_asks_for_the_newest_message_that_can_be_sent() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s", tokenizer=WORDS)
        session.append([*said("too long to fit into this window at all"), HALF])
        with pytest.raises(BudgetExceeded):
            session.window(max_tokens=8, strategy="recent_only")


def test_half_a_tool_call_is_neither_sent_nor_summarized() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s", tokenizer=WORDS)
        prompt: Any = {"role": "system", "content": "Be brief."}
        session.append([HALF, prompt, *said(*["one two three four five"] * 20)])
        window = session.window(max_tokens=60, strategy="summarize_oldest", summarizer=lambda older: f"{len(older)}")
        older = 20 - len(window.messages[2:])
        assert window.messages[:2] == [
            prompt,
            {"role": "system", "content": f"Summary of the conversation so far:\n{older}"},
        ]


CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}


@pytest.mark.parametrize("budget", [1000, 40], ids=["all of it", "a part of it"])
async def test_a_call_that_a_crash_left_without_its_answer_is_left_out_and_that_is_said(ctx: Any, budget: int) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{"role": "user", "content": f"turn {n}"} for n in range(20)])
    await session.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
    window = await session.window(budget)
    assert window.messages[-1]["content"] == "turn 19"
    assert ("no_result", 1) in [(out.reason, out.count) for out in window.receipt.left_out]
    kept = await session.window(budget, dangling="keep")
    assert kept.messages[-1]["tool_calls"] == [CALL]


async def test_an_answer_whose_call_was_cut_away_is_left_out_and_that_is_said(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "user", "content": "hi"}])
    window = await session.window(1000)
    assert [dict(one) for one in window.messages] == [{"role": "user", "content": "hi"}]
    assert [(out.reason, out.count) for out in window.receipt.left_out] == [("no_call", 1)]


async def test_a_window_can_be_made_to_start_with_the_user(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append({"role": "system", "content": "rules"})
    await session.append([{"role": "assistant", "content": "hello"}, {"role": "user", "content": "hi"}])
    window = await session.window(1000, starts_with="user")
    assert [one.role for one in window.messages] == ["system", "user"]
    assert [(out.reason, out.count) for out in window.receipt.left_out] == [("starts_with", 1)]


@pytest.mark.parametrize("newest", ["some words", "word " * 500])
def test_a_window_of_a_session_that_is_deleted_meanwhile_is_refused(address: str, newest: str) -> None:
    with strongroom.open(address) as ctx:
        # Filters and tokenizers are called between the reads of a window.
        def where(message: Any) -> bool:
            delete()
            return False

        def split(text: str) -> list[str]:
            if text == "now":
                delete()
            return text.split()

        def delete() -> None:
            with contextlib.suppress(NotFound):
                ctx.sessions.delete("s")

        session = ctx.sessions.open("s", tokenizer=Custom(split, name="words"))
        session.append(said(*["some words"] * 300, newest))
        with pytest.raises(NotFound, match="no session"):
            session.window(max_tokens=100, **({"system": "now"} if len(newest) > 100 else {"where": where}))


@pytest.mark.parametrize("strategy", ["truncate_oldest", "priority"])
@pytest.mark.parametrize("more", [{"role": "system"}, {"pinned": True}, {"priority": 9}])
def test_a_window_reads_no_history_for_an_erased_message_that_it_would_keep(strategy: Any, more: Any) -> None:
    store = Counting()
    with Context(AsyncContext(Scope(Inline(store)))) as ctx:
        session = ctx.sessions.open("s", tokenizer=WORDS)
        kept: Any = {"role": "user", "content": "be brief", **more}
        [first] = session.append(kept)
        session.append(said(*["some words"] * 2000))
        session.erase([first.id])
        store.records = 0
        window = session.window(max_tokens=66, strategy=strategy)
    assert len(window.messages) == 11
    assert store.records <= 30


async def test_a_kept_message_that_landed_later_than_noted_is_found_beside_erased_ones(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(ctx, *said("first", "second"))
    real: Any = session_writes.appending
    # Somebody else's message lands between the look and the commit: notes name a place that is one too early.
    monkeypatch.setattr(session_module, "appending", lambda *given: real(*given[:5], given[5] - 1, given[6]))
    rules = [{"role": "system", "content": f"rule {n}"} for n in range(3)]
    stored = await session.append(rules)
    monkeypatch.undo()
    await session.erase([stored[0].id])
    await session.append(said(*["some words"] * 100))
    assert texts(await session.window(max_tokens=30))[:2] == ["rule 1", "rule 2"]


def test_one_message_fits_as_a_list_of_it_does() -> None:
    message = {"role": "user", "content": "one two"}
    assert fit(message, 100).messages == fit([message], 100).messages == [message]
    assert fit(message, 100, where=lambda one: False).messages == []
