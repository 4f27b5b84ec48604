"""StrongroomMemoryStore under the harness of Pydantic AI: the same answers as its store in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness import Memory
from pydantic_ai_harness.memory import (
    InMemoryStore,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MemoryStore,
    MetadataMemoryStore,
)

import strongroom
from strongroom.adapters import pydantic_ai_harness
from strongroom.adapters.pydantic_ai_harness import StrongroomMemoryStore
from strongroom.store import Scan, ask

ONE = MemoryOperation("op-1", "print")


async def story(store: Any) -> list[Any]:
    """Do a bit of everything and return what was answered, without the versions, which are a store's own."""
    told: list[Any] = [await store.read("main/MEMORY.md", max_chars=5), await store.get_operation(ONE)]
    first = await store.write("main/MEMORY.md", "likes tea", expected_version=None, operation=ONE)
    again = await store.write("main/MEMORY.md", "likes tea", expected_version=None, operation=ONE)
    told += [first.existed, first.replayed, again.replayed, again.version == first.version]
    told.append((await store.get_operation(ONE)).replayed)
    for call in (
        store.write("main/MEMORY.md", "x", expected_version=None, operation=MemoryOperation("op-1", "other")),
        store.write("main/MEMORY.md", "x", expected_version=None),
        store.delete("main/MEMORY.md", expected_version="nothing"),
        store.read("../escape", max_chars=1),
        store.read("a/./b", max_chars=1),
        store.read("a", max_chars=0),
        store.list_paths("main/", limit=0),
    ):
        try:
            await call
        except (MemoryConflictError, MemoryOperationConflictError, ValueError) as refusal:
            told.append(RuntimeError if isinstance(refusal, RuntimeError) else ValueError)
    found = await store.read("main/MEMORY.md", max_chars=5)
    told += [found.content, found.truncated, found.operation_id, found.metadata, found.version == first.version]
    second = await store.write_with_metadata(
        "main/MEMORY.md", "likes coffee", expected_version=first.version, metadata={"by": "ana"}
    )
    told += [second.existed, second.version != first.version]
    told.append((await store.read("main/MEMORY.md", max_chars=100)).metadata)
    for path in ("main/b.md", "main/a.md", "main/sub/c.md", "mainland/d.md", "other/e.md"):
        await store.write(path, path, expected_version=None)
    for prefix in ("", "main/", "main", "main/sub/", "none/"):
        told.append(await store.list_paths(prefix, limit=4))
    gone = await store.delete("main/MEMORY.md", expected_version=second.version, operation=MemoryOperation("op-2", "x"))
    told += [
        gone,
        await store.get_operation(MemoryOperation("op-2", "x")),
        await store.read("main/MEMORY.md", max_chars=1),
    ]
    told.append(await store.delete("main/MEMORY.md", expected_version=None))
    anew = await store.write("main/MEMORY.md", "anew", expected_version=None)
    return [*told, anew.existed, anew.version not in (first.version, second.version)]


async def test_it_answers_as_the_store_in_memory(every_context: strongroom.Context) -> None:
    assert await story(StrongroomMemoryStore(every_context)) == await story(InMemoryStore())


async def test_it_is_a_store_to_the_harness(address: str) -> None:
    with StrongroomMemoryStore(address) as store:
        assert isinstance(store, MemoryStore) and isinstance(store, MetadataMemoryStore)


async def test_an_agent_remembers_in_another_process_of_its_own(address: str) -> None:
    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("write_memory", {"content": "Ana likes tea."})])
        return ModelResponse(parts=[TextPart("noted")])

    with StrongroomMemoryStore(address) as store:
        agent = Agent(FunctionModel(say), capabilities=[Memory(store)])
        assert (await agent.run("I am Ana and like tea.")).output == "noted"
    seen: list[Any] = []

    def listen(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(repr(messages))
        return ModelResponse(parts=[TextPart("tea")])

    with StrongroomMemoryStore(address) as store:
        await Agent(FunctionModel(listen), capabilities=[Memory(store)]).run("What do I like?")
    assert "Ana likes tea." in seen[0]


async def test_of_writers_at_once_one_is_first_and_the_others_are_told(every_context: strongroom.Context) -> None:
    store = StrongroomMemoryStore(every_context)
    calls = [store.write("a.md", f"{number}", expected_version=None) for number in range(8)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(one, MemoryConflictError) for one in answers) == 7
    calls = [store.write("b.md", "same", expected_version=None, operation=ONE) for _ in range(8)]
    assert [one.replayed for one in await asyncio.gather(*calls)].count(False) == 1


async def test_a_path_that_leaves_its_folder_is_refused_in_our_words(address: str) -> None:
    with StrongroomMemoryStore(address) as store:
        await store.write("a.md", "text", expected_version=None)
        with pytest.raises(strongroom.InvalidInput, match="invalid memory path"):
            await store.write("/a.md", "text", expected_version=None)


async def test_operations_that_are_old_go_by_and_by(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def note(number: int) -> int:
        operation = MemoryOperation(f"{number}", "x")
        await store.write(f"{number}.md", "x", expected_version=None, operation=operation)
        assert (await store.write(f"{number}.md", "x", expected_version=None, operation=operation)).replayed
        return len(ask(ctx.store, Scan(ctx.space, pydantic_ai_harness.OPERATION)).documents)

    with StrongroomMemoryStore(address) as store:
        ctx = store.opened.ctx
        assert [await note(number) for number in range(4)] == [1, 2, 3, 4]
        monkeypatch.setattr(pydantic_ai_harness, "REPEATS", -1_000_000_000)  # all that there are have become old
        assert [await note(number) for number in range(4, 9)] == [3, 2, 1, 1, 1]
        with pytest.raises(MemoryConflictError):
            await note(0)
