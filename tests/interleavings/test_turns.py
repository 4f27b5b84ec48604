"""Turns of two to six parts, at every crash point, with every lost answer, in every interleaving: never half."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from strongroom.context import AsyncContext
from strongroom.errors import CommitUnknown, Conflict
from strongroom.scope import Scope
from strongroom.store import AsyncStore
from strongroom.testing import CRASHED, explore
from tests.services.memory_samples import mcr

Program = Callable[[AsyncStore], Any]
SAID: Any = {"role": "user", "content": "turn"}


def context(store: AsyncStore) -> AsyncContext:
    return AsyncContext(Scope(store))


async def boot(store: AsyncStore) -> None:
    ctx = context(store)
    await ctx.runs.create(objective="o", run_id="r")
    await ctx.sessions.open("s")


def taking(parts: int, commit_id: str | None = None) -> Program:
    """Return a program that takes a turn of so many parts."""

    async def program(store: AsyncStore) -> Any:
        ctx = context(store)
        run, session = await ctx.runs.get("r"), await ctx.sessions.get("s")
        async with ctx.turn(commit_id=commit_id) as turn:
            turn.append(session, SAID)
            turn.record(run, "TOOL_RESULT", {"tool_name": "turn", "ok": True})
            if parts > 2:
                turn.update(run, append={"blockers": ["turn"]})
            if parts > 3:
                turn.send("t", "turn", from_id="a")
            if parts > 4:
                turn.propose([mcr("turn")], proposer="a")
            if parts > 5:
                turn.append(session, {"role": "system", "content": "turn", "id": "m"})
        return "done"

    return program


async def counts(store: AsyncStore, parts: int) -> list[int]:
    """Return how often each part of a turn has happened."""
    ctx = context(store)
    run, session = await ctx.runs.get("r"), await ctx.sessions.get("s")
    assert (await run.verify()).ok
    messages = [one for one in await session.load() if one["content"] == "turn"]
    events = [one for one in await run.events() if one.payload.get("tool_name") == "turn"]
    found = [
        sum(one["role"] == "user" for one in messages),
        len(events),
        run.working_set.blockers.count("turn"),
        len([slot for slot in await (await ctx.threads.get("t")).slice() if slot.payload == "turn"]),
        len(await ctx.memories.pending()),
        sum(one.id == "m" for one in messages),
    ]
    assert not any(found[parts:])
    return found[:parts]


@pytest.mark.parametrize("parts", [2, 3, 4, 5, 6])
def test_a_turn_is_whole_or_absent_wherever_it_is_cut(parts: int) -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        found = set(await counts(store, parts))
        if results[0] == "done":
            assert found == {1}
        else:
            assert found in ({0}, {1}) and (results[0] == CRASHED or isinstance(results[0], CommitUnknown))

    explored = explore([taking(parts)], check, setup=boot, crashes=1, unknowns=1)
    assert explored.failure is None, str(explored.failure)
    assert explored.schedules > 4


@pytest.mark.parametrize("parts", [2, 4, 6])
def test_a_turn_repeated_after_any_cut_has_happened_once(parts: int) -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await taking(parts, "T-1:7")(store)
        assert set(await counts(store, parts)) == {1}

    explored = explore([taking(parts, "T-1:7")], check, setup=boot, crashes=1, unknowns=1)
    assert explored.failure is None, str(explored.failure)


async def appends(store: AsyncStore) -> None:
    await (await context(store).sessions.get("s")).append({"role": "user", "content": "other"})


async def records(store: AsyncStore) -> None:
    await (await context(store).runs.get("r")).record("TOOL_CALL", {"tool_name": "other"})


async def updates(store: AsyncStore) -> None:
    await (await context(store).runs.get("r")).update(append={"blockers": ["other"]})


async def sends(store: AsyncStore) -> None:
    await context(store).threads.append("t", "other", from_id="b")


async def names(store: AsyncStore) -> Any:
    session = await context(store).sessions.get("s")
    return await session.append({"role": "user", "content": "other", "id": "m"})


@pytest.mark.parametrize("other", [appends, records, updates, sends], ids=lambda other: other.__name__)
def test_parts_that_commute_never_lose_a_race(other: Program) -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results[0] == "done" and results[1] is None
        assert set(await counts(store, 4)) == {1}

    explored = explore([taking(4), other], check, setup=boot)
    assert explored.failure is None, str(explored.failure)


def test_two_turns_are_both_whole() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert list(results) == ["done", "done"]
        assert set(await counts(store, 4)) == {2}

    explored = explore([taking(4), taking(4)], check, setup=boot, reads_in_order=True)
    assert explored.failure is None, str(explored.failure)


def test_two_repeats_at_once_are_one_turn() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert list(results) == ["done", "done"]
        assert set(await counts(store, 4)) == {1}

    explored = explore([taking(4, "T-1:7"), taking(4, "T-1:7")], check, setup=boot, reads_in_order=True)
    assert explored.failure is None, str(explored.failure)


def test_a_turn_whose_id_is_taken_meanwhile_is_refused_whole() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        refused = [isinstance(result, Conflict) for result in results]
        assert sorted(refused) == [False, True]
        assert set(await counts(store, 6)) <= ({0} if refused[0] else {1})

    async def turn(store: AsyncStore) -> Any:
        return await taking(6)(store)

    explored = explore([turn, names], check, setup=boot)
    assert explored.failure is None, str(explored.failure)


def expecting(store: AsyncStore) -> Awaitable[Any]:
    async def program() -> Any:
        ctx = context(store)
        run, session = await ctx.runs.get("r"), await ctx.sessions.get("s")
        async with ctx.turn() as turn:
            turn.append(session, SAID)
            turn.update(run, expected_seq=0, status="BUSY")
        return "done"

    return program()


def test_of_a_turn_and_an_update_that_expect_the_same_one_wins() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        lost = [isinstance(result, Conflict) for result in results]
        assert sorted(lost) == [False, True]
        ctx = context(store)
        run = await ctx.runs.get("r")
        assert run.seq == 1 and (run.working_set.status == "BUSY") is not lost[0]
        assert len(await (await ctx.sessions.get("s")).load()) == (not lost[0])

    async def other(store: AsyncStore) -> Any:
        return await (await context(store).runs.get("r")).update(expected_seq=0, status="PAUSED")

    explored = explore([expecting, other], check, setup=boot)  # type: ignore[list-item]
    assert explored.failure is None, str(explored.failure)


def test_two_turn_with_are_both_kept() -> None:
    def adding(name: str) -> Program:
        async def program(store: AsyncStore) -> Any:
            ctx = context(store)

            async def decide(turn: Any) -> str:
                run = await ctx.runs.get("r")
                turn.append(await ctx.sessions.get("s"), {"role": "user", "content": name})
                turn.update(run, blockers=[*run.working_set.blockers, name])
                return "done"

            return await ctx.turn_with(decide)

        return program

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        ctx = context(store)
        assert sorted((await ctx.runs.get("r")).working_set.blockers) == ["a", "b"]
        assert sorted(one["content"] for one in await (await ctx.sessions.get("s")).load()) == ["a", "b"]

    explored = explore([adding("a"), adding("b")], check, setup=boot)
    assert explored.failure is None, str(explored.failure)
