"""Erasing a person: memories, sessions, what was learnt from them; in the store, in its files, in every index."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from qdrant_client import QdrantClient

import strongroom
from strongroom.bridge import run
from strongroom.errors import InvalidInput, Unavailable
from strongroom.vectors.local import LocalVectors
from strongroom.vectors.qdrant import QdrantMemories
from tests.awaitable import Awaitable
from tests.hashed import hashing
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import DURABLE, start_or_skip
from tests.services.memory_samples import using
from tests.services.test_memory_erasure import stored

CANARY = "canaria"


def repeating(messages: list[dict[str, str]]) -> Any:
    shown = json.loads(messages[-1]["content"])["messages"]
    return {"memories": [{"content": one["text"], "sources": [one["n"]]} for one in shown]}


async def furnished(ctx: Any) -> None:
    """Say the canary wherever something of a person can be, and leave others something of their own."""
    for n in range(2):
        session = await ctx.sessions.open(f"s{n}", user_id="u1", title=CANARY, metadata={"k": CANARY})
        await session.append([{"role": "user", "content": f"{CANARY} {n} {m}", "id": f"m{m}"} for m in range(3)])
        await session.window(30, strategy="summarize_oldest", summarizer=lambda _: CANARY)
        await session.truncate_from("m2")
        await ctx.memories.learn(session, model=repeating)
    learnt = await ctx.memories.learn("s0", model=repeating, project_id="atlas")
    await ctx.memories.commit(learnt.batch_id, reviewer="ana")
    await ctx.memories.learn("s1", model=repeating, scope="global")
    await ctx.memories.add(f"likes {CANARY}", user_id="u1", rationale=CANARY, tags=[CANARY])
    await ctx.memories.add(f"wants {CANARY}", user_id="u1", proposer="agent-7")
    await ctx.memories.add("somebody else's tea", user_id="u2")
    await (await ctx.sessions.open("theirs", user_id="u2")).append({"role": "user", "content": "tea"})


async def test_nothing_of_a_person_is_left_and_nothing_of_others_is_lost(ctx: Any) -> None:
    await furnished(ctx)
    assert CANARY in await stored(ctx)
    told = await ctx.erase(user_id="u1", by="ana", reason="asked to")
    assert (told.sessions, told.messages, len(told.memories)) == (2, 6, 3)
    assert CANARY not in await stored(ctx)
    assert [info.id for info in await ctx.sessions.list()] == ["theirs"]
    assert [one.content for one in await ctx.memories.list(user_id="u2")] == ["somebody else's tea"]
    assert await ctx.memories.pending() == []


async def test_a_second_erasure_finds_nothing(ctx: Any) -> None:
    await furnished(ctx)
    await ctx.erase(user_id="u1")
    again = await ctx.erase(user_id="u1")
    assert (again.sessions, again.messages, again.memories) == (0, 0, ())


async def test_a_session_whose_name_is_spelt_alike_keeps_what_was_learnt_from_it(ctx: Any) -> None:
    for id, user_id in (("Chat", "u1"), ("chat", "u2")):
        session = await ctx.sessions.open(id, user_id=user_id)
        await session.append({"role": "user", "content": f"tea of {user_id}"})
        learnt = await ctx.memories.learn(session, model=repeating)
        await ctx.memories.commit(learnt.batch_id, reviewer="ana")
    await ctx.erase(user_id="u1")
    assert [one.content for one in await ctx.memories.list(user_id="u2")] == ["tea of u2"]


async def test_an_index_that_is_away_is_told_and_hears_of_it_later(ctx: Any) -> None:
    index = Away()
    memories = await using(ctx.memories, embedder=hashing(), index=index)
    await memories.add("likes tea", user_id="u1")
    assert len(await memories.search("tea", mode="vector", user_id="u1")) == 1
    index.away = True
    told = await memories.erase(user_id="u1")
    assert not told.complete
    assert "index of vectors is away" in (told.pending or "")
    index.away = False
    assert await memories.search("likes tea", mode="vector", user_id="u1") == []


class Away(LocalVectors):
    """An index that can be out of reach."""

    away = False

    def open(self, *args: Any) -> Any:
        if self.away:
            raise Unavailable("no route to it", reason="index")
        return super().open(*args)


async def test_no_point_of_a_person_is_left_in_qdrant(ctx: Any) -> None:
    client = QdrantClient(":memory:")
    index = QdrantMemories(client=client)
    memories = await using(ctx.memories, embedder=hashing(), index=index)
    mine, theirs = await memories.add("likes tea", user_id="u1"), await memories.add("likes milk", user_id="u2")
    await memories.index()
    assert points(client, index) == {mine.id, theirs.id}
    await memories.erase(user_id="u1")
    assert points(client, index) == {theirs.id}


def points(client: QdrantClient, index: QdrantMemories) -> set[str]:
    found, _ = client.scroll(index.collection, with_payload=True, limit=100)
    return {str(point.payload["memory_id"]) for point in found if point.payload and "memory_id" in point.payload}


@pytest.mark.parametrize("wrong", ["", "\n", "x" * 300])
async def test_a_person_has_a_name(ctx: Any, wrong: str) -> None:
    with pytest.raises(InvalidInput):
        await ctx.erase(user_id=wrong)


# ---- in files -------------------------------------------------------------------------------------------------------


def bytes_in(folder: Path, *parts: str) -> int:
    files = [file for part in parts or ("",) for file in (folder / part).rglob("*") if file.is_file()]
    return sum(file.read_bytes().count(CANARY.encode()) for file in files)


def fill(ctx: Any) -> None:
    run(furnished(Awaitable(ctx)))


def test_no_byte_is_left_in_any_file_of_a_sqlite_store(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        fill(ctx)
        assert bytes_in(tmp_path) > 0
        assert ctx.erase(user_id="u1", by="ana").complete
        assert bytes_in(tmp_path) == 0
    assert bytes_in(tmp_path) == 0


def test_no_byte_is_left_in_the_tables_of_postgres_after_a_vacuum(postgres_server: PostgresServer) -> None:
    address = postgres_server.new_database()
    database = address.rpartition("/")[2]
    with strongroom.open(address) as ctx:
        fill(ctx)
        vacuum(postgres_server, database)
        assert bytes_in(postgres_server.data, "base") > 0
        ctx.erase(user_id="u1", by="ana")
        vacuum(postgres_server, database)
        assert bytes_in(postgres_server.data, "base") == 0


def vacuum(server: PostgresServer, database: str) -> None:
    with psycopg.connect(server.superuser(database), autocommit=True) as con:
        con.execute("VACUUM FULL")
        con.execute("CHECKPOINT")


def test_no_byte_is_left_in_the_log_of_valkey_after_it_was_rewritten() -> None:
    with start_or_skip(*DURABLE) as server, strongroom.open(server.address()) as ctx:
        fill(ctx)
        assert bytes_in(server.folder) > 0
        ctx.erase(user_id="u1", by="ana")
        with server.client() as client:
            client.bgrewriteaof()
            while any(client.info("persistence")[f"aof_rewrite_{state}"] for state in ("in_progress", "scheduled")):
                time.sleep(0.01)
        assert bytes_in(server.folder) == 0
