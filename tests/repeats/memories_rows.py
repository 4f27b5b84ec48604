"""Every operation of memories that writes, as rows of the table of repeats."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.services.memories.policy import Policy
from tests.hashed import hashing
from tests.repeats.rows import Call, Row
from tests.services.memory_samples import mcr, using


async def nothing(ctx: Any) -> None:
    return None


async def two_batches(ctx: Any) -> list[str]:
    return [(await ctx.memories.propose(mcr(f"tide {n}"), proposer="agent-7")).id for n in range(2)]


async def two_sources(ctx: Any) -> list[str]:
    """Make known a memory from each of two sources, and one that was derived from both."""
    requests = [mcr(f"tide {n}", source_refs=[f"feed {n}"], memory_id=f"mem_{n}") for n in range(2)]
    both = mcr("spring tide", source_refs=["mem_0", "mem_1"])
    await ctx.memories.commit(await ctx.memories.propose([*requests, both], proposer="agent-7"), reviewer="ana")
    return ["feed 0", "feed 1"]


async def no_such_call(ctx: Any, state: Any, commit_id: str | None) -> Any:
    pytest.skip("there is nothing that could be another one")


def proposing(content: str = "tide", proposer: str = "agent-7", batch_id: str | None = None, about: str = "") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.propose(
            mcr(content), proposer=proposer, batch_id=batch_id, about=about, commit_id=commit_id
        )

    return call


def proposing_at_once(content: str = "tide", proposer: str = "agent-7") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        trusting = await using(ctx.memories, policy=Policy(auto_commit=frozenset({"agent-7", "agent-8"})))
        return await trusting.propose([mcr(content), mcr("ebb")], proposer=proposer, commit_id=commit_id)

    return call


def committing(place: int, reviewer: str = "ana") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.commit(state[place], reviewer=reviewer, commit_id=commit_id)

    return call


def editing(place: int, content: str = "ebb") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.commit(state[place], reviewer="ana", edit={0: content}, commit_id=commit_id)

    return call


def rejecting(place: int, reason: str = "hearsay") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.reject(state[place], reason=reason, reviewer="ana", commit_id=commit_id)

    return call


def revoking(place: int, reason: str = "a hoax") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.revoke(source_ref=state[place], by="ana", reason=reason, commit_id=commit_id)

    return call


def reembedding(dimension: int) -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.reembed(hashing(dimension), commit_id=commit_id)

    return call


def adding(content: str = "tide", proposer: str | None = None) -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.add(content, user_id="u1", proposer=proposer, commit_id=commit_id)

    return call


async def two_memories(ctx: Any) -> list[str]:
    return [(await ctx.memories.add(f"tide {n}", memory_id=f"mem_{n}")).id for n in range(2)]


def updating(place: int, content: str = "ebb") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.update(f"mem_{place}", f"{content} {place}", commit_id=commit_id)

    return call


def deleting(place: int, reason: str = "wrong") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.delete(f"mem_{place}", reason=reason, commit_id=commit_id)

    return call


def erasing(place: int, reason: str = "asked to") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.erase(memory_id=f"mem_{place}", by="ana", reason=reason, commit_id=commit_id)

    return call


async def two_sessions(ctx: Any) -> list[str]:
    for n in range(2):
        session = await ctx.sessions.open(f"s{n}", user_id="u1")
        await session.append([{"role": "user", "content": f"tide {n}"}])
    return ["s0", "s1"]


def learning(place: int, proposer: str = "learner") -> Call:
    def model(messages: list[dict[str, str]]) -> Any:
        return {"memories": [{"content": "tide", "sources": [1]}]}

    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.learn(state[place], model=model, proposer=proposer, commit_id=commit_id)

    return call


async def two_owners(ctx: Any) -> list[str]:
    for n in range(2):
        for text in ("tide is high", "tide is low"):
            await ctx.memories.add(text, user_id=f"u{n}", memory_id=f"mem_{n}_{text[-3:].strip()}")
    return ["u0", "u1"]


def consolidating(place: int, proposer: str = "consolidator") -> Call:
    def model(messages: list[dict[str, str]]) -> Any:
        return {"changes": [{"action": "merge", "memories": [1, 2], "content": "tide comes and goes"}]}

    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.memories.consolidate(model=model, user_id=state[place], proposer=proposer, commit_id=commit_id)

    return call


async def sweep(ctx: Any, state: Any, commit_id: str | None) -> Any:
    return await ctx.memories.sweep(commit_id=commit_id)


def forgetting(user_id: str, reason: str = "asked to") -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await ctx.erase(user_id=user_id, by="ana", reason=reason, commit_id=commit_id)

    return call


ROWS = (
    Row("context.erase", two_sessions, forgetting("u1"), forgetting("u1", "again"), forgetting("u2")),
    Row("memories.propose", nothing, proposing(), proposing("flood"), proposing(proposer="agent-8")),
    Row(
        "memories.propose", nothing, proposing(about="x"), proposing("flood", about="x"), proposing("flood", about="y")
    ),
    Row(
        "memories.propose",
        nothing,
        proposing(batch_id="b"),
        proposing("flood", batch_id="b"),
        proposing(proposer="agent-8", batch_id="c"),
    ),
    Row(
        "memories.propose",
        nothing,
        proposing_at_once(),
        proposing_at_once("flood"),
        proposing_at_once(proposer="agent-8"),
    ),
    Row("memories.commit", two_batches, committing(0), committing(0, "ben"), committing(1)),
    Row("memories.commit", two_batches, editing(0), editing(0, "flood"), editing(1)),
    Row("memories.commit", two_batches, editing(0), committing(0), editing(1, "neap")),
    Row("memories.reject", two_batches, rejecting(0), rejecting(0, "a joke"), rejecting(1)),
    Row("memories.revoke", two_sources, revoking(0), revoking(0, "an error"), revoking(1)),
    Row("memories.add", nothing, adding(), adding("flood"), adding(proposer="agent-8")),
    Row("memories.update", two_memories, updating(0), updating(0, "flood"), updating(1)),
    Row("memories.delete", two_memories, deleting(0), deleting(0, "a hoax"), deleting(1)),
    Row("memories.erase", two_memories, erasing(0), erasing(0, "again"), erasing(1)),
    Row("memories.learn", two_sessions, learning(0), learning(0, "scribe"), learning(1)),
    Row("memories.consolidate", two_owners, consolidating(0), consolidating(0, "scribe"), consolidating(1)),
    Row("memories.sweep", two_sources, sweep, no_such_call, no_such_call),
    Row("memories.reembed", two_sources, reembedding(16), reembedding(32), no_such_call),
)
