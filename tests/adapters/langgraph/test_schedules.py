"""Reading a thread while it is deleted or pruned: every order of steps gives a whole checkpoint, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from strongroom.adapters.langgraph.finding import Lines
from strongroom.adapters.langgraph.messages import serializer
from strongroom.adapters.langgraph.upkeep import Upkeep
from strongroom.scope import Scope
from strongroom.store import AsyncStore
from strongroom.testing import explore

IDS = [f"1ef00000-0000-6000-8000-00000000000{n}" for n in range(6)]
PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
SAID = [HumanMessage(f"m{n}", id=f"m{n}") for n in range(6)]


def saver(store: AsyncStore) -> Upkeep:
    return Upkeep(Scope(store, clock=lambda: 1), serializer(), Lines(), None)


def at(n: int) -> Any:
    return {"configurable": PLACE["configurable"] | {"checkpoint_id": IDS[n]}}


async def put(store: AsyncStore, n: int) -> None:
    """Put a checkpoint with one message more, and a value that every other one changes."""
    values = {"messages": SAID[: n + 1], "topic": f"topic {n - n % 2}"}
    versions: dict[str, str | int | float] = {"messages": n + 1, "topic": n - n % 2 + 1}
    made: Any = {**empty_checkpoint(), "id": IDS[n], "channel_values": values, "channel_versions": versions}
    new: dict[str, str | int | float] = versions if n % 2 == 0 else {"messages": n + 1}
    await saver(store).put(at(n - 1) if n else PLACE, made, {"step": n}, new)


async def begun(store: AsyncStore) -> None:
    for n in range(5):
        await put(store, n)


async def one_more(store: AsyncStore) -> None:
    await put(store, 5)


async def newest(store: AsyncStore) -> list[Any]:
    return [await saver(store).get(PLACE)]


async def an_old_one(store: AsyncStore) -> list[Any]:
    return [await saver(store).get(at(1))]


async def all_of_them(store: AsyncStore) -> list[Any]:
    return [one async for one in saver(store).select(PLACE, None, None, None)]


async def deleting(store: AsyncStore) -> None:
    await saver(store).delete_thread("t")


async def pruning(store: AsyncStore) -> None:
    await saver(store).prune(["t"], "keep_latest")


def whole(found: Sequence[Any]) -> list[int]:
    """Return which checkpoints were found, each with all that it held."""
    told = []
    for one in found:
        if one is not None:
            n = IDS.index(one.checkpoint["id"])
            assert one.checkpoint["channel_values"] == {"messages": SAID[: n + 1], "topic": f"topic {n - n % 2}"}
            told.append(n)
    return told


async def looked_at(store: AsyncStore, results: Sequence[Any]) -> None:
    assert isinstance(results[0], list), results[0]
    whole(results[0])


async def the_newest_is_there(store: AsyncStore, results: Sequence[Any]) -> None:
    assert isinstance(results[0], list), results[0]
    told = whole(results[0])
    assert told and max(told) >= 4


@pytest.mark.parametrize("taking", [deleting, pruning])
@pytest.mark.parametrize("reading", [newest, an_old_one, all_of_them])
def test_whoever_reads_beside_it_gets_whole_checkpoints_or_none(reading: Any, taking: Any) -> None:
    told = explore([reading, taking], looked_at, setup=begun, reads_in_order=True)
    assert told.failure is None, f"{told.schedules}: {told.failure}"


def test_a_thread_that_is_pruned_always_has_a_newest_checkpoint() -> None:
    async def pruned(store: AsyncStore) -> None:
        await one_more(store)
        await pruning(store)

    told = explore([newest, pruned], the_newest_is_there, setup=begun, reads_in_order=True)
    assert told.failure is None, f"{told.schedules}: {told.failure}"
