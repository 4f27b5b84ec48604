"""Work left over: embedding and counting anew ride on ordinary calls, fail without harm, and are never lost."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.bridge import can_search
from strongroom.embedders import Embedder
from strongroom.errors import Unavailable
from strongroom.services.sessions import state
from strongroom.services.sessions.state import COUNTED
from strongroom.services.sessions.vectors import BLOCK, SLICE
from strongroom.tokens import count_message
from strongroom.tokens.counting import Custom
from tests.hashed import hashed

WORDS = Custom(lambda text: len(text.split()), name="words")
LETTERS = Custom(len, name="letters")


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


def many(count: int, word: str = "turn") -> list[Any]:
    return said(*(f"{word} {place}" for place in range(count)))


class Model:
    """An embedder that notes what it was asked, and can be away."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failures = 0

    def __call__(self, texts: list[str]) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError("the model is away")
        self.asked += texts
        return hashed(texts)


async def embedding(ctx: Any, model: Model, name: str = "s") -> Any:
    sessions = ctx.sessions.using(embedder=Embedder(model, name="model", dimension=64))
    sessions = await sessions if inspect.isawaitable(sessions) else sessions
    return await sessions.open(name)


# ---- embedding ------------------------------------------------------------------------------------------------------


async def test_appends_embed_whenever_a_block_is_full(ctx: Any) -> None:
    model = Model()
    session = await embedding(ctx, model)
    await session.append(many(BLOCK - 1))
    assert model.asked == []
    assert (await session.backlog()).unembedded == BLOCK - 1
    await session.append(said("the last of the block"))
    assert len(model.asked) == BLOCK and model.asked[-1] == "the last of the block"
    await session.append(said("the first of the next"))
    assert len(model.asked) == BLOCK
    assert (await session.backlog()).unembedded == 1


