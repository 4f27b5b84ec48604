"""Searching by meaning: vectors follow the memories, are never mixed, and never needed for the rest to work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.embedders import Embedder
from strongroom.errors import InvalidInput, Unavailable
from strongroom.store import Key, Scan
from strongroom.vectors.local import LocalVectors
from strongroom.vectors.qdrant import QdrantMemories
from tests.hashed import hashed, hashing
from tests.services.memory_samples import known, mcr, settled, using

FACTS = [mcr("Deploys happen on Friday"), mcr("The office is in Lyon"), mcr("Lunch is served at noon")]
INDEXES: dict[str, Callable[[], Any]] = {
    "exact": LocalVectors,
    "graph": lambda: LocalVectors(exact_up_to=0),
    "qdrant": lambda: QdrantMemories(":memory:"),
}


async def found(memories: Any, query: str, mode: str = "vector", **filters: Any) -> list[str]:
    return [hit.memory.content for hit in await memories.search(query, mode=mode, **filters)]


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("mode", ["vector", "hybrid"])
async def test_the_nearest_memory_comes_first(ctx: Any, kind: str, mode: str) -> None:
    await known(ctx, *FACTS)
    memories = await using(ctx.memories, embedder=hashing(), index=INDEXES[kind]())
    [first, *_] = await memories.search("where is the office", mode=mode)
    assert first.memory.content == "The office is in Lyon"
    assert "meaning (" in first.why


@pytest.mark.parametrize("kind", INDEXES)
async def test_what_is_no_longer_active_is_not_found_by_meaning(ctx: Any, kind: str) -> None:
    memories = await using(ctx.memories, embedder=hashing(), index=INDEXES[kind]())
    ids = (await known(ctx, *FACTS, mcr("Fish on Friday", source_refs=["feed"]))).memory_ids
    assert len(await found(memories, "friday office lunch fish")) == 4
    await known(
        ctx,
        mcr("Deploys happen on Monday", op="supersede", supersedes=[ids[0]]),
        mcr("no office", op="deprecate", target_memory_id=ids[1]),
    )
    await ctx.memories.revoke(source_ref="feed")
    assert set(await found(memories, "friday office lunch deploys fish")) == {
        "Deploys happen on Monday",
        "Lunch is served at noon",
    }


@pytest.mark.parametrize("kind", INDEXES)
async def test_a_search_by_meaning_sees_only_what_it_names(ctx: Any, kind: str) -> None:
    memories = await using(ctx.memories, embedder=hashing(), index=INDEXES[kind]())
    await known(ctx, mcr("tea for all"), mcr("tea for one", scope="user", user_id="u1"))
    assert await found(memories, "tea for one") == ["tea for all"]
    assert set(await found(memories, "tea for one", user_id="u1")) == {"tea for all", "tea for one"}
    assert await found(memories, "tea for one", user_id="u1", scope="user") == ["tea for one"]


async def test_a_stale_index_cannot_show_what_the_store_no_longer_has(ctx: Any) -> None:
    index = Lagging()
    memories = await using(ctx.memories, embedder=hashing(), index=index)
    [id, *_] = (await known(ctx, *FACTS)).memory_ids
    assert "Deploys happen on Friday" in await found(memories, "deploys friday")
    index.lags = True
    await known(ctx, mcr("no more", op="deprecate", target_memory_id=id))
    assert "Deploys happen on Friday" not in await found(memories, "deploys friday")


class Lagging(LocalVectors):
    """An index that stops following when it is told to."""

    lags = False

    def apply(self, space: str, start: int, stop: int, rows: Any, removed: Any) -> None:
        super().apply(space, start, stop, () if self.lags else rows, () if self.lags else removed)


async def test_a_text_is_embedded_once_whoever_asks(ctx: Any) -> None:
    asked: list[str] = []

    def counted(texts: list[str]) -> Any:
        asked.extend(texts)
        return hashed(texts)

    await known(ctx, *FACTS)
    for _ in range(3):
        embedder = Embedder(counted, name="hashed", dimension=64, query=hashed)
        await found(await using(ctx.memories, embedder=embedder), "office")
    assert sorted(asked) == sorted(fact["content"] for fact in FACTS)


@pytest.mark.parametrize(
    ("facts", "asked"),
    [(["Ana: I booked the ferry", "Ben: I booked it too"], "What booked?"), (["Ana booked"], "What Ana booked?")],
)
async def test_meaning_is_compared_without_the_names_of_who_speaks(ctx: Any, facts: list[str], asked: str) -> None:
    queries: list[str] = []

    def noted(texts: list[str]) -> Any:
        queries.extend(texts)
        return hashed(texts)

    await known(ctx, *map(mcr, facts))
    embedder = Embedder(hashed, name="hashed", dimension=64, query=noted)
    await found(await using(ctx.memories, embedder=embedder), "What Ana booked?", mode="hybrid")
    assert queries == [asked]


async def test_vectors_of_two_embedders_are_never_mixed(ctx: Any) -> None:
    await known(ctx, *FACTS)
    await found(await using(ctx.memories, embedder=hashing()), "office")
    for other in (hashing(revision="2"), hashing(32), hashing(name="other")):
        memories = await using(ctx.memories, embedder=other)
        for mode in ("vector", "hybrid"):
            with pytest.raises(InvalidInput, match="reembed"):
                await memories.search("office", mode=mode)
        assert await found(memories, "office", mode="lexical") == ["The office is in Lyon"]


@pytest.mark.parametrize("kind", INDEXES)
async def test_reembedding_changes_the_embedder_for_everything(ctx: Any, kind: str) -> None:
    await known(ctx, *FACTS)
    memories = await using(ctx.memories, embedder=hashing(), index=INDEXES[kind]())
    await found(memories, "office")
    steps: list[tuple[int, int]] = []
    assert await memories.reembed(hashing(32), progress=lambda done, total: steps.append((done, total))) == 3
    assert steps == [(3, 3)]
    assert (await found(memories, "office"))[0] == "The office is in Lyon"
    with pytest.raises(InvalidInput, match="reembed"):
        await found(await using(ctx.memories, embedder=hashing()), "office")


async def test_a_reembedding_that_its_index_refuses_says_that_part_of_it_is_done(ctx: Any) -> None:
    index = QdrantMemories(":memory:")
    index.open("another space", await hashing().fingerprint(threads=False))
    index.apply("another space", 0, 1, [], [])
    await known(ctx, *FACTS)
    memories = await using(ctx.memories, embedder=hashing(), index=index)
    await found(memories, "office")
    with pytest.raises(InvalidInput, match="part of it is done"):
        await memories.reembed(hashing(32))
    elsewhere = await using(ctx.memories, embedder=hashing(32), index=QdrantMemories(":memory:"))
    assert (await found(elsewhere, "office"))[0] == "The office is in Lyon"


async def test_an_interrupted_reembedding_goes_on_where_it_stopped(ctx: Any) -> None:
    for start in range(0, 300, 150):
        await known(ctx, *[mcr(f"fact number {n}") for n in range(start, start + 150)])
    memories = await using(ctx.memories, embedder=hashing())
    await found(memories, "fact")
    embedded: list[str] = []
    failing = True

    def fragile(texts: list[str]) -> Any:
        if failing and len(embedded) + len(texts) > 260:
            raise RuntimeError("power cut")
        embedded.extend(texts)
        return hashed(texts, 32)

    new = Embedder(fragile, name="new", dimension=32)
    with pytest.raises(Unavailable):
        await memories.reembed(new)
    assert await found(memories, "fact number 3")
    failing = False
    remembered = 256
    assert await memories.reembed(new) == 300 - remembered
    assert await found(memories, "fact number 3")


async def test_reembedding_drops_the_old_vectors(ctx: Any) -> None:
    await known(ctx, *FACTS)
    memories = await using(ctx.memories, embedder=hashing())
    await found(memories, "office")
    await memories.reembed(hashing(32))
    [page] = await settled(ctx.store.read([Scan("default", "embedding")]))
    assert len(page.documents) == 3


async def test_when_the_embedder_is_down_words_decide_and_the_result_says_so(ctx: Any) -> None:
    def down(texts: list[str]) -> Any:
        raise ConnectionError("no route to host")

    await known(ctx, *FACTS)
    memories = await using(ctx.memories, embedder=Embedder(down, name="down", dimension=8))
    hits = await memories.search("office")
    assert [hit.memory.content for hit in hits] == ["The office is in Lyon"]
    assert "no route to host" in hits.degraded
    both = await memories.search("office", rerank=lambda query, texts: [])
    assert "no route to host" in both.degraded and "not reranked: " in both.degraded
    with pytest.raises(Unavailable):
        await memories.search("office", mode="vector")


NONSENSE: list[Any] = [[[float("nan"), 1.0]], [[1.0]], [], None, [["a", "b"]]]


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_an_embedder_that_begins_to_answer_nonsense_counts_as_down(nonsense: Any) -> None:
    answers: list[Any] = []
    embedder = Embedder(lambda texts: answers[0] if answers else [[1.0, 2.0]] * len(texts), name="svc")
    async with strongroom.aopen("memory://", embedder=embedder) as ctx:
        await ctx.memories.add("likes tea", user_id="u1")
        session = await ctx.sessions.open("s", user_id="u1")
        await session.append({"role": "user", "content": "Which tea?"})
        await session.search("tea")
        answers.append(nonsense)
        for hits in (await ctx.memories.search("tea", user_id="u1"), await session.search("tea")):
            assert len(hits) == 1 and "no vectors, words alone decided" in str(hits.degraded)
        with pytest.raises(Unavailable):
            await ctx.memories.search("tea", user_id="u1", mode="vector")
        await ctx.prompt(session=session, max_tokens=500)
        assert ctx.embedder is not None and ctx.embedder.health.failing is not None


async def test_an_erasure_that_is_done_does_not_fail_because_another_embedder_is_in_charge(tmp_path: Path) -> None:
    address = tmp_path / "agent.db"
    async with strongroom.aopen(address, embedder=hashing(name="old")) as ctx, strongroom.aopen(address) as other:
        for user in ("u1", "u2"):
            await ctx.memories.add("likes tea", user_id=user)
        await ctx.memories.index()
        await other.memories.reembed(hashing(name="new"))
        erased = await ctx.memories.erase(user_id="u1", commit_id="e1")
        assert (len(erased.memories), erased.complete) == (1, False)
        for _ in range(2):
            person = await ctx.erase(user_id="u2", commit_id="e2")
            assert len(person.memories) == 1
            assert "has not dropped them yet" in str(person.pending)


async def test_when_qdrant_is_down_writes_commit_and_the_index_catches_up(ctx: Any) -> None:
    index = QdrantMemories(":memory:")
    memories = await using(ctx.memories, embedder=hashing(), index=index)
    await known(ctx, FACTS[0])
    await found(memories, "deploys")
    client, index._client = index._client, Down()
    await known(ctx, FACTS[1])
    hits = await memories.search("office")
    assert [hit.memory.content for hit in hits] == ["The office is in Lyon"]
    assert "no route to host" in hits.degraded
    index._client = client
    hits = await memories.search("office")
    assert hits.degraded is None
    assert "meaning (" in hits[0].why


class Down:
    def __getattr__(self, name: str) -> Any:
        raise ConnectionError("no route to host")


async def test_an_index_can_be_brought_up_to_date_ahead_of_a_search(ctx: Any) -> None:
    memories = await using(ctx.memories, embedder=hashing())
    await known(ctx, *FACTS)
    assert await memories.index() > 0
    assert await memories.index() == 0


async def test_vectors_need_an_embedder(ctx: Any) -> None:
    with pytest.raises(InvalidInput, match="embedder"):
        await ctx.memories.index()


async def test_equal_texts_of_two_owners_tie_and_are_ordered_by_id(ctx: Any) -> None:
    requests = [mcr("tea at four", memory_id=f"mem_{n}", scope="user", user_id="u1") for n in (2,)]
    requests += [
        mcr("tea at four", memory_id="mem_1"),
        mcr("tea at four", memory_id="mem_3", scope="project", project_id="p1"),
    ]
    await known(ctx, *requests)
    memories = await using(ctx.memories, embedder=hashing())
    for mode in ("lexical", "vector", "hybrid"):
        hits = await memories.search("tea at four", mode=mode, user_id="u1", project_id="p1")
        assert [hit.memory.id for hit in hits] == ["mem_1", "mem_2", "mem_3"]


async def test_an_async_embedder_is_refused_by_the_blocking_api_and_used_by_the_other(ctx: Any) -> None:
    async def embed(texts: list[str]) -> Any:
        return hashed(texts)

    await known(ctx, *FACTS)
    memories = await using(ctx.memories, embedder=Embedder(embed, name="async"))
    if type(ctx).__name__ == "AsyncContext":
        assert (await found(memories, "office"))[0] == "The office is in Lyon"
    else:
        with pytest.raises(InvalidInput, match="is async"):
            await memories.search("office")


async def test_a_vector_is_named_by_its_text_and_its_embedder(ctx: Any) -> None:
    await known(ctx, mcr("tea"), mcr("tea", scope="project", project_id="p1"))
    await found(await using(ctx.memories, embedder=hashing()), "tea")
    [page] = await settled(ctx.store.read([Scan("default", "embedding")]))
    [document] = page.documents
    assert document.key == Key("default", "embedding", document.key.id)
    assert len(document.key.id) == 64
