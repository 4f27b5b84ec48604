"""Delta channels: the eight rules of their history, and that nothing they are rebuilt from is ever dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from strongroom.adapters.langgraph import StrongroomSaver
from tests.adapters.langgraph.savers import MODES, config, delta_graph

CHANNEL = "said"


@pytest.fixture(params=MODES)
def saver(request: pytest.FixtureRequest, address: str) -> Any:
    made = MODES[request.param](address)
    yield made
    made.close()


async def put(saver: StrongroomSaver, parent: Any, *written: Any, **values: Any) -> Any:
    """Put a checkpoint, and what a task wrote to it afterwards."""
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = dict.fromkeys((CHANNEL, *values), checkpoint["id"])
    stored = await saver.aput(
        parent or config("t", checkpoint_ns=""), checkpoint, {"step": 0}, dict(checkpoint["channel_versions"])
    )
    for number, value in enumerate(written):
        await saver.aput_writes(stored, [(CHANNEL, value)], f"task-{number}", f"path-{number}")
    return stored


async def told(saver: StrongroomSaver, target: Any, *channels: str) -> Any:
    return await saver.aget_delta_channel_history(config=target, channels=channels or (CHANNEL,))


def said(history: Any) -> list[Any]:
    return [value for _, _, value in history[CHANNEL]["writes"]]


async def test_no_channels_have_no_history(saver: StrongroomSaver) -> None:
    stored = await put(saver, None, "a")
    assert await saver.aget_delta_channel_history(config=stored, channels=[]) == {}


async def test_a_checkpoint_s_own_writes_are_pending_and_no_part_of_its_history(saver: StrongroomSaver) -> None:
    stored = await put(saver, None, "own")
    assert said(await told(saver, stored)) == []


async def test_what_ancestors_wrote_comes_oldest_first(saver: StrongroomSaver) -> None:
    first = await put(saver, None, "a", "b")
    second = await put(saver, first, "c")
    third = await put(saver, second, "d")
    assert said(await told(saver, third)) == ["a", "b", "c"]


async def test_without_a_stored_value_there_is_no_seed(saver: StrongroomSaver) -> None:
    first = await put(saver, None, "a")
    second = await put(saver, first)
    assert "seed" not in (await told(saver, second))[CHANNEL]


async def test_checkpoints_that_were_put_below_their_own_children_have_an_end(saver: StrongroomSaver) -> None:
    first = await put(saver, None)
    second = await put(saver, first)
    again: Any = {**empty_checkpoint(), "id": first["configurable"]["checkpoint_id"]}
    await saver.aput(second, again, {"counters_since_delta_snapshot": {CHANNEL: (1, 1)}}, {})
    assert said(await told(saver, second)) == said(await told(saver, first)) == []
    await saver.aprune(["t"])
    assert len([one async for one in saver.alist(config("t"))]) == 1


async def test_the_nearest_stored_value_is_the_seed_and_what_was_written_to_it_counts(saver: StrongroomSaver) -> None:
    first = await put(saver, None, "too old", **{CHANNEL: ["older"]})
    second = await put(saver, first, "b", **{CHANNEL: ["seed"]})
    third = await put(saver, second, "c")
    history = await told(saver, await put(saver, third))
    assert (history[CHANNEL]["seed"], said(history)) == (["seed"], ["b", "c"])


async def test_a_fork_sees_its_own_ancestors_alone(saver: StrongroomSaver) -> None:
    root = await put(saver, None, "root")
    await put(saver, root, "other branch")
    mine = await put(saver, root, "mine")
    assert said(await told(saver, await put(saver, mine))) == ["root", "mine"]


async def test_each_channel_stops_at_its_own_seed(saver: StrongroomSaver) -> None:
    first = await put(saver, None, "a", other=[1])
    second = await put(saver, first, "b", **{CHANNEL: ["seed"]})
    third = await put(saver, second)
    history = await told(saver, third, CHANNEL, "other")
    assert history[CHANNEL]["seed"] == ["seed"] and history["other"]["seed"] == [1]
    assert said(history) == ["b"]


async def test_without_an_id_the_newest_checkpoint_is_meant(saver: StrongroomSaver) -> None:
    first = await put(saver, None, "a")
    await put(saver, first, "b")
    assert said(await told(saver, config("t", checkpoint_ns=""))) == ["a"]
    assert said(await told(saver, config("nobody", checkpoint_ns=""))) == []


async def steps(graph: Any, thread: str, runs: list[str]) -> AsyncIterator[list[str]]:
    """Ask again and again, and give what the state holds then."""
    for number, run in enumerate(runs):
        where = {**config(thread), "metadata": {"run_id": run}}
        await graph.ainvoke({"said": [f"q{number}"]}, where, durability="sync")
        yield (await graph.aget_state(config(thread))).values["said"]


async def test_a_pruned_thread_goes_on_with_all_that_was_said(saver: StrongroomSaver) -> None:
    graph = delta_graph(saver)
    async for whole in steps(graph, "t", [f"run-{n}" for n in range(7)]):
        await saver.aprune(["t"])
        assert (await graph.aget_state(config("t"))).values["said"] == whole
        assert len([one async for one in saver.alist(config("t"))]) == 1
    assert len(whole) == 14


async def test_a_copy_goes_on_with_all_that_was_said(saver: StrongroomSaver) -> None:
    graph = delta_graph(saver)
    async for whole in steps(graph, "t", [f"run-{n}" for n in range(3)]):
        copy = f"copy-{len(whole)}"
        await saver.acopy_thread("t", copy)
        await saver.aprune([copy])
        assert (await graph.aget_state(config(copy))).values["said"] == whole
        await graph.ainvoke({"said": ["more"]}, config(copy))
        assert (await graph.aget_state(config(copy))).values["said"][:-1] == [*whole, "more"]


async def test_a_thread_without_some_of_its_runs_holds_all_that_was_said(saver: StrongroomSaver) -> None:
    graph = delta_graph(saver)
    whole = [state async for state in steps(graph, "t", [f"run-{n}" for n in range(5)])][-1]
    await saver.adelete_for_runs(["run-1", "run-2"])
    left = {one.metadata["run_id"] async for one in saver.alist(config("t"))}
    assert left == {"run-0", "run-3", "run-4"}
    assert (await graph.aget_state(config("t"))).values["said"] == whole
