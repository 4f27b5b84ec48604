"""A search on a server holds little at a time, and finds what it would find anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.codec import pack
from strongroom.context import AsyncContext
from strongroom.embedders import Embedder
from strongroom.scope import Scope
from strongroom.server.bounded import BoundedStore, fewer
from strongroom.services.memories import keys, vectors
from strongroom.services.memories.values import Revoked
from strongroom.services.sessions import vectors as session_vectors
from strongroom.store import Commit, Put, Scan, new_id
from tests.hashed import hashed, hashing
from tests.server.conftest import client
from tests.server.serving import Served, served
from tests.services.memory_samples import mcr

MOST = 100_000
PADDING = " ".join(["lorem ipsum dolor"] * 120)  # fifty memories of that are more than an answer may hold
POLICY = strongroom.Policy(auto_commit=frozenset({"importer"}), max_items=1000, max_content_chars=10 * MOST)
KINDS = pytest.mark.parametrize("store", ["searchable", "plain"])


class Plain:
    """A store without an index of words, as Redis is."""

    def __init__(self, store: Any) -> None:
        self.read, self.read_within, self.commit = store.read, store.read_within, store.commit
        self.wait, self.durability, self.close = store.wait, store.durability, store.close


def large(size: int) -> str:
    """Words that are so long together."""
    return "lorem " * (size // 6)


def bounded(store: str = "searchable", **more: Any) -> AsyncContext:
    """A context as a server has one."""
    inner: Any = OnLoop(MemoryStore())
    return AsyncContext(Scope(BoundedStore(Plain(inner) if store == "plain" else inner, MOST)), **more)


async def learn(ctx: AsyncContext, *contents: str, at_once: int = 20, **more: Any) -> None:
    memories = ctx.memories.using(policy=POLICY)
    for start in range(0, len(contents), at_once):
        part = contents[start : start + at_once]
        await memories.propose([mcr(content, **more) for content in part], proposer="importer")


async def asked(ctx: AsyncContext, query: str, k: int = 8, **more: Any) -> Any:
    """Search as an endpoint does."""
    return await fewer(k, MOST, lambda k: ctx.memories.search(query, k, **more))


async def under_way(ctx: AsyncContext, source: str) -> None:
    """Leave a revocation as a process leaves it that dies after its first commit."""
    revoked = Revoked(source_ref=source, by="", reason="", at=datetime.now(UTC), done=False)
    put = Put(keys.revocation_key(ctx.scope.space, source), pack(revoked), {"status": "open"})
    await ctx.scope.store.commit(Commit(new_id(), (), (put,)))


@KINDS
async def test_what_few_of_many_large_memories_fit_is_found_by_words(store: str) -> None:
    ctx = bounded(store)
    await learn(ctx, f"rocket policy {PADDING}", type="policy")
    await learn(ctx, *(f"rocket {number} {PADDING}" for number in range(200)))
    found = await asked(ctx, "rocket", type="policy")
    assert [hit.memory.type for hit in found] == ["policy"] and found.degraded is None


async def test_what_few_of_many_large_memories_fit_is_found_by_meaning() -> None:
    ctx = bounded(embedder=hashing())
    await learn(ctx, f"rocket policy {PADDING}", type="policy")
    await learn(ctx, *(f"rocket {number} {PADDING}" for number in range(200)))
    found = await asked(ctx, "rocket", mode="vector", type="policy")
    assert [hit.memory.type for hit in found] == ["policy"] and found.degraded is None


async def test_the_first_search_of_a_server_takes_in_all_that_is_known() -> None:
    known = bounded(embedder=hashing())
    await learn(known, *(f"fact {number} {PADDING}" for number in range(200)))
    await known.memories.index()
    new = AsyncContext(known.scope, embedder=hashing())
    found = await asked(new, "zebra fact", k=4)
    assert (len(found), found.degraded) == (4, None)
    assert (await new.memories.health()).waiting == 0


async def test_what_was_taken_in_before_a_failure_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(texts: list[str]) -> Any:
        if any("late" in text for text in texts):
            raise ConnectionError("away")
        return hashed(texts)

    monkeypatch.setattr(vectors, "CHUNK", 8)  # entries of the log are read at a time, and so many memories taken in
    ctx = bounded(embedder=Embedder(failing, name="failing", dimension=64))
    await learn(ctx, *(f"early {number}" for number in range(8)))
    await learn(ctx, *(f"late {number}" for number in range(8)))
    found = await asked(ctx, "early")
    assert len(found) == 8 and "words alone" in found.degraded
    assert (await ctx.memories.health()).waiting == 2


async def test_a_search_by_meaning_that_takes_too_much_goes_by_words() -> None:
    def greedy(texts: list[str]) -> Any:
        raise strongroom.BudgetExceeded("too much", limit=1, needed=2)

    ctx = bounded(embedder=Embedder(greedy, name="greedy", dimension=64))
    await learn(ctx, "likes tea")
    found = await asked(ctx, "tea")
    assert len(found) == 1 and "too much" in found.degraded


async def test_large_memories_are_embedded_anew() -> None:
    ctx = bounded(embedder=hashing())
    await learn(ctx, *(f"fact {number} {PADDING}" for number in range(200)))
    assert await ctx.memories.reembed(hashing(32, revision="2")) == 200


@KINDS
async def test_neighbours_are_read_as_far_as_there_is_room(store: str) -> None:
    ctx = bounded(store)
    for source in range(16):
        pieces = [f"{'The rocket.' if number == 0 else ''} piece {number} {PADDING}" for number in range(64)]
        await learn(ctx, *pieces, source_refs=[f"doc:{source}"])
    assert len(await ctx.memories.search("rocket", 1)) == 1
    found = await asked(ctx, "rocket", k=4)
    assert len(found) == 4 and found.degraded is None


async def test_memories_of_a_day_are_read_as_far_as_there_is_room() -> None:
    ctx = bounded()
    await learn(ctx, *(f"fact {number} {PADDING}" for number in range(200)), happened_at="2025-05-07T10:00:00Z")
    assert len(await asked(ctx, "What happened on 7 May 2025?", k=4)) == 4


async def test_candidates_that_leave_no_room_for_others_are_told() -> None:
    ctx = bounded()
    await learn(ctx, *(f"rocket {number} {PADDING}" for number in range(200)))
    found = await ctx.memories.search("rocket", 30)
    assert 0 < len(found) <= 30 and "room for the most promising" in str(found.degraded)


async def test_no_owner_takes_the_room_of_another() -> None:
    ctx = bounded()
    await learn(ctx, *(f"rocket {number} {PADDING}" for number in range(200)))
    await learn(ctx, "rocket of ana", scope="user", user_id="ana")
    assert (await asked(ctx, "rocket ana", k=1, user_id="ana"))[0].memory.user_id == "ana"


async def test_hits_that_are_larger_than_an_answer_together_are_found() -> None:
    ctx = bounded(embedder=hashing())
    owners: list[dict[str, Any]] = [
        {},
        {"scope": "user", "user_id": "ana"},
        {"scope": "project", "project_id": "p"},
        {"scope": "user", "user_id": "ana", "project_id": "p"},
    ]
    for owner in owners:  # each has room for the first of its own
        await learn(ctx, f"rocket {large(MOST // 3)}", **owner)
    assert len(await ctx.memories.search("rocket", 8, user_id="ana", project_id="p")) == 4


@pytest.mark.parametrize("revoked", [0, 2])
async def test_a_memory_that_is_larger_than_any_answer_is_found(revoked: int) -> None:
    ctx = bounded()
    await learn(ctx, f"rocket {large(MOST)}")
    for number in range(revoked):
        await under_way(ctx, f"doc:{number}")
    assert len(await ctx.memories.search("rocket", 8)) == 1


async def test_what_derives_from_a_source_is_hidden_however_large_its_parents_are() -> None:
    inner: Any = OnLoop(MemoryStore())
    whole, ctx = AsyncContext(Scope(inner)), AsyncContext(Scope(BoundedStore(inner, MOST)))
    await learn(whole, *(f"parent {number} {large(MOST // 3)}" for number in range(4)), source_refs=["doc:1"])
    await learn(whole, "rocket", source_refs=await whole.scope.ids(Scan(whole.scope.space, keys.MEMORY)))
    await under_way(ctx, "doc:1")
    assert await ctx.memories.search("rocket", 8) == []


async def test_what_waits_is_reviewed_among_many_large_memories() -> None:
    ctx = bounded("plain")
    await learn(ctx, *(f"rocket {number} {PADDING}" for number in range(200)))
    await ctx.memories.propose([mcr("rocket")], proposer="somebody")
    assert len(await fewer(50, MOST, lambda limit: ctx.memories.pending(limit=limit))) == 1


async def test_a_long_session_is_searched_by_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = bounded(embedder=hashing())
    session = await ctx.sessions.open("s")
    for number in range(100):
        await session.append([{"role": "user", "content": f"rocket {number} {PADDING}"}])
    monkeypatch.setattr(session_vectors, "BLOCK", 40)  # large messages in a block, and many blocks
    found = await fewer(4, MOST, lambda k: ctx.sessions.search("rocket", k=k, mode="vector"))
    assert len(found) == 4 and found.degraded is None


async def test_messages_that_leave_no_room_for_others_are_told() -> None:
    ctx = bounded()
    session = await ctx.sessions.open("s")
    for number in range(100):
        await session.append([{"role": "user", "content": f"rocket {number} {PADDING}"}])
    assert "room for the most promising" in str((await ctx.sessions.search("rocket", k=40)).degraded)
    assert (await ctx.sessions.search("rocket", k=2)).degraded is None


async def test_messages_that_are_larger_than_any_answer_are_found() -> None:
    ctx = bounded()
    session = await ctx.sessions.open("s")
    for number in range(4):
        await session.append([{"role": "user", "content": f"rocket {number} " + "x" * MOST}])
    assert len(await ctx.sessions.search("rocket", k=1)) == 1
    assert len(await fewer(8, MOST, lambda k: ctx.sessions.search("rocket", k=k))) >= 1


@KINDS
async def test_files_that_leave_no_room_for_others_are_told(store: str) -> None:
    ctx = bounded(store)
    for number in range(20):
        await ctx.files.write(f"/{number}.md", f"rocket {number} {large(MOST // 5)}")
    found = await ctx.files.search("rocket", k=15)
    assert 0 < len(found) < 15 and "room for the most promising" in str(found.degraded)
    assert (await ctx.files.search("rocket", k=1)).degraded is None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("searched")
    with strongroom.open(str(folder / "agent.db")) as ctx:
        memories = ctx.memories.using(policy=POLICY)
        many = [mcr(f"rocket {number} {PADDING}", source_refs=[f"doc:{number % 4}"]) for number in range(200)]
        memories.propose([mcr("rocket policy", type="policy"), *many], proposer="importer")
        for number in range(20):
            ctx.files.write(f"/{number}.md", f"rocket {number} {large(MOST // 5)}")
    with served(str(folder / "agent.db"), max_answer_bytes=MOST) as started:
        yield started


@pytest.fixture
def http(small: Served) -> Iterator[httpx.Client]:
    with client(small.url) as made:
        yield made


def test_what_few_of_many_fit_is_found_over_http(http: httpx.Client) -> None:
    answer = http.get("/memories/search", params={"q": "rocket", "type": "policy"}).json()
    assert [hit["memory"]["content"] for hit in answer["hits"]] == ["rocket policy"] and answer["degraded"] is None


def test_what_few_of_many_fit_is_found_by_a_client(small: Served) -> None:
    with strongroom.connect(small.url) as ctx:
        found = ctx.memories.search("rocket", type="policy")
        assert [hit.memory.content for hit in found] == ["rocket policy"] and found.degraded is None


def test_a_prompt_has_memories_out_of_many_large_ones(http: httpx.Client) -> None:
    answer = http.post("/prompt", json={"max_tokens": 4000, "query": "rocket"})
    assert answer.status_code == 200 and "rocket" in answer.text


def test_hits_are_still_as_many_as_an_answer_may_hold(http: httpx.Client) -> None:
    answer = http.get("/memories/search", params={"q": "rocket", "k": 1000})
    assert answer.json()["hits"] and len(answer.content) < 2 * MOST
    assert "one answer holds the best" in answer.json()["degraded"]


def test_files_that_leave_no_room_for_others_are_told_over_http(http: httpx.Client) -> None:
    answer = http.get("/files/search", params={"q": "rocket", "k": 15}).json()
    assert "room for the most promising" in answer["degraded"]


def test_a_client_finds_files_that_are_larger_than_an_answer_together(small: Served) -> None:
    with strongroom.connect(small.url) as ctx:
        found = ctx.files.search("rocket", k=15)
        assert len(found) == 15 and found.degraded is None
