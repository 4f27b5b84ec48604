"""A large value that is stored while its thread is taken away: every order of steps, and a kill between any two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from strongroom.adapters import large
from strongroom.adapters.langgraph.finding import Lines
from strongroom.adapters.langgraph.messages import serializer
from strongroom.adapters.langgraph.upkeep import Upkeep
from strongroom.codec import encode
from strongroom.errors import Conflict, NotFound
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.sessions.beside import Taking
from strongroom.services.sessions.state import MESSAGE
from strongroom.store import AsyncStore, Commit, Get, Put, Range, Scan, new_id
from strongroom.testing import CRASHED, explore

VALUE = b"Zebrowski" * 30
FIRST, SECOND = "1ef00000-0000-6000-8000-000000000001", "1ef00000-0000-6000-8000-000000000002"
PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "user_id": "ana"}}
AFTER: Any = {"configurable": PLACE["configurable"] | {"checkpoint_id": FIRST}}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a short text be a large one, in two pieces."""
    monkeypatch.setattr(large, "INLINE", 100)
    monkeypatch.setattr(large, "PIECE_LENGTH", 200)


def scope_of(store: AsyncStore) -> Scope:
    return Scope(store, clock=lambda: 1)


def saver(store: AsyncStore) -> Upkeep:
    return Upkeep(scope_of(store), serializer(), Lines(), None)


def checkpoint(id: str, **values: Any) -> Any:
    return {**empty_checkpoint(), "id": id, "channel_values": values, "channel_versions": dict.fromkeys(values, 1)}


async def begun(store: AsyncStore) -> None:
    await saver(store).put(PLACE, checkpoint(FIRST), {}, {})


async def putting(store: AsyncStore) -> None:
    await saver(store).put(AFTER, checkpoint(SECOND, blob=VALUE), {}, {"blob": 1})


async def writing(store: AsyncStore) -> None:
    await saver(store).put_writes(AFTER, [("blob", VALUE)], "task", "")


async def erasing(store: AsyncStore) -> None:
    scope = scope_of(store)
    await Taking(scope, scope.key(MESSAGE, "langgraph/t")).of_session("langgraph/t")


async def deleting(store: AsyncStore) -> None:
    await saver(store).delete_thread("t")


async def pieces_without_their_document(store: AsyncStore) -> list[str]:
    """Return the ids of pieces that nobody would find again."""
    memory: Any = store
    scope, found = scope_of(store), []
    for item in memory.blocking.unload(None, 10_000).items:
        if item.key.kind == large.PIECE:
            pieces, document = await scope.read(Range(item.key), Get(scope.key(large.KIND, item.key.id)))
            found += [item.key.id] if pieces.records and document is None else []
    return found


async def check(store: AsyncStore, results: Sequence[Any]) -> None:
    assert await pieces_without_their_document(store) == []
    scope = scope_of(store)
    page = await scope.get(Scan(scope.space, large.KIND, large.STAGED))
    assert CRASHED in results or not page.documents
    assert all(result in (None, CRASHED) or isinstance(result, NotFound) for result in results), results
    found = await saver(store).get(PLACE)
    if found is not None and "blob" in found.checkpoint["channel_values"]:
        assert found.checkpoint["channel_values"]["blob"] == VALUE
    if found is not None and found.pending_writes:
        assert found.pending_writes == [("task", "blob", VALUE)]


@pytest.mark.parametrize("taking", [erasing, deleting])
@pytest.mark.parametrize("storing", [putting, writing])
def test_a_large_value_is_whole_or_leaves_nothing_that_nobody_finds(storing: Any, taking: Any) -> None:
    told = explore([storing, taking], check, setup=begun, reads_in_order=True, max_steps=200)
    assert told.failure is None, f"{told.schedules}: {told.failure}"


async def recording(store: AsyncStore) -> None:
    """Store a record with a large text, as every adapter does."""
    scope = scope_of(store)
    async with large.Staging(scope, "me") as staging:
        for _ in attempts("a record"):
            try:
                told = await staging.named("x" * 300)
                put = Put(scope.key("record", "r"), encode(told.texts[0]))
                await store.commit(Commit(new_id(), told.expects, (put, *told.writes)))
            except Conflict:
                continue
            return


async def an_artifact(store: AsyncStore) -> None:
    await store.commit(Commit(new_id(), (), (Put(scope_of(store).key("adk_artifact", "me"), encode({})),)))


async def erasing_it(store: AsyncStore) -> None:
    scope = scope_of(store)
    await Taking(scope, scope.key("record", "log")).artifact(scope.key("adk_artifact", "me"))


async def recorded(store: AsyncStore, results: Sequence[Any]) -> None:
    scope = scope_of(store)
    assert await pieces_without_their_document(store) == []
    page = await scope.get(Scan(scope.space, large.KIND, large.STAGED))
    assert CRASHED in results or not page.documents


def test_a_kill_anywhere_leaves_no_piece_without_its_document() -> None:
    told = explore([recording, erasing_it], recorded, setup=an_artifact, crashes=1)
    assert told.failure is None, f"{told.schedules}: {told.failure}"
