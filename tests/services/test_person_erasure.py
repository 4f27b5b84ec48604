"""Erasing a person: memories, sessions, runs, what was learnt from them; in the store and in every index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline, run
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput, Unavailable
from strongroom.scope import Scope
from strongroom.services.memories import keys, noting
from strongroom.services.memories.sources import session_of
from strongroom.store import (
    Answer,
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Key,
    Page,
    Put,
    Range,
    Receipt,
    Store,
    new_id,
)
from strongroom.vectors.local import LocalVectors
from strongroom.vectors.qdrant import QdrantMemories
from tests.awaitable import Awaitable
from tests.hashed import hashing
from tests.services.memory_samples import mcr, using
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
    await ctx.memories.revoke(source_ref="message:s1#m1", by="bob", reason=CANARY)
    await ctx.memories.add(f"wants {CANARY}", user_id="u1", proposer="agent-7")
    for n in range(2):
        run = await ctx.runs.create(objective=CANARY, run_id=f"r{n}", user_id="u1", state={"k": CANARY})
        await run.record("TOOL_CALL", {"tool_name": CANARY})
        await run.attach(CANARY.encode(), type="text", path=f"{CANARY}.txt")
        await run.milestone(CANARY)
    await (await run.fork(run_id="fork")).update(next_action=CANARY)
    await ctx.runs.create(objective="tea", run_id="theirs", user_id="u2")
    await ctx.memories.add("somebody else's tea", user_id="u2")
    await (await ctx.sessions.open("theirs", user_id="u2")).append({"role": "user", "content": "tea"})


def fill(ctx: Any) -> None:
    run(furnished(Awaitable(ctx)))


def in_store(store: Any) -> bool:
    exported = store.unload(None, 100_000)
    assert exported.next is None
    return CANARY in str(exported.items)


async def test_nothing_of_a_person_is_left_and_nothing_of_others_is_lost(ctx: Any) -> None:
    await furnished(ctx)
    assert CANARY in await stored(ctx)
    told = await ctx.erase(user_id="u1", by="ana", reason="asked to")
    assert (told.sessions, told.messages, len(told.memories), told.runs) == (2, 6, 3, 3)
    assert CANARY not in await stored(ctx)
    assert [info.id for info in await ctx.sessions.list()] == ["theirs"]
    assert [run.id for run in await ctx.runs.list(user_id="u1")] == []
    assert [run.working_set.objective for run in await ctx.runs.list(user_id="u2")] == ["tea"]
    assert [one.content for one in await ctx.memories.list(user_id="u2")] == ["somebody else's tea"]
    assert await ctx.memories.pending() == []


@pytest.mark.parametrize("name", ["adk", "langgraph", "pydantic_ai", "llama_index", "adk/", "/adk"])
async def test_a_session_that_is_called_like_an_adapter_is_erased_too(ctx: Any, name: str) -> None:
    session = await ctx.sessions.open(name, user_id="u1")
    await session.append({"role": "user", "content": "hello"})
    assert (await ctx.erase(user_id="u1", by="ana", reason="asked to")).messages == 1


async def test_a_second_erasure_finds_nothing(ctx: Any) -> None:
    await furnished(ctx)
    await ctx.erase(user_id="u1")
    again = await ctx.erase(user_id="u1")
    assert (again.sessions, again.messages, again.memories, again.runs, again.found) == (0, 0, (), 0, False)


async def test_a_fork_is_its_owners_and_goes_too(ctx: Any) -> None:
    session = await ctx.sessions.open("s", user_id="u1")
    await session.append({"role": "user", "content": CANARY})
    await session.fork(session_id="f")
    assert (await ctx.erase(user_id="u1")).sessions == 2
    assert CANARY not in await stored(ctx)


@pytest.mark.parametrize("named", [False, True])
async def test_a_copy_made_before_its_owner_was_named_goes_once_it_is_opened_for_her(ctx: Any, named: bool) -> None:
    session = await ctx.sessions.open("s")
    await session.append({"role": "user", "content": CANARY})
    await session.fork(session_id="f")
    run = await ctx.runs.create(objective=CANARY, run_id="r")
    await run.fork(run_id="rf")
    for id in ["s", "f"] if named else ["s"]:
        await ctx.sessions.open(id, user_id="u1")
        await ctx.runs.open(id.replace("s", "r").replace("f", "rf"), objective="o", user_id="u1")
    told = await ctx.erase(user_id="u1")
    assert (told.sessions, told.runs) == ((2, 2) if named else (1, 1))
    assert (CANARY in await stored(ctx)) != named


async def test_a_run_of_an_erased_person_still_verifies_and_says_why_it_is_empty(ctx: Any) -> None:
    await furnished(ctx)
    await ctx.erase(user_id="u1", by="ana", reason="asked to")
    for id in ("r0", "r1", "fork"):
        run = await ctx.runs.get(id)
        last = (await run.events())[-1]
        assert ((await run.verify()).ok, run.working_set.objective) == (True, "(erased)")
        assert (last.type, last.actor, last.payload["reason"]) == ("ERASED", "ana", "asked to")


async def test_what_is_written_to_a_run_after_its_owner_was_erased_is_found_by_the_next_erasure(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", user_id="u1")
    await ctx.erase(user_id="u1")
    await run.record("TOOL_CALL", {"tool_name": CANARY})
    assert (await ctx.erase(user_id="u1")).runs == 1
    assert CANARY not in await stored(ctx)
    assert not (await ctx.erase(user_id="u1")).found


async def test_the_name_of_an_erased_person_is_in_no_run(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", user_id=CANARY)
    await ctx.runs.open((await ctx.runs.create(objective="o")).id, objective="o", user_id=CANARY)
    await ctx.runs.erase(run.id, reason="first")
    await ctx.erase(user_id=CANARY)
    assert CANARY not in await stored(ctx)


async def test_a_receipt_says_what_has_no_owner_and_was_not_looked_at(ctx: Any) -> None:
    assert (await ctx.erase(user_id="nobody")).not_covered == (
        "files",
        "threads",
        "sessions without an owner",
        "runs without an owner",
        "LangGraph store items",
        "Pydantic AI harness memories",
        "Agent Framework workflow checkpoints",
        "CrewAI memories",
    )


class Busy(MemoryStore):
    """A store in which a worker records in a run whenever it was emptied; it counts how often a ledger was read."""

    def __init__(self) -> None:
        super().__init__()
        self.emptied = 0
        self.read_of_old = 0

    def commit(self, commit: Commit) -> Receipt:
        receipt = super().commit(commit)
        appends = [write for write in commit.writes if isinstance(write, Append) and write.key.id == "busy"]
        if any(entry.type == "ERASED" for write in appends for entry in write.entries):
            self.emptied += 1
            assert self.emptied < 5, "an erasure follows a worker"
            context(self).runs.get("busy").record("TOOL_CALL", {"tool_name": "late"})
        return receipt

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        ledger = Key("default", "ledger", "old")
        self.read_of_old += sum(isinstance(one, Range) and one.key == ledger and one.limit != 0 for one in questions)
        return super().read(questions)


def test_a_worker_that_goes_on_recording_keeps_nobody_from_erasing() -> None:
    store = Busy()
    with context(store) as ctx:
        for id in ("busy", "old"):
            ctx.runs.create(objective=CANARY, run_id=id, user_id="u1").record("TOOL_CALL", {"tool_name": CANARY})
        assert (ctx.erase(user_id="u1").runs, store.emptied) == (2, 1)
        store.read_of_old = 0
        assert (ctx.erase(user_id="u1").runs, store.emptied) == (1, 2)  # what came since
        assert store.read_of_old == 1
        assert not in_store(store)


def test_a_damaged_run_keeps_nobody_from_erasing_the_rest_and_is_told(store: Store) -> None:
    with context(store) as ctx:
        fill(ctx)
        ctx.runs.create(objective="o", run_id="bad", user_id="u1")
        bad = Put(Key(ctx.space, "run", "bad"), encode({"not": "a run"}), {"user_id": "u1"})
        store.commit(Commit(new_id(), (), (bad,)))
        told = ctx.erase(user_id="u1", commit_id="one")
        assert (told.runs, told.sessions, told.complete) == (3, 2, False)
        assert "run 'bad' was not erased" in (told.pending or "")
        assert not in_store(store)
        assert ctx.erase(user_id="u1", commit_id="one") == told


@pytest.mark.parametrize("kind", ["session", "memory", "memory_batch"])
def test_what_is_damaged_keeps_nobody_from_erasing_the_rest_and_is_told(store: Store, kind: str) -> None:
    with context(store) as ctx:
        fill(ctx)
        bad = Put(Key(ctx.space, kind, "bad"), encode({"not": "one"}), {"user_id": "u1", "status": "active"})
        store.commit(Commit(new_id(), (), (bad,)))
        for commit_id in ("one", "one", "two"):
            told = ctx.erase(user_id="u1", commit_id=commit_id)
            assert (told.complete, "'bad'" in (told.pending or "")) == (False, True)
            assert (told.sessions, told.runs) == ((2, 3) if commit_id == "one" else (0, 0))
        assert not in_store(store)
        store.commit(Commit(new_id(), (), (Delete(bad.key),)))
        assert ctx.erase(user_id="u1").complete


def test_what_was_said_in_a_session_with_a_damaged_document_is_erased(store: Store) -> None:
    with context(store) as ctx:
        session = ctx.sessions.open("s", user_id="u1", title="tea")
        session.append([{"role": "user", "content": f"{CANARY} {n}", "id": f"m{n}"} for n in range(3)])
        session.window(30, strategy="summarize_oldest", summarizer=lambda _: CANARY)
        ctx.memories.add(CANARY, user_id="u2", source_refs=["session:s"])
        bad = Put(Key(ctx.space, "session", "s"), encode({"not": "a session"}), {"user_id": "u1"})
        store.commit(Commit(new_id(), (), (bad,)))
        told = ctx.erase(user_id="u1")
        assert (told.sessions, told.messages, len(told.memories), told.complete) == (0, 3, 1, False)
        assert "the document of session 's' was not erased" in (told.pending or "")
        assert not in_store(store)


def test_a_session_whose_row_is_damaged_keeps_nobody_from_erasing_the_rest(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        for n in range(5):
            ctx.sessions.open(f"s{n}", user_id="u1").append({"role": "user", "content": CANARY})
        ctx.memories.add(CANARY, user_id="u1")
    with sqlite3.connect(tmp_path / "agent.db") as file:
        assert file.execute("UPDATE head SET version = 7 WHERE kind = 'session' AND id = 's2'").rowcount == 1
    file.close()
    with strongroom.open(tmp_path / "agent.db") as ctx:
        told = ctx.erase(user_id="u1")
        assert (told.sessions, told.messages, len(told.memories), told.complete) == (4, 5, 1, False)
        assert "session 's2'" in (told.pending or "")


async def test_what_cites_a_message_of_a_session_goes_with_it_known_or_pending(ctx: Any) -> None:
    for id in ("chat#7", "chat"):
        await (await ctx.sessions.open(id, user_id="u1")).append({"role": "user", "content": "tea"})
    await ctx.sessions.open("theirs", user_id="u2")
    for n, ref in enumerate(["message:chat%237#m1", "message:chat#m1"]):
        await ctx.memories.add(f"{CANARY} {n}", user_id="u2", source_refs=[ref])
        await ctx.memories.add(f"{CANARY} {n + 2}", user_id="u2", source_refs=[ref], proposer="agent-7")
    others = ["message:theirs#m1", "message:chatter#m1", "chat#m1", "message:chat"]
    for n, ref in enumerate(others):
        await ctx.memories.add(f"tea {n}", user_id="u2", source_refs=[ref])
    told = await ctx.erase(user_id="u1")
    assert (len(told.memories), told.batches, CANARY in await stored(ctx)) == (2, 4, False)
    assert [one.source_refs for one in await ctx.memories.list(user_id="u2")] == [(ref,) for ref in others]


async def test_a_message_of_a_session_whose_id_holds_a_hash_may_be_cited_as_it_is(ctx: Any) -> None:
    await ctx.sessions.open("ticket#7", user_id="u1")
    await ctx.memories.add(CANARY, user_id="u2", source_refs=["message:ticket#7#m1"])
    await ctx.erase(user_id="u1")
    assert CANARY not in await stored(ctx)


@pytest.mark.parametrize(
    "refs", [["message:chat#2#m1"], ["session:chat#2", "message:chat#2#m1"], ["session:chat#2", "message:chat#2#a#b"]]
)
async def test_what_cites_a_session_whose_id_begins_with_that_of_another_stays(ctx: Any, refs: list[str]) -> None:
    for id, user_id in (("chat", "u1"), ("chat#2", "u2")):
        await ctx.sessions.open(id, user_id=user_id)
    await ctx.memories.add("tea", user_id="u2", source_refs=refs)
    assert not (await ctx.erase(user_id="u1")).memories
    assert [one.content for one in await ctx.memories.list(user_id="u2")] == ["tea"]


async def test_what_was_learnt_from_a_message_whose_id_holds_a_hash_goes_with_its_session_alone(ctx: Any) -> None:
    for id, user_id in (("chat", "u1"), ("chat#2", "u2")):
        await ctx.sessions.open(id, user_id=user_id)
    await (await ctx.sessions.get("chat")).append({"role": "user", "content": CANARY, "id": "2#m1"})
    learnt = await ctx.memories.learn("chat", model=repeating, project_id="atlas")
    await ctx.memories.commit(learnt.batch_id, reviewer="ana")
    assert not (await ctx.erase(user_id="u2")).memories
    assert len((await ctx.erase(user_id="u1")).memories) == 1
    assert CANARY not in await stored(ctx)


@pytest.mark.parametrize(
    ("ref", "session"),
    [
        ("message:chat#m1", "chat"),
        ("message:chat%237#m1", "chat#7"),
        ("message:50%-off#m1", "50%-off"),
        ("message:a%2523#m1", "a%23"),
        ("message:chat", None),
        ("chat#m1", None),
    ],
)
def test_a_message_that_is_cited_is_of_one_session(ref: str, session: str | None) -> None:
    assert session_of(ref, [ref]) == session


async def test_what_was_derived_from_what_was_learnt_is_named(ctx: Any) -> None:
    await (await ctx.sessions.open("s", user_id="u1")).append({"role": "user", "content": "tea"})
    learnt = await ctx.memories.add("likes tea", user_id="u2", source_refs=["session:s"])
    made = await ctx.memories.add("likes tea and milk", user_id="u2", source_refs=[learnt.id])
    told = await ctx.erase(user_id="u1")
    assert (told.memories, told.derived) == ((learnt.id,), (made.id,))


async def test_a_repeat_tells_what_the_first_told(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noting, "NOTED", 1)
    await furnished(ctx)
    for n in range(2):
        await ctx.memories.add(
            f"derived {n}", user_id="u2", source_refs=[(await ctx.memories.list(user_id="u1"))[0].id]
        )
    first = await ctx.erase(user_id="u1", commit_id="one")
    await ctx.memories.add("likes tea again", user_id="u1")
    assert len(first.memories) == 3 and len(first.derived) == 2
    assert await ctx.erase(user_id="u1", commit_id="one") == first


async def test_an_index_that_is_away_is_told_by_a_repeat_too(store: Store) -> None:
    index = Away()
    ctx = AsyncContext(Scope(Inline(store)), embedder=hashing(), index=index)
    await ctx.memories.add("likes tea", user_id="u1")
    index.away = True
    for _ in range(2):
        told = await ctx.erase(user_id="u1", commit_id="one")
        assert (told.complete, "index of vectors is away" in (told.pending or "")) == (False, True)
    index.away = False
    assert (await ctx.erase(user_id="u1", commit_id="one")).complete


def test_any_number_of_memories_can_be_erased() -> None:
    with strongroom.open("memory://") as ctx:
        for start in range(0, 2300, 100):
            requests = [mcr(f"fact {n}", scope="user", user_id="u1") for n in range(start, start + 100)]
            ctx.memories.commit(ctx.memories.propose(requests, proposer="agent-7").id, reviewer="ana")
        told = ctx.erase(user_id="u1", commit_id="one")
        assert (len(set(told.memories)), told.complete) == (2300, True)
        assert ctx.erase(user_id="u1", commit_id="one") == told


def test_the_batches_of_a_space_are_read_once_however_many_sessions_there_are() -> None:
    store = Counting()
    with context(store) as ctx:
        for n in range(20):
            ctx.memories.add(f"fact {n}", user_id=f"u{n + 2}")
            ctx.sessions.open(f"s{n}", user_id="u1").append({"role": "user", "content": "tea"})
        store.batches = 0
        ctx.erase(user_id="u1")
        assert store.batches == 20


def context(store: Store, space: str = "default") -> strongroom.Context:
    return strongroom.Context(AsyncContext(Scope(Inline(store), space)))


class Counting(MemoryStore):
    """A store that counts the batches it shows."""

    batches = 0

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        answers = super().read(questions)
        self.batches += sum(len(one.documents) for one in answers if isinstance(one, Page) and _batches(one))
        return answers


def _batches(page: Page) -> bool:
    return all(document.key.kind == keys.BATCH for document in page.documents)


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


async def test_whoever_erases_with_another_embedder_has_erased_and_is_told_of_the_index(store: Store) -> None:
    await AsyncContext(Scope(Inline(store)), embedder=hashing(16)).memories.index()
    ctx = AsyncContext(Scope(Inline(store)), embedder=hashing(32))
    await ctx.memories.add("likes tea", user_id="u1")
    for erased in (await ctx.erase(user_id="u1"), await ctx.memories.erase(user_id="u1")):
        assert (erased.complete, "has not dropped them yet" in (erased.pending or "")) == (False, True)


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
