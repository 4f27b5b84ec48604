"""Two processes at once through each adapter, and a process that is killed in the middle of a graph."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any, cast

import pytest

from strongroom.adapters.agent_framework import StrongroomHistoryProvider
from strongroom.adapters.anthropic import StrongroomMemoryTool
from strongroom.adapters.langgraph import StrongroomSaver, StrongroomStore
from strongroom.adapters.mem0 import Memory
from strongroom.adapters.openai_agents import StrongroomSession
from strongroom.adapters.pydantic_ai import StrongroomConversationStore
from tests.adapters.langgraph.savers import ask, chat, config
from tests.adapters.processes import TURNS, both, lines_of, started
from tests.adapters.programs import NOTE

KILLS = int(os.environ.get("STRONGROOM_GRAPH_KILLS", "3"))


def test_two_processes_add_to_one_conversation(address: str) -> None:
    both("session", address)
    with StrongroomSession("s", address) as session:
        items = cast("Any", asyncio.run(session.get_items()))
    assert len(items) == 2 * TURNS and {item["content"] for item in items} == lines_of()
    for name in ("one", "two"):  # each in its own order
        own = [item["content"] for item in items if item["content"].startswith(name)]
        assert own == [f"{name} {number}" for number in range(TURNS)]


def test_two_processes_in_one_conversation_lose_no_turn(address: str) -> None:
    # The framework's own store is in memory, for one process.
    both("conversation", address)
    with StrongroomConversationStore(address) as store:
        found = asyncio.run(store.load("c"))
        shown = store.opened.ctx.sessions.get("pydantic_ai/c").load()
    assert found is not None and len(found.messages) == len(shown) == 4 * TURNS
    assert [one.content for one in shown[1::2]] == ["yes"] * (2 * TURNS)
    assert sorted(str(one.content) for one in shown[::2]) == sorted(lines_of())


def test_two_processes_save_to_one_history(address: str) -> None:
    both("history", address)
    with StrongroomHistoryProvider(address) as provider:
        kept = [one.text for one in asyncio.run(provider.get_messages("s"))]
    assert len(kept) == 4 * TURNS and set(kept[::2]) == lines_of()
    assert kept[1::2] == [f"{question} yes" for question in kept[::2]]  # a turn is in one piece


def test_two_processes_add_to_one_users_memories(address: str) -> None:
    both("memories", address)
    with Memory(address) as memory:
        kept = memory.get_all(filters={"user_id": "u"}, top_k=1000)["results"]
    assert len(kept) == 2 * TURNS and {one["memory"] for one in kept} == lines_of()


def test_two_processes_edit_one_note(address: str) -> None:
    with StrongroomMemoryTool(address) as tool:
        tool.call({"command": "create", "path": NOTE, "file_text": "start\n"})
        both("notes", address)
        text = tool.opened.ctx.files.read(NOTE).text
        assert set(text.split("\n")[1:-1]) == lines_of() and len(text.split("\n")) == 2 * TURNS + 2
        assert len(tool.opened.ctx.files.history(NOTE, limit=1000)) == 2 * TURNS + 1


def test_two_processes_that_ask_one_graph_lose_no_checkpoint(address: str) -> None:
    # Which messages the newest checkpoint holds is decided by the framework, which reads, runs and then writes.
    both("graph", address)
    with StrongroomSaver(address) as saver:
        found = {one.config["configurable"]["checkpoint_id"]: one for one in saver.list(config("t"))}
    assert len(found) == 2 * TURNS * 3
    for one in found.values():
        if one.parent_config is not None:
            parent = found[one.parent_config["configurable"]["checkpoint_id"]]
            before = [message.id for message in parent.checkpoint["channel_values"].get("messages", [])]
            after = [message.id for message in one.checkpoint["channel_values"].get("messages", [])]
            assert set(before) <= set(after)


def test_two_processes_put_items_into_one_namespace(address: str) -> None:
    both("items", address)
    with StrongroomStore(address) as store:
        kept = store.search(("n",), limit=10 * TURNS)
    assert len(kept) == 2 * TURNS and {one.value["text"] for one in kept} == lines_of()


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_killed_graph_goes_on_with_every_acknowledged_step(tmp_path: Path, seed: int) -> None:
    address = str(tmp_path / "agent.db")
    process = started("graph", address, "one", 10_000)
    assert process.stdout is not None
    told = 0
    for _ in range(random.Random(seed).randint(1, 12)):  # it works on while we read
        told = int(process.stdout.readline())
    process.kill()
    told = max([told, *map(int, process.stdout.read().split())])
    process.wait()
    process.stdout.close()
    with StrongroomSaver(address) as saver:
        graph = chat(saver)
        held = graph.get_state(config("t")).values["messages"]
        assert len(held) >= told
        newest = saver.get_tuple(config("t"))  # without what a task wrote and no checkpoint holds yet
        assert newest is not None
        shown = saver.opened.ctx.sessions.get("langgraph/t").load()
        assert [one.content for one in shown] == [
            one.content for one in newest.checkpoint["channel_values"]["messages"]
        ]
        graph.invoke(None, config("t"))  # whatever was under way
        assert ask(graph, "t", "and on")["messages"][-1].content.startswith("answer")
