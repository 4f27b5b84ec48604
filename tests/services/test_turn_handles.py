"""Turns in which one run or session stands several times: other handles, and expectations that differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom.errors import Conflict, InvalidInput
from tests.services.test_turns import HELLO, world
from tests.turning import raw, turned


async def test_two_handles_of_one_run_see_one_state_after_a_turn(ctx: Any) -> None:
    run, _ = await world(ctx)
    other = await ctx.runs.get("r")

    def fill(turn: Any) -> None:
        turn.update(raw(run), status="BUSY")
        turn.update(raw(other), next_action="wait")

    await turned(ctx, fill)
    states = [(one.seq, one.working_set.status, one.working_set.next_action) for one in (run, other)]
    assert states == [(2, "BUSY", "wait")] * 2
    await run.update(status="PAUSED")


@pytest.mark.parametrize("stale_first", [True, False])
async def test_a_stale_handle_beside_a_fresh_one_is_refused(ctx: Any, stale_first: bool) -> None:
    run, _ = await world(ctx)
    stale = await ctx.runs.get("r")
    await run.update(status="BUSY")

    def fill(turn: Any) -> None:
        for one in (stale, run) if stale_first else (run, stale):
            turn.update(raw(one), next_action="wait")

    with pytest.raises(Conflict):
        await turned(ctx, fill)
    assert (await ctx.runs.get("r")).seq == 1


async def test_an_edit_that_commutes_needs_no_fresh_handle(ctx: Any) -> None:
    run, _ = await world(ctx)
    stale = await ctx.runs.get("r")
    await run.update(status="BUSY")

    def fill(turn: Any) -> None:
        turn.update(raw(run), next_action="wait")
        turn.update(raw(stale), append={"blockers": ["429s"]})

    await turned(ctx, fill)
    assert [(one.seq, one.working_set.blockers) for one in (run, stale)] == [(3, ("429s",))] * 2


async def test_two_expectations_of_a_run_that_differ_are_refused(ctx: Any) -> None:
    run, _ = await world(ctx)

    def agreeing(turn: Any) -> None:
        turn.update(raw(run), expected_seq=0, status="BUSY")
        turn.update(raw(run), expected_seq=0, next_action="wait")

    def differing(turn: Any) -> None:
        turn.update(raw(run), expected_seq=2, status="PAUSED")
        turn.update(raw(run), expected_seq=3, next_action="go on")

    await turned(ctx, agreeing)
    with pytest.raises(Conflict):
        await turned(ctx, differing)
    now = await ctx.runs.get("r")
    assert (now.seq, now.working_set.status, now.working_set.next_action) == (2, "BUSY", "wait")


async def test_two_expectations_of_a_session_that_differ_are_refused(ctx: Any) -> None:
    _, session = await world(ctx)
    before = (await session.info()).revision
    await session.append(HELLO)
    now = (await session.info()).revision

    def fill(*revisions: str | None) -> Callable[[Any], None]:
        def both(turn: Any) -> None:
            for revision in revisions:
                turn.append(raw(session), HELLO, expected_revision=revision)

        return both

    for revisions in ((now, before), (before, now), (before, before)):
        with pytest.raises(Conflict):
            await turned(ctx, fill(*revisions))
    with pytest.raises(InvalidInput, match="by the first append"):
        await turned(ctx, fill(None, now))
    assert len(await session.load()) == 1
    await turned(ctx, fill(now, now, None))
    assert len(await session.load()) == 4


WRONG: tuple[dict[str, Any], ...] = (
    {"status": "NOPE"},
    {"status": 7},
    {"no_such_field": 1},
    {"append": {"no_such_field": ["x"]}},
    {"append": {"blockers": [7]}},
    {"remove": {"blockers": "x"}},
    {"status": "BUSY", "blockers": ["a"], "append": {"blockers": ["b"]}},
    {"sliding_context": [{"id": "a", "content": "c", "priority": 1, "timestamp": "yesterday"}]},
)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_no_run_could_become_is_refused_when_it_is_said(wrong: dict[str, Any]) -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        with ctx.turn() as turn:
            with pytest.raises(InvalidInput):
                turn.update(run, **wrong)
            turn.update(run, status="BUSY")
        assert (run.seq, run.working_set.status) == (1, "BUSY")
