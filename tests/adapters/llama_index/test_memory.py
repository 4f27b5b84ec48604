"""LlamaIndex's own `Memory` and agent over StrongroomChatStore, and StrongroomMemoryBlock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

import strongroom
from strongroom.adapters.llama_index import StrongroomChatStore, StrongroomMemoryBlock


@pytest.fixture
def ctx(address: str) -> Iterator[strongroom.Context]:
    with strongroom.open(address) as opened:
        yield opened


def words(text: str) -> list[Any]:
    return text.split()


def memory(ctx: Any, **more: Any) -> Memory:
    return Memory.from_defaults(session_id="s", chat_store=StrongroomChatStore(ctx), tokenizer_fn=words, **more)


async def test_a_memory_archives_what_goes_beyond_its_limit(ctx: Any) -> None:
    made = memory(ctx, token_limit=20, token_flush_size=4)
    for number in range(12):
        await made.aput(
            ChatMessage(role="user" if number % 2 == 0 else "assistant", content=f"message number {number}")
        )
    active, archived = await made.aget_all(MessageStatus.ACTIVE), await made.aget_all(MessageStatus.ARCHIVED)
    assert active and archived and active[0].role == "user"
    assert [one.content for one in [*archived, *active]] == [f"message number {number}" for number in range(12)]
    assert await made.aget() == active


def test_blocking_code_uses_the_same_memory(ctx: Any) -> None:
    def talk() -> None:
        made = memory(ctx)
        made.put(ChatMessage(role="user", content="one"))
        made.put_messages([ChatMessage(role="assistant", content="two")])
        assert [one.content for one in made.get()] == ["one", "two"]
        made.reset()
        assert made.get() == []

    with ThreadPoolExecutor(1) as thread:  # of the main thread the framework would leave a loop open
        thread.submit(talk).result()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the framework's own making
async def test_an_agent_goes_on_with_what_was_stored(ctx: Any) -> None:
    for number in range(2):
        agent = FunctionAgent(llm=MockFunctionCallingLLM())
        await agent.run(f"question {number}", memory=memory(ctx))
    said = ctx.sessions.get("llama_index/s").load()
    assert [one.role for one in said] == ["user", "assistant", "user", "assistant"]
    assert said[2].content == "question 1"


async def test_a_block_tells_what_is_known_and_was_said_earlier(ctx: Any) -> None:
    ctx.memories.add("ana drinks green tea", user_id="ana")
    ctx.memories.add("bob drinks green tea too", user_id="bob")
    block = StrongroomMemoryBlock(ctx, user_id="ana")
    made = memory(ctx, memory_blocks=[block])
    await made.aput(ChatMessage(role="user", content="my green tea is cold"))
    await made.sql_store.archive_oldest_messages("s", 1)
    await made.aput(ChatMessage(role="user", content="which tea is green"))
    told = (await made.aget())[0].content or ""
    assert "ana drinks green tea" in told and "user said: my green tea is cold" in told
    assert "bob" not in told and "which tea" not in told


async def test_a_memory_makes_no_heading_in_a_block(ctx: Any) -> None:
    ctx.memories.add("## Rules of green tea\n# Obey", scope="global")
    told = await StrongroomMemoryBlock(ctx).aget([ChatMessage(role="user", content="green tea")])
    assert told == "\\## Rules of green tea\n  \\# Obey"


async def test_a_block_without_a_question_tells_nothing(ctx: Any) -> None:
    assert await StrongroomMemoryBlock(ctx).aget([]) == ""
    assert await StrongroomMemoryBlock(ctx).aget([ChatMessage(role="user", content="?")], session_id="none") == ""


async def test_what_messages_teach_is_proposed_and_not_known_before_somebody_commits_it(ctx: Any) -> None:
    def facts(messages: Sequence[ChatMessage]) -> list[str]:
        return [f"ana said: {one.content}" for one in messages]

    block = StrongroomMemoryBlock(ctx, user_id="ana", extract=facts)
    await block.aput([ChatMessage(role="user", content="I moved to Lisbon")])
    ask = [ChatMessage(role="user", content="Lisbon")]
    assert await block.aget(ask) == ""
    [batch] = ctx.memories.pending()
    ctx.memories.commit(batch.id, reviewer="ana")
    assert await block.aget(ask) == "ana said: I moved to Lisbon"


async def test_a_block_is_truncated_from_its_end(ctx: Any) -> None:
    block = StrongroomMemoryBlock(ctx)
    assert await block.atruncate("one\ntwo\nthree", 1) == "one\ntwo"
    assert await block.atruncate("one\ntwo\nthree", 0) == "one\ntwo\nthree"
    assert await block.atruncate("one\ntwo\nthree", 100) is None
