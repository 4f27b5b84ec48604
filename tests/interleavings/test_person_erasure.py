"""Erasing a person under every schedule and at every crash point: what is left is found by its owner, and goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from strongroom.bridge import Inline
from strongroom.errors import StrongroomError
from strongroom.scope import Scope
from strongroom.services import person
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.sessions import writes
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.store import AsyncStore
from strongroom.testing.explore import CRASHED, Program, explore
from tests.hashed import hashing

CANARY = "canaria"


def repeating(messages: list[dict[str, str]]) -> Any:
    shown = json.loads(messages[-1]["content"])["messages"]
    return {"memories": [{"content": one["text"], "sources": [one["n"]]} for one in shown]}


def memories(store: AsyncStore) -> AsyncMemories:
    return AsyncMemories(Scope(store))


async def erasing(store: AsyncStore) -> person.ErasedPerson:
    services: Any = SimpleNamespace(scope=Scope(store), memories=memories(store))
    return await person.erase(services, "u1", "ana", "asked to", None)


async def a_session(store: AsyncStore, count: int = 1) -> None:
    session = await AsyncSessions(Scope(store)).open("s1", user_id="u1", title=CANARY)
    await session.append([{"role": "user", "content": f"{CANARY} {n}"} for n in range(count)])


async def a_pending_batch(store: AsyncStore) -> None:
    await memories(store).propose(
        [{"type": "fact", "scope": "user", "content": CANARY, "rationale": CANARY, "user_id": "u1"} | COMMON],
        proposer="agent-7",
        batch_id="b",
    )


COMMON: Any = {"_schema_version": "2.1", "op": "add", "confidence": 0.9, "source_refs": []}


async def nothing_is_left(store: AsyncStore, results: Sequence[Any] = ()) -> None:
    assert isinstance(store, Inline)
    assert CANARY not in str((await store.unload(None, 10_000)).items)


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "DELETED_AT_ONCE", 2)


def test_a_fork_brings_back_nothing_that_is_erased_meanwhile() -> None:
    def runs(store: AsyncStore) -> AsyncRuns:
        return AsyncRuns(Scope(store))

    async def a_run(store: AsyncStore) -> None:
        await runs(store).create(objective=CANARY, run_id="r", user_id="u1")

    async def forking(store: AsyncStore) -> None:
        await (await runs(store).get("r")).fork(run_id="copy")

    found = explore([erasing, forking], nothing_is_left, setup=a_run, reads_in_order=True)
    assert found.failure is None, str(found.failure)


def test_whoever_dies_while_erasing_leaves_what_the_owner_still_names() -> None:
    async def everything(store: AsyncStore) -> None:
        await a_session(store, 5)
        for project in (None, "atlas"):
            await memories(store).learn("s1", model=repeating, project_id=project)
        learnt = await memories(store).pending()
        await memories(store).commit(learnt[0].id, reviewer="ana")
        await memories(store).add(f"likes {CANARY}", user_id="u1")
        await a_pending_batch(store)
        for _ in range(2):
            await AsyncRuns(Scope(store)).create(objective=CANARY, user_id="u1")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await nothing_is_left(store)
        assert results[0] == CRASHED or results[0].complete

    found = explore([erasing], check, setup=everything, crashes=1, recover=[erasing])
    assert found.failure is None
    assert found.schedules > 20


def race(other: Program, setup: Program) -> None:
    """Erase while somebody does something else, in every order."""

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert not isinstance(results[0], StrongroomError)
        await nothing_is_left(store)

    found = explore([erasing, other], check, setup=setup, reads_in_order=True)
    assert found.failure is None, str(found.failure)
    assert found.schedules > 5


def test_what_is_approved_while_a_person_is_erased_goes_too() -> None:
    async def approving(store: AsyncStore) -> None:
        await memories(store).commit("b", reviewer="maria")

    race(approving, a_pending_batch)


def test_what_is_learnt_while_a_person_is_erased_goes_too() -> None:
    async def learning(store: AsyncStore) -> None:
        await memories(store).learn("s1", model=repeating, project_id="atlas")

    race(learning, a_session)


def test_what_is_said_while_a_person_is_erased_goes_too() -> None:
    async def saying(store: AsyncStore) -> None:
        session = await AsyncSessions(Scope(store)).get("s1")
        await session.append({"role": "user", "content": CANARY})

    race(saying, a_session)


def test_what_is_recorded_while_a_person_is_erased_goes_too_or_with_the_next_erasure() -> None:
    async def a_run(store: AsyncStore) -> None:
        await AsyncRuns(Scope(store)).create(objective=CANARY, run_id="r", user_id="u1")

    async def recording(store: AsyncStore) -> None:
        run = await AsyncRuns(Scope(store)).get("r")
        await run.record("TOOL_CALL", {"tool_name": CANARY})

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert not isinstance(results[0], StrongroomError)
        await erasing(store)
        await nothing_is_left(store)
        assert (await (await AsyncRuns(Scope(store)).get("r")).verify()).ok

    found = explore([erasing, recording], check, setup=a_run, reads_in_order=True)
    assert found.failure is None, str(found.failure)
    assert found.schedules > 5


@pytest.mark.parametrize("again", [False, True], ids=["first", "another embedder"])
def test_no_vector_is_stored_of_a_memory_that_is_erased_meanwhile(again: bool) -> None:
    async def known(store: AsyncStore) -> None:
        await memories(store).using(embedder=hashing(8)).index()  # which puts it in charge
        await memories(store).add(CANARY, user_id="u1")

    async def erasing_memories(store: AsyncStore) -> None:
        await memories(store).erase(user_id="u1")

    async def embedding(store: AsyncStore) -> None:
        if again:
            await memories(store).reembed(hashing(16))
        else:
            await memories(store).using(embedder=hashing(8)).index()

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert isinstance(store, Inline)
        held = [item for item in (await store.unload(None, 10_000)).items if item.key.kind == "embedding"]
        assert [item for item in held if getattr(item, "value", None) is not None] == []

    found = explore([erasing_memories, embedding], check, setup=known, reads_in_order=True)
    assert found.failure is None, str(found.failure)


def test_two_who_erase_a_person_at_once_leave_nothing() -> None:
    race(erasing, a_session)
