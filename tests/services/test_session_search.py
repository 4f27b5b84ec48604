"""Searching sessions: found at once, never after it is gone, neighbours help each other."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from strongroom.embedders import Embedder
from strongroom.errors import InvalidInput, Unavailable
from tests.hashed import hashed

TALK = [
    {"role": "user", "content": "Where did you spend your summer?"},
    {"role": "assistant", "content": "In Lisbon, by the sea."},
    {"role": "user", "content": "I bought a bicycle yesterday."},
    {"role": "assistant", "content": [{"type": "text", "text": "Congratulations on the new bicycle!"}]},
    {"role": "user", "content": "Let us talk about the weather."},
    {"role": "assistant", "content": "It is raining."},
]


async def opened(ctx: Any, name: str = "s") -> Any:
    session = await ctx.sessions.open(name)
    await session.append(TALK)
    return session


async def test_what_was_just_written_is_found(ctx: Any) -> None:
    session = await opened(ctx)
    assert await session.search("elephant") == []
    (stored,) = await session.append({"role": "user", "content": "An elephant walks by."})
    hits = await session.search("elephants walking", k=1)
    assert [(hit.message_id, hit.message["content"], hit.session_id) for hit in hits] == [
        (stored.id, "An elephant walks by.", "s")
    ]
    assert hits[0].score > 0 and hits[0].why.startswith("words")


async def test_text_parts_are_found(ctx: Any) -> None:
    session = await opened(ctx)
    assert TALK[3] in [hit.message for hit in await session.search("congratulations", k=2)]


async def test_an_answer_is_found_beside_the_words_of_its_question(ctx: Any) -> None:
    session = await opened(ctx)
    hits = await session.search("where was the summer spent", k=2)
    found = {hit.message["content"]: hit.why for hit in hits}
    assert found.keys() == {"Where did you spend your summer?", "In Lisbon, by the sea."}
    assert found["In Lisbon, by the sea."] == "beside a message that was found"


async def test_what_is_hidden_or_deleted_is_never_found(ctx: Any) -> None:
    session = await opened(ctx)
    other = await opened(ctx, "other")
    stored = await session.load()
    await session.truncate_from(stored[2].id)
    assert await session.search("bicycle") == []
    await session.restore()
    assert len(await session.search("bicycle", k=1)) == 1
    await other.delete()
    assert {hit.session_id for hit in await ctx.sessions.search("bicycle")} == {"s"}


async def test_a_search_spans_the_sessions_of_a_space(ctx: Any) -> None:
    await opened(ctx, "one")
    two = await ctx.sessions.open("two")
    await two.append({"role": "user", "content": "A bicycle with three wheels is a tricycle."})
    assert {hit.session_id for hit in await ctx.sessions.search("bicycle", k=9)} == {"one", "two"}


async def test_k_limits_what_is_found(ctx: Any) -> None:
    session = await opened(ctx)
    assert len(await session.search("bicycle", k=1)) == 1
    for wrong in ({"query": 3}, {"query": "x", "mode": "best"}, {"query": "x", "mode": "vector"}):
        with pytest.raises(InvalidInput):
            await session.search(**wrong)


async def test_a_query_without_words_finds_nothing(ctx: Any) -> None:
    session = await opened(ctx)
    assert await session.search("?! ...") == []


SYNONYMS = {"automobile": "car", "vehicle": "car", "feline": "cat"}


def by_topic(texts: list[str]) -> Any:
    """An embedder that knows some synonyms."""
    return hashed([" ".join(SYNONYMS.get(word.strip("."), word.strip(".")) for word in text.split()) for text in texts])


async def test_with_an_embedder_meaning_counts_too(ctx: Any) -> None:
    sessions = ctx.sessions.using(embedder=Embedder(by_topic, name="topics"))
    sessions = await sessions if inspect.isawaitable(sessions) else sessions
    session = await sessions.open("s")
    await session.append([{"role": "user", "content": text} for text in ("my car", "other things", "more", "yet more")])
    assert await session.search("automobile", mode="lexical") == []
    hits = await session.search("automobile", k=1)
    assert [hit.message["content"] for hit in hits] == ["my car"]
    assert hits[0].why.startswith("meaning")
    assert [hit.message["content"] for hit in await sessions.search("vehicle", k=1, mode="vector")] == ["my car"]


async def test_each_message_is_embedded_once_by_each_embedder(ctx: Any) -> None:
    asked: list[str] = []

    def embed(texts: list[str]) -> Any:
        asked.extend(texts)
        return hashed(texts)

    for name in ("first", "second"):
        asked.clear()
        sessions = ctx.sessions.using(embedder=Embedder(embed, name=name, dimension=64))
        sessions = await sessions if inspect.isawaitable(sessions) else sessions
        session = await sessions.open("s")
        await session.append([{"role": "user", "content": f"{name} {n}"} for n in range(3)])
        assert await session.wait() == len(asked) == (3 if name == "first" else 6)
        assert await session.wait() == 0
        await session.search("first 1", k=1)
        assert asked[-1] == "first 1" and len(asked) == (4 if name == "first" else 7)


async def test_a_failing_embedder_is_told_of_and_nothing_is_lost(ctx: Any) -> None:
    broken = True

    def embed(texts: list[str]) -> Any:
        if broken:
            raise OSError("the model is away")
        return hashed(texts)

    sessions = ctx.sessions.using(embedder=Embedder(embed, name="shaky", dimension=64))
    sessions = await sessions if inspect.isawaitable(sessions) else sessions
    session = await sessions.open("s")
    await session.append({"role": "user", "content": "a bicycle"})
    hits = await session.search("bicycle")
    assert [hit.message["content"] for hit in hits] == ["a bicycle"]
    assert "the model is away" in hits.degraded
    with pytest.raises(Unavailable):
        await session.wait()
    broken = False
    assert await session.wait() == 1
    assert (await session.search("bicycle")).degraded is None


async def test_hidden_messages_are_not_found_by_meaning_either(ctx: Any) -> None:
    sessions = ctx.sessions.using(embedder=Embedder(by_topic, name="topics"))
    sessions = await sessions if inspect.isawaitable(sessions) else sessions
    session = await sessions.open("s")
    (stored,) = await session.append({"role": "user", "content": "my cat"})
    assert len(await session.search("feline")) == 1
    await session.truncate_from(stored.id)
    assert await session.search("feline") == []


async def test_a_query_of_very_many_words_is_answered_by_the_first_ones(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append({"role": "user", "content": "the harbour is closed"})
    hits = await session.search("harbour " + " ".join(f"{number:x}" for number in range(2_200)), mode="lexical")
    assert [hit.message["content"] for hit in hits] == ["the harbour is closed"]


CHAT = [
    {"role": "user", "content": "I am allergic to peanuts and I love hiking."},
    {"role": "assistant", "content": "Noted. For hiking I recommend the Samaria gorge."},
    {"role": "user", "content": "Which shoes for hiking?"},
    {"role": "assistant", "content": "Light boots are fine for hiking."},
    {"role": "user", "content": "I bought hiking boots in Chania."},
]


@pytest.mark.parametrize(
    ("query", "role"),
    [("what did I say about hiking", "user"), ("what did you recommend for hiking", "assistant"),
     ("what does the user think of hiking", "user"), ("what did the assistant say about hiking", "assistant"),
     ("what did I tell you about hiking", "user"), ("do you remember which hiking I love", "user")],
)  # fmt: skip
async def test_in_a_chat_a_question_favours_who_it_is_about(ctx: Any, query: str, role: str) -> None:
    session = await ctx.sessions.open("chat")
    await session.append(CHAT)
    assert (await session.search(query, k=1))[0].message["role"] == role


async def test_a_named_speaker_and_a_named_day_decide_between_equal_words(ctx: Any) -> None:
    session = await ctx.sessions.open("talk")
    await session.append(
        [
            {"role": "user", "name": name, "content": f"Yesterday was a run of {n} miles.", "timestamp": time}
            for n, (name, time) in enumerate(
                (who, when)
                for when in ("2023-05-07T10:00:00Z", "8:00 pm on 20 July, 2023")
                for who in ("Caroline", "Melanie")
            )
        ]
    )
    [first] = await session.search("How long was Melanie's run in July 2023?", k=1)
    assert first.message["content"] == "Yesterday was a run of 3 miles."
    assert "said by Melanie" in first.why and "of that time" in first.why


def diary(days: list[int]) -> list[Any]:
    return [
        {
            "role": "user",
            "name": "Ana",
            "content": f"entry{n}",
            "timestamp": f"2023-{1 + day // 28:02}-{1 + day % 28:02}",
        }
        for n, day in enumerate(days)
    ]


@pytest.mark.parametrize("asked", ["4 May 2023", "May 4th", "on the 4th of May, 2023"])
async def test_a_day_that_is_named_is_found_in_a_long_history_without_a_word_in_common(ctx: Any, asked: str) -> None:
    session = await ctx.sessions.open("diary")
    await session.append(diary([n // 3 for n in range(600)]))
    hits = await session.search(f"What happened {asked}?", k=3)
    assert sorted(hit.message["timestamp"] for hit in hits) == ["2023-05-04"] * 3
    assert all("of that time" in hit.why for hit in hits)


async def test_a_day_that_nobody_wrote_on_finds_nothing(ctx: Any) -> None:
    session = await ctx.sessions.open("diary")
    await session.append(diary([*range(20), *range(120, 140)]))
    assert await session.search("What happened on 4 March 2023?") == []


async def test_a_day_is_not_found_among_what_was_cut_away(ctx: Any) -> None:
    session = await ctx.sessions.open("diary")
    stored = await session.append(diary([n // 3 for n in range(60)]))
    await session.erase([stored[30].id, stored[31].id, stored[32].id])
    hits = await session.search("What happened on 11 January 2023?")
    assert not {stored[n].id for n in (30, 31, 32)} & {hit.message_id for hit in hits}


async def test_days_out_of_order_spoil_no_search(ctx: Any) -> None:
    session = await ctx.sessions.open("diary")
    await session.append(diary([n * 37 % 100 for n in range(100)]))
    [first, *_] = await session.search("entry40 of 25 March 2023", k=3)
    assert first.message["content"] == "entry40"


async def test_who_speaks_is_also_read_from_the_beginning_of_a_text(ctx: Any) -> None:
    session = await ctx.sessions.open("log")
    await session.append([{"role": "user", "content": f"{who}: the meeting is at noon"} for who in ("Ana", "Ben")])
    [first] = await session.search("when does Ben say the meeting is", k=1)
    assert first.message["content"].startswith("Ben")


async def test_a_reranker_has_the_last_word(ctx: Any) -> None:
    session = await opened(ctx)
    hits = await session.search("bicycle", k=2, rerank=lambda query, texts: [len(text) for text in texts])
    assert [len(hit.message.content) for hit in hits] != [] and hits[0].why.startswith("reranked (")
    assert hits[0].score >= hits[1].score and hits.degraded is None


@pytest.mark.parametrize("answer", [[], [float("nan")] * 50, None, ["x"] * 50])
async def test_a_reranker_that_fails_costs_the_reranking_and_nothing_else(ctx: Any, answer: Any) -> None:
    session = await opened(ctx)
    plain = await session.search("bicycle", k=2)
    hits = await session.search("bicycle", k=2, rerank=lambda query, texts: answer)
    assert list(hits) == list(plain) and hits.degraded.startswith("not reranked: ")


async def test_whoever_asks_for_hybrid_without_an_embedder_is_told_so(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append({"role": "user", "content": "I like tea"})
    told = "no vectors, words alone decided: there is no embedder; pass one by ctx.sessions.using(embedder=...)"
    for where in (session, ctx.sessions):
        for more, degraded in (({"mode": "hybrid"}, told), ({}, None), ({"mode": "lexical"}, None)):
            hits = await where.search("tea", **more)
            assert ([hit.message.content for hit in hits], hits.degraded) == (["I like tea"], degraded)
