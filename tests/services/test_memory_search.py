"""Who sees what, in which order, and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strongroom.errors import InvalidInput
from strongroom.services.memories.ranking import LONGEST_ROW
from tests.services.memory_samples import contents, known, mcr

OWNED = [
    mcr("tea for everybody"),
    mcr("tea for u1", scope="user", user_id="u1"),
    mcr("tea for u2", scope="user", user_id="u2"),
    mcr("tea for p1", scope="project", project_id="p1"),
    mcr("tea for u1 in p1", scope="user", user_id="u1", project_id="p1"),
]


@pytest.mark.parametrize(
    ("filters", "seen"),
    [
        ({}, {"tea for everybody"}),
        ({"user_id": "u1"}, {"tea for everybody", "tea for u1"}),
        ({"user_id": "u3"}, {"tea for everybody"}),
        ({"project_id": "p1"}, {"tea for everybody", "tea for p1"}),
        ({"user_id": "u1", "project_id": "p1"}, {"tea for everybody", "tea for u1", "tea for p1", "tea for u1 in p1"}),
        ({"user_id": "u2", "project_id": "p1"}, {"tea for everybody", "tea for u2", "tea for p1"}),
        ({"user_id": "u1", "scope": "user"}, {"tea for u1"}),
        ({"scope": "global"}, {"tea for everybody"}),
    ],
)
async def test_a_search_sees_only_what_it_names(ctx: Any, filters: dict[str, str], seen: set[str]) -> None:
    await known(ctx, *OWNED)
    assert set(await contents(ctx, "tea", **filters)) == seen
    assert {memory.content for memory in await ctx.memories.list(**filters)} == seen


async def test_long_keys_with_the_same_beginning_are_not_found_for_each_other(ctx: Any) -> None:
    keys = [f"{'deadbeef' * 8}{number}" for number in range(2)]
    await known(ctx, *(mcr(key, source_refs=[key]) for key in keys))
    assert [await contents(ctx, key) for key in keys] == [[key] for key in keys]


async def test_results_are_narrowed_by_type_and_confidence(ctx: Any) -> None:
    await known(ctx, mcr("tea at four", confidence=0.5), mcr("tea at five", type="policy", confidence=0.9))
    assert await contents(ctx, "tea", type="policy") == ["tea at five"]
    assert await contents(ctx, "tea", min_confidence=0.9) == ["tea at five"]
    assert await contents(ctx, "tea", min_confidence=0.91) == []


@pytest.mark.parametrize(
    "filters",
    [
        {"usre_id": "u1"},
        {"scope": "users"},
        {"type": "rumour"},
        {"min_trust": "some"},
        {"min_confidence": 2},
        {"min_confidence": "high"},
        {"user_id": ""},
        {"user_id": 7},
    ],
)
async def test_a_filter_that_is_wrong_is_refused(ctx: Any, filters: dict[str, Any]) -> None:
    for search in (ctx.memories.search("tea", **filters), ctx.memories.list(**filters)):
        with pytest.raises(InvalidInput):
            await search


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": 2.5}, {"mode": "psychic"}, {"mode": "vector"}])
async def test_a_search_that_makes_no_sense_is_refused(ctx: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await ctx.memories.search("tea", **wrong)


async def test_a_query_without_a_common_word_finds_nothing(ctx: Any) -> None:
    await known(ctx, *OWNED)
    assert await contents(ctx, "zzz") == []
    assert await contents(ctx, "") == []
    assert await contents(ctx, "the of and") == []


async def test_the_better_answer_comes_first_and_says_why(ctx: Any) -> None:
    await known(ctx, mcr("The deployments happen on Friday"), mcr("Friday is fish day"), mcr("Lunch is at noon"))
    first, second = await ctx.memories.search("When are deployments, on Friday?")
    assert first.memory.content == "The deployments happen on Friday"
    assert first.why.startswith("words deployments, Friday (")
    assert first.score > second.score


async def test_equal_answers_come_in_order_of_their_ids(ctx: Any) -> None:
    names = ["mem_d", "mem_b", "mem_c", "mem_a"]
    await known(ctx, *[mcr("tea " + 2 * name[-1], memory_id=name) for name in names])
    assert [hit.memory.id for hit in await ctx.memories.search("tea")] == sorted(names)
    assert [hit.memory.id for hit in await ctx.memories.search("tea", k=2)] == ["mem_a", "mem_b"]


async def test_filters_do_not_starve_a_search(ctx: Any) -> None:
    """The one memory that fits is found behind many that do not."""
    await known(ctx, *[mcr(f"tea tea number {n}", confidence=0.1) for n in range(100)])
    await known(ctx, mcr("a long story that mentions tea once among many other things", confidence=0.9))
    await known(ctx, *[mcr(f"tea tea number {n}", confidence=0.1) for n in range(100, 200)])
    assert len(await contents(ctx, "tea", min_confidence=0.5)) == 1


async def test_hidden_characters_do_not_hide_a_word(ctx: Any) -> None:
    await known(ctx, mcr("the pass\u200bword rotates weekly"))
    assert len(await contents(ctx, "password")) == 1


async def test_without_an_embedder_a_hybrid_search_is_a_lexical_one(ctx: Any) -> None:
    await known(ctx, *OWNED)
    lexical = await ctx.memories.search("tea", mode="lexical")
    hybrid = await ctx.memories.search("tea")
    assert hybrid == lexical
    assert hybrid.degraded is None


async def test_a_query_is_text_whatever_it_looks_like(ctx: Any) -> None:
    await known(ctx, *OWNED)
    for query in ['"tea', "tea OR", "tea*", "NEAR(tea, 2)", "content:tea", "tea'; DROP TABLE head; --", "tea\x00"]:
        assert "tea for everybody" in await contents(ctx, query)


async def test_a_reranker_has_the_last_word_and_its_failure_is_told(ctx: Any) -> None:
    await known(ctx, mcr("tea at four"), mcr("tea at five o'clock sharp"))
    [first, _] = await ctx.memories.search("tea", rerank=lambda query, texts: [len(text) for text in texts])
    assert first.memory.content.endswith("sharp") and first.why.startswith("reranked (")
    hits = await ctx.memories.search("tea", rerank=lambda query, texts: [])
    assert len(hits) == 2 and hits.degraded.startswith("not reranked: ")


TOLD = ["Where did Ana spend the summer?", "In Lisbon, by the sea.", "Her bicycle was stolen.", "It was insured."]


async def test_what_was_learnt_beside_it_from_the_same_source_is_found_too(ctx: Any) -> None:
    await known(ctx, *[mcr(text, source_refs=["session:chat"]) for text in TOLD])
    await known(ctx, mcr("Nobody asked for this.", source_refs=["session:other"]))
    hits = await ctx.memories.search("where was the summer spent", k=2)
    assert [hit.content for hit in hits] == TOLD[:2]
    assert hits[1].why == "beside a memory that was found"


async def test_memories_without_a_source_stand_alone(ctx: Any) -> None:
    await known(ctx, *[mcr(text) for text in TOLD])
    assert await contents(ctx, "summer") == TOLD[:1]


async def test_what_others_learnt_from_the_same_source_helps_nobody(ctx: Any) -> None:
    whose = ["u1", "u2", "u1"]
    about = [
        mcr(text, source_refs=["session:chat"], scope="user", user_id=user)
        for text, user in zip(TOLD, whose, strict=False)
    ]
    await known(ctx, *about)
    assert set(await contents(ctx, "summer", user_id="u1")) == {TOLD[0], TOLD[2]}
    assert set(await contents(ctx, "Lisbon", user_id="u2")) == {TOLD[1]}


async def test_what_is_deleted_is_not_found_beside_others(ctx: Any) -> None:
    committed = await known(ctx, *[mcr(text, source_refs=["session:chat"]) for text in TOLD])
    await ctx.memories.delete(committed.memory_ids[1])
    assert TOLD[1] not in await contents(ctx, "summer")
    assert TOLD[2] in await contents(ctx, "summer")


async def test_of_a_source_a_bounded_number_of_memories_is_read(ctx: Any) -> None:
    more = [mcr(f"filler number {n}", source_refs=["session:chat"]) for n in range(LONGEST_ROW)]
    await known(ctx, *more[: LONGEST_ROW // 2])
    await known(ctx, *more[LONGEST_ROW // 2 :])
    await known(ctx, *[mcr(text, source_refs=["session:chat"]) for text in TOLD])
    assert await contents(ctx, "summer") == TOLD[:1]


async def test_a_question_of_when_favours_memories_that_tell_a_time(ctx: Any) -> None:
    await known(ctx, mcr("the boat arrived with tea"), mcr("the boat arrived yesterday"))
    assert (await contents(ctx, "When did the boat arrive?"))[0] == "the boat arrived yesterday"


async def test_i_and_you_ask_for_nobody_where_nobody_speaks(ctx: Any) -> None:
    await known(ctx, mcr("likes tea"), mcr("likes tea and cake"))
    for query in ("what tea do I like", "what tea do you like"):
        assert all("said by" not in hit.why for hit in await ctx.memories.search(query))
    assert await contents(ctx, "what tea do I like") == await contents(ctx, "what tea do you like")


async def test_what_is_of_the_day_that_is_asked_for_is_found_farther_away_than_neighbours_are(ctx: Any) -> None:
    for month in (3, 5):
        day = datetime(2023, month, 4, tzinfo=UTC)
        told = [*TOLD, "More of it.", "Nothing new."]
        await known(ctx, *[mcr(f"{text} {month}", source_refs=[f"s:{month}"], happened_at=day) for text in told])
    found = await contents(ctx, "the summer of 4 May 2023", k=12)
    assert "Nothing new. 5" in found and "Nothing new. 3" not in found


def diary(days: int, **more: Any) -> list[Any]:
    """One memory a day from the first of May 2023, told in another order."""
    first = datetime(2023, 5, 1, 10, tzinfo=UTC)
    return [
        mcr(f"entry{n}", happened_at=first + timedelta(n), **more)
        for n in sorted(range(days), key=lambda n: n * 7 % 10)
    ]


@pytest.mark.parametrize("asked", ["4 May 2023", "May 4th", "on the 4th of May, 2023"])
@pytest.mark.parametrize("source_refs", [[], ["s:diary"]])
async def test_a_day_that_is_named_is_found_without_a_word_in_common(ctx: Any, asked: str, source_refs: Any) -> None:
    await known(ctx, *diary(60, source_refs=source_refs))
    found = await ctx.memories.search(f"What happened {asked}?", 4)
    assert {hit.memory.content for hit in found} == {"entry3", "entry4", "entry5", "entry6"}
    assert found[0].memory.content == "entry3" and "of that time (1.0)" in found[0].why


async def test_a_month_that_is_named_is_found_without_a_word_in_common(ctx: Any) -> None:
    await known(ctx, *diary(60))
    assert set(await contents(ctx, "What happened in June 2023?", k=50)) == {f"entry{n}" for n in range(31, 60)}


async def test_a_day_of_which_nothing_is_known_finds_nothing(ctx: Any) -> None:
    await known(ctx, *diary(10))
    for asked in ("on 4 March 2023", "on 31 June 2023", "in December 2023", "in 2023"):
        assert await contents(ctx, f"What happened {asked}?") == []


async def test_a_day_is_looked_for_among_what_the_caller_may_see(ctx: Any) -> None:
    await known(ctx, *diary(5, scope="user", user_id="u1"))
    await known(ctx, *diary(5, scope="user", user_id="u2", tags=["home"]))
    asked = "What happened on 4 May 2023?"
    assert await contents(ctx, asked) == []
    assert {hit.memory.user_id for hit in await ctx.memories.search(asked, user_id="u1")} == {"u1"}
    assert await contents(ctx, asked, user_id="u1", tags=["home"]) == []
    assert await contents(ctx, asked, user_id="u2", tags=["home"]) == ["entry3", "entry4"]


@pytest.mark.parametrize("way", ["delete", "erase"])
async def test_what_is_gone_is_not_found_by_its_day(ctx: Any, way: str) -> None:
    committed = await known(ctx, mcr("entry", happened_at=datetime(2023, 5, 4, tzinfo=UTC)))
    assert await contents(ctx, "What happened on 4 May 2023?") == ["entry"]
    await getattr(ctx.memories, way)(memory_id=committed.memory_ids[0])
    assert await contents(ctx, "What happened on 4 May 2023?") == []


async def test_whoever_asks_for_hybrid_without_an_embedder_is_told_so(ctx: Any) -> None:
    await ctx.memories.add("Ana likes tea", user_id="ana")
    told = "no vectors, words alone decided: there is no embedder; pass one by ctx.memories.using(embedder=...)"
    for more, degraded in (({"mode": "hybrid"}, told), ({}, None), ({"mode": "lexical"}, None)):
        hits = await ctx.memories.search("tea", user_id="ana", **more)
        assert ([hit.content for hit in hits], hits.degraded) == (["Ana likes tea"], degraded)