async def test_without_an_embedder_nothing_waits_for_one(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(many(BLOCK))
    assert await session.wait() == 0
    backlog = await session.backlog()
    assert (backlog.unembedded, backlog.uncounted, backlog.failure) == (0, 0, None)


async def test_an_embedder_that_fails_twice_loses_nothing(ctx: Any) -> None:
    model = Model()
    model.failures = 2
    session = await embedding(ctx, model)
    stored = await session.append(many(BLOCK))
    assert len(stored) == BLOCK
    backlog = await session.backlog()
    assert backlog.unembedded == BLOCK and "the model is away" in str(backlog.failure)
    with pytest.raises(Unavailable, match="the model is away"):
        await session.wait()
    assert await session.wait() == BLOCK
    assert sorted(model.asked) == sorted(message["content"] for message in stored)
    backlog = await session.backlog()
    assert (backlog.unembedded, backlog.failure) == (0, None)


async def test_a_broken_embedder_is_not_asked_by_every_append(ctx: Any) -> None:
    model = Model()
    model.failures = 1000
    session = await embedding(ctx, model)
    await session.append(many(BLOCK))
    tried = model.failures
    for _ in range(5):
        await session.append(said("one more"))
    assert model.failures == tried
    await session.append(many(BLOCK))
    assert model.failures < tried


async def test_a_failure_is_tried_again_by_the_next_search(ctx: Any) -> None:
    if not can_search(ctx.store):
        pytest.skip("this store has no full-text index")
    model = Model()
    model.failures = 2
    session = await embedding(ctx, model)
    await session.append(many(BLOCK))
    assert "the model is away" in (await session.search("turn 7", k=1)).degraded
    hits = await session.search("turn 7", k=1)
    assert hits.degraded is None and "meaning" in hits[0].why
    assert (await session.backlog()).failure is None


async def test_one_call_embeds_only_so_many(ctx: Any) -> None:
    if not can_search(ctx.store):
        pytest.skip("this store has no full-text index")
    model = Model()
    session = await embedding(ctx, model)
    await session.append(many(2 * SLICE + 10))
    assert len(model.asked) == SLICE
    hits = await session.search("turn 7", k=3)
    assert len(model.asked) == 2 * SLICE + 1 and model.asked[-1] == "turn 7"
    assert hits.degraded == "10 messages have no vector yet; each search makes some, wait() all"
    assert (await session.search("turn 7", k=3)).degraded is None
    assert await session.wait() == 0


DYING = """
import os, sys
import strongroom
from strongroom.embedders import Embedder
from tests.hashed import hashed

calls = 0

def embed(texts):
    global calls
    calls += 1
    if calls > 3:
        os.kill(os.getpid(), 9)
    return hashed(texts)

with strongroom.open(sys.argv[1]) as ctx:
    sessions = ctx.sessions.using(embedder=Embedder(embed, name="model", dimension=64, batch_size=128))
    sessions.open("s").wait()
"""


def test_embedding_goes_on_where_a_process_died(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        stored = ctx.sessions.open("s").append(many(5 * BLOCK))
    died = subprocess.run([sys.executable, "-c", DYING, str(path)], cwd=Path(__file__).parents[2], check=False)
    assert died.returncode == -9
    model = Model()
    with strongroom.open(path) as ctx:
        session = ctx.sessions.using(embedder=Embedder(model, name="model", dimension=64)).open("s")
        assert session.backlog().unembedded == 2 * BLOCK
        assert session.wait() == 2 * BLOCK
        assert model.asked == [message["content"] for message in stored[3 * BLOCK :]]
        hits = session.search("turn", k=5 * BLOCK, mode="vector")
        assert sorted(hit.message.index for hit in hits if "meaning" in hit.why) == list(range(5 * BLOCK))


# ---- counting anew --------------------------------------------------------------------------------------------------


class Counter:
    """A tokenizer of words that tells how often it was asked."""

    name = "counter"
    approximate = False

    def __init__(self) -> None:
        self.asked = 0
        self.broken = ""

    def count(self, text: str) -> int:
        if self.broken and self.broken in text:
            raise ValueError("no such word")
        self.asked += 1
        return len(text.split())


async def grown(ctx: Any, count: int) -> None:
    session = await ctx.sessions.open("s", tokenizer=LETTERS)
    await session.append(many(count))


async def test_ordinary_calls_count_anew_a_block_at_a_time(ctx: Any) -> None:
    await grown(ctx, 2 * COUNTED + 1)
    counter = Counter()
    session = await ctx.sessions.open("s", tokenizer=counter)
    assert (await session.backlog()).uncounted == 2 * COUNTED + 1
    await session.load(k=1)
    assert (await session.backlog()).uncounted == COUNTED + 1
    await session.window(max_tokens=20)
    assert (await session.backlog()).uncounted == 1
    await session.append(said("x y"))
    assert (await session.backlog()).uncounted == 0


async def test_what_was_counted_anew_is_not_counted_again(ctx: Any) -> None:
    await grown(ctx, COUNTED + 10)
    counter = Counter()
    session = await ctx.sessions.open("s", tokenizer=counter)
    await session.wait()
    before = counter.asked
    expected = count_message(said("turn 1")[0], WORDS)
    assert {message.tokens for message in await session.load()} == {expected}
    assert {message.tokens for message in await session.page(limit=20)} == {expected}
    assert len((await session.window(max_tokens=10 * expected)).messages) == 10
    assert counter.asked == before


async def test_somebody_else_goes_on_counting_where_one_stopped(ctx: Any) -> None:
    await grown(ctx, 2 * COUNTED)
    await (await ctx.sessions.open("s", tokenizer=Counter())).load(k=1)
    counter = Counter()
    other = await ctx.sessions.open("s", tokenizer=counter)
    assert (await other.backlog()).uncounted == COUNTED
    await other.wait()
    assert counter.asked == 2 * COUNTED  # a role and a text for each of the other half
    assert (await other.backlog()).uncounted == 0


async def test_windows_are_right_before_anything_was_counted_anew(ctx: Any) -> None:
    await grown(ctx, COUNTED + 10)
    counter = Counter()
    session = await ctx.sessions.open("s", tokenizer=counter)
    each = count_message(said("turn 1")[0], WORDS)
    window = await session.window(max_tokens=each * (COUNTED + 10))
    assert len(window.messages) == COUNTED + 10
    assert window.total_tokens == each * (COUNTED + 10)


async def test_a_tokenizer_changed_back_gives_the_longest_window(ctx: Any) -> None:
    first = await ctx.sessions.open("s", tokenizer=WORDS)
    second = await ctx.sessions.open("s", tokenizer=LETTERS)
    await second.append(said(*["a long word such as counterrevolutionaries"] * 20))
    again = await ctx.sessions.open("s", tokenizer=WORDS)
    each = count_message((await again.load(k=1))[0], WORDS)
    assert len((await again.window(max_tokens=10 * each)).messages) == 10
    assert len((await first.window(max_tokens=10 * each)).messages) == 10


async def test_changing_twice_keeps_no_count_of_the_tokenizer_between(ctx: Any) -> None:
    await grown(ctx, 2 * COUNTED)
    await (await ctx.sessions.open("s", tokenizer=Counter())).load(k=1)
    session = await ctx.sessions.open("s", tokenizer=Custom(lambda text: 7, name="seven"))
    await session.wait()
    assert {message.tokens for message in await session.load()} == {3 + 7 + 7}


async def test_a_session_opened_anew_after_deletion_counts_its_own(ctx: Any) -> None:
    await grown(ctx, 10)
    session = await ctx.sessions.open("s", tokenizer=WORDS)
    await session.wait()
    await session.delete()
    await grown(ctx, 5)
    session = await ctx.sessions.open("s", tokenizer=WORDS)
    assert (await session.backlog()).uncounted == 5
    await session.wait()
    assert [message.tokens for message in await session.load()] == [count_message(said("turn 1")[0], WORDS)] * 5


async def test_a_tokenizer_that_fails_harms_no_call_it_rides_on(ctx: Any) -> None:
    await grown(ctx, 10)
    counter = Counter()
    counter.broken = "turn 3"
    session = await ctx.sessions.open("s", tokenizer=counter)
    assert len(await session.load(k=2)) == 2
    backlog = await session.backlog()
    assert (backlog.uncounted, backlog.failure) == (10, "ValueError: no such word")
    with pytest.raises(ValueError, match="no such word"):
        await session.wait()
    counter.broken = ""
    await session.load(k=2)
    backlog = await session.backlog()
    assert (backlog.uncounted, backlog.failure) == (0, None)


TOKENIZERS = [WORDS, LETTERS, Custom(lambda text: len(text) % 5, name="fifth")]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 2)),
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("stale append"), st.integers(1, 3)),
        st.tuples(st.just("load"), st.integers(1, 4)),
        st.tuples(st.just("cut"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(steps=steps)
def test_whatever_tokenizers_came_and_went_the_one_in_force_counts(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch, strongroom.open("memory://") as ctx:
        patch.setattr(state, "COUNTED", 3)
        session = stale = ctx.sessions.open("s", tokenizer=WORDS)
        force = WORDS
        for step, number in steps:
            if step == "change":
                stale, force = session, TOKENIZERS[number]
                session = ctx.sessions.open("s", tokenizer=force)
            elif step == "append":
                session.append(many(number, "some words and"))
            elif step == "stale append":
                stale.append(many(number, "counted by another:"))
            elif step == "load":
                session.load(k=number)
            elif step == "cut":
                stored = session.load()
                if number < len(stored):
                    session.truncate_from(stored[number].id)
            else:
                session.wait()
        everything = session.load()
        assert [message.tokens for message in everything] == [count_message(message, force) for message in everything]
        budget = sum(message.tokens for message in everything[-4:])
        assert session.window(max_tokens=budget).messages == everything[-4:]
