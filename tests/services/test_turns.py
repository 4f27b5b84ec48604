"""Turns: everything in one commit, on every store, blocking and async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.embedders import Embedder
from strongroom.errors import BudgetExceeded, Closed, Conflict, InvalidInput, NotFound, Unavailable
from strongroom.scope import Scope
from strongroom.services.memories.policy import Policy
from strongroom.store import Commit, Receipt
from tests.awaitable import Awaitable
from tests.services.memory_samples import mcr
from tests.turning import raw, turned

HELLO: Any = {"role": "user", "content": "hello"}
DONE = {"tool_name": "fetch", "ok": True}


async def world(ctx: Any) -> tuple[Any, Any]:
    return await ctx.runs.create(objective="o", run_id="r"), await ctx.sessions.open("s")


def everything(run: Any, session: Any) -> Callable[[Any], None]:
    """Fill a turn with one part of each kind."""

    def fill(turn: Any) -> None:
        turn.append(raw(session), [HELLO, {"role": "assistant", "content": "hi", "id": "m1"}])
        turn.update(raw(run), status="BUSY")
        turn.record(raw(run), "TOOL_RESULT", DONE)
        turn.send("planner", {"task": 1}, from_id="support", to_id="planner")
        turn.propose([mcr("tides turn")], proposer="agent-7", run_id="r")

    return fill


async def seen(ctx: Any) -> tuple[int, str, int, int, int]:
    """Return what can be seen of everything that a turn can write."""
    run = await ctx.runs.get("r")
    return (
        len(await (await ctx.sessions.get("s")).load()),
        run.working_set.status,
        len(await run.events()),
        len(await (await ctx.threads.get("planner")).slice()),
        len(await ctx.memories.pending()),
    )


NOTHING = (0, "BOOT", 1, 0, 0)
ALL = (2, "BUSY", 4, 1, 1)


async def test_everything_in_a_turn_is_there_after_it(ctx: Any) -> None:
    run, session = await world(ctx)
    await turned(ctx, everything(run, session))
    assert await seen(ctx) == ALL
    assert (await run.verify()).ok


async def test_a_turn_answers_as_its_calls_would_have_alone(ctx: Any) -> None:
    run, session = await world(ctx)
    messages, changed, event, slot, batch = await turned(ctx, everything(run, session))
    assert messages == list(await session.load()) and [one.id for one in messages][1] == "m1"
    assert changed == (await ctx.runs.get("r")).working_set
    assert event == (await run.events(types=["TOOL_RESULT"]))[0]
    assert slot == (await (await ctx.threads.get("planner")).slice())[0]
    assert batch == await ctx.memories.batch(batch.id)


@pytest.mark.parametrize("part", range(5), ids=["append", "update", "record", "send", "propose"])
async def test_a_call_of_a_turn_says_what_it_was_given_whatever_becomes_of_that_later(ctx: Any, part: int) -> None:
    run, session = await world(ctx)

    def filling(later: str) -> Callable[[Any], None]:
        def fill(turn: Any) -> None:
            parts: list[Any] = [{"text": "first"} for _ in range(5)]
            parts[4] = mcr("tides turn") | {"metadata": {"text": "first"}}
            turn.append(raw(session), {"role": "user", "content": "hello", "x": parts[0]}, sidecars=[parts[0]])
            turn.update(raw(run), expected_seq=0, state=parts[1])
            turn.record(raw(run), "TOOL_RESULT", {**DONE, "result": parts[2]})
            turn.send("planner", parts[3], from_id="support")
            turn.propose(parts[4], proposer="agent-7")
            (parts[4]["metadata"] if part == 4 else parts[part])["text"] = later

        return fill

    tellings: list[Callable[[list[Any]], Any]] = [
        lambda results: (results[0][0]["x"], results[0][0].sidecar),
        lambda results: results[1].state,
        lambda results: results[2].payload["result"],
        lambda results: results[3].payload,
        lambda results: results[4].proposals[0].request.metadata,
    ]
    told = tellings[part]
    first = told(await turned(ctx, filling("pay 1000"), "k"))
    assert "pay 1000" not in str(first)
    assert told(await turned(ctx, filling("pay 2000"), "k")) == first
    stored = [
        await session.load(),
        (await ctx.runs.get("r")).working_set.state,
        await run.events(types=["TOOL_RESULT"]),
        [slot.payload for slot in await (await ctx.threads.get("planner")).slice()],
        await ctx.memories.pending(),
    ]
    assert "first" in str(stored[part]) and "pay " not in str(stored[part])


async def test_a_turn_refuses_at_once_what_cannot_be_stored(ctx: Any) -> None:
    _, session = await world(ctx)
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    for odd, why in ((deep, "nested deeper"), ((n for n in range(1)), "generator")):
        with pytest.raises(InvalidInput, match=f"{why}.*nothing changed"):
            await turned(ctx, lambda turn, odd=odd: turn.append(raw(session), {**HELLO, "x": odd}))  # type: ignore[misc]


async def test_an_exception_in_the_block_writes_nothing(ctx: Any) -> None:
    run, session = await world(ctx)

    def fails(turn: Any) -> None:
        everything(run, session)(turn)
        raise LookupError("somebody else's")

    with pytest.raises(LookupError):
        await turned(ctx, fails)
    assert await seen(ctx) == NOTHING


async def test_a_mistake_in_any_part_writes_nothing(ctx: Any) -> None:
    run, session = await world(ctx)
    mistakes: list[Callable[[Any], None]] = [
        lambda turn: turn.append(raw(session), [{"role": "user", "content": object()}]),
        lambda turn: turn.append(raw(session), [{**HELLO, "id": "m1"}]),
        lambda turn: turn.update(raw(run), stauts="BUSY"),
        lambda turn: turn.update(raw(run), next_action="word " * 5000),
        lambda turn: turn.record(raw(run), "TOOL_RESULT", {}),
        lambda turn: turn.record(raw(run), "MILESTONE", {"reason": "r"}),
        lambda turn: turn.send("planner", object(), from_id="a"),
        lambda turn: turn.send("planner", {}, from_id=""),
        lambda turn: turn.propose([{"op": "nothing"}], proposer="a"),
    ]
    for mistake in mistakes:

        def fill(turn: Any, mistake: Callable[[Any], None] = mistake) -> None:
            everything(run, session)(turn)
            mistake(turn)

        with pytest.raises(strongroom.StrongroomError):
            await turned(ctx, fill)
        assert await seen(ctx) == NOTHING


async def test_a_stale_update_is_a_conflict_that_names_the_run_and_writes_nothing(ctx: Any) -> None:
    run, session = await world(ctx)
    await (await ctx.runs.get("r")).update(next_action="faster")
    with pytest.raises(Conflict, match=r"run 'r' was expected at seq 0 and is at 1; nothing changed") as lost:
        await turned(ctx, everything(run, session))
    assert (lost.value.expected, lost.value.actual) == (0, 1)
    assert await seen(ctx) == (0, "BOOT", 2, 0, 0)


async def test_what_is_refused_in_a_turn_is_not_recorded(ctx: Any) -> None:
    run, _ = await world(ctx)
    with pytest.raises(Conflict):
        await turned(ctx, lambda turn: turn.update(raw(run), expected_seq=7, status="BUSY"))
    assert [event.type for event in await run.events()] == ["RUN_START"]


async def test_a_stale_revision_is_a_conflict_and_writes_nothing(ctx: Any) -> None:
    run, session = await world(ctx)
    revision = (await session.info()).revision
    await session.append(HELLO)

    def fill(turn: Any) -> None:
        turn.update(raw(run), status="BUSY")
        turn.append(raw(session), HELLO, expected_revision=revision)

    with pytest.raises(Conflict):
        await turned(ctx, fill)
    assert await seen(ctx) == (1, "BOOT", 1, 0, 0)


async def test_a_repeat_changes_nothing_and_answers_the_same(ctx: Any) -> None:
    run, session = await world(ctx)
    first = await turned(ctx, everything(run, session), "T-1:7")
    await session.append(HELLO)
    again = await turned(ctx, everything(await ctx.runs.get("r"), await ctx.sessions.get("s")), "T-1:7")
    assert again == first
    assert await seen(ctx) == (3, *ALL[1:])


async def test_the_same_id_with_other_parts_is_refused(ctx: Any) -> None:
    run, session = await world(ctx)
    await turned(ctx, everything(run, session), "T-1:7")
    with pytest.raises(InvalidInput, match="T-1:7"):
        await turned(ctx, lambda turn: turn.append(raw(session), HELLO), "T-1:7")
    assert await seen(ctx) == ALL


def saying(session: Any) -> Callable[[Any], None]:
    return lambda turn: turn.append(raw(session), HELLO)


async def test_the_same_turn_in_a_session_that_was_opened_anew_is_made(ctx: Any) -> None:
    for _ in range(2):
        session = await ctx.sessions.open("t-1")
        for _ in range(2):
            await turned(ctx, saying(session), "t-1:1")
        assert len(await session.load()) == 1
        await ctx.sessions.delete("t-1")


async def test_other_parts_are_refused_in_a_session_that_was_opened_anew_too(ctx: Any) -> None:
    await turned(ctx, saying(await ctx.sessions.open("t-1")), "t-1:1")
    await ctx.sessions.delete("t-1")
    session = await ctx.sessions.open("t-1")
    with pytest.raises(InvalidInput, match="t-1:1"):
        await turned(ctx, lambda turn: turn.append(raw(session), {"role": "user", "content": "other"}), "t-1:1")
    assert await session.load() == []


async def test_a_handle_goes_on_from_what_the_turn_made(ctx: Any) -> None:
    run, session = await world(ctx)
    await turned(ctx, everything(run, session))
    assert (run.seq, run.working_set.status) == (1, "BUSY")
    assert (await run.update(status="DONE")).seq == 2


async def test_a_repeat_that_lost_its_race_leaves_the_handle_where_the_run_is(ctx: Any) -> None:
    run, _ = await world(ctx)
    stale = await ctx.runs.get("r")

    def fill(turn: Any, handle: Any) -> None:
        turn.update(raw(handle), expected_seq=0, status="BUSY")
        turn.update(raw(handle), expected_seq=0, next_action="wait")

    await turned(ctx, lambda turn: fill(turn, run), "k")
    await turned(ctx, lambda turn: fill(turn, stale), "k")
    assert [(one.seq, one.working_set.next_action) for one in (run, stale)] == [(2, "wait")] * 2
    assert (await stale.update(status="DONE")).seq == 3


async def test_updates_of_one_turn_follow_each_other(ctx: Any) -> None:
    run, _ = await world(ctx)

    def fill(turn: Any) -> None:
        turn.update(raw(run), status="BUSY")
        turn.update(raw(run), append={"blockers": ["b"]})
        turn.record(raw(run), "TOOL_CALL", {"tool_name": "t"})
        turn.update(raw(run), next_action="n")

    await turned(ctx, fill)
    now = run.working_set
    assert (now.seq, now.status, now.blockers, now.next_action) == (3, "BUSY", ("b",), "n")
    assert [(await run.at(seq)).next_action for seq in range(4)] == ["", "", "", "n"]
    assert (await run.verify()).ok


async def test_an_update_of_a_turn_without_a_change_does_not_count(ctx: Any) -> None:
    run, session = await world(ctx)

    def fill(turn: Any) -> None:
        turn.update(raw(run))
        turn.update(raw(run), status="BUSY")
        turn.update(raw(run), append={"blockers": []})
        turn.update(raw(run), next_action="n")
        turn.append(raw(session), [HELLO])

    made = await turned(ctx, fill, "k")
    assert [answer.seq for answer in made[:4]] == [0, 1, 1, 2]
    assert (run.seq, run.working_set.next_action, len(await session.load())) == (2, "n", 1)
    assert (await run.update(status="DONE")).seq == 3
    assert [event.type for event in await run.events()] == ["RUN_START", *["WS_UPDATE_APPLIED"] * 3]


@pytest.mark.parametrize("nothing", [{}, {"state_patch": {}}])
async def test_a_turn_whose_only_part_changes_nothing_leaves_the_run_as_it_is(ctx: Any, nothing: Any) -> None:
    run, _ = await world(ctx)
    await turned(ctx, lambda turn: turn.update(raw(run), **nothing))
    assert (run.seq, len(await run.events())) == (0, 1)


async def test_two_appends_of_one_turn_follow_each_other(ctx: Any) -> None:
    _, session = await world(ctx)

    def fill(turn: Any) -> None:
        for text in "abc":
            turn.append(raw(session), {"role": "system", "content": text, "id": text})

    await turned(ctx, fill)
    assert [one.id for one in await session.load()] == ["a", "b", "c"]
    assert [one["content"] for one in (await session.window(max_tokens=100)).messages] == ["a", "b", "c"]


async def test_an_id_used_twice_in_one_turn_is_refused(ctx: Any) -> None:
    _, session = await world(ctx)

    def fill(turn: Any) -> None:
        turn.append(raw(session), {**HELLO, "id": "same"})
        turn.append(raw(session), {**HELLO, "id": "same"})

    with pytest.raises(Conflict):
        await turned(ctx, fill)
    assert await seen(ctx) == NOTHING


async def test_messages_to_new_and_known_threads_go_together(ctx: Any) -> None:
    await world(ctx)
    await ctx.threads.append("known", 1, from_id="a")

    def fill(turn: Any) -> None:
        turn.send("known", 2, from_id="a")
        turn.send("new", 1, from_id="a")
        turn.send("new", 2, from_id="a")
        turn.send("newer", 1, from_id="a")

    slots = await turned(ctx, fill)
    assert [(slot.thread_id, slot.index) for slot in slots] == [("known", 1), ("new", 0), ("new", 1), ("newer", 0)]
    assert (await ctx.threads.stats()).thread_count == 3


async def test_a_milestone_that_is_due_is_part_of_the_turn(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r", config={"milestone_step_cap": 2})
    session = await ctx.sessions.open("s")

    def fill(turn: Any) -> None:
        turn.update(raw(run), status="BUSY")
        turn.append(raw(session), HELLO)
        turn.update(raw(run), next_action="n")

    await turned(ctx, fill)
    assert [made.reason for made in await run.episodes()] == ["automatic: 2 updates"]
    assert (await run.verify()).ok


async def test_a_session_that_is_gone_takes_the_turn_with_it(ctx: Any) -> None:
    run, session = await world(ctx)
    await (await ctx.sessions.get("s")).delete()
    with pytest.raises(NotFound):
        await turned(ctx, everything(run, session))
    assert [event.type for event in await run.events()] == ["RUN_START"]


async def test_an_empty_turn_is_nothing(ctx: Any) -> None:
    await world(ctx)
    assert await turned(ctx, lambda turn: None) == []
    assert await seen(ctx) == NOTHING


async def test_turn_with_decides_anew_after_a_lost_race(ctx: Any) -> None:
    run, session = await world(ctx)
    context, tries = raw(ctx), []

    def decide(turn: Any) -> int:
        tries.append(run.seq)
        if len(tries) == 1:
            _faster(context)
        turn.append(raw(session), HELLO)
        turn.update(raw(run), blockers=[*run.working_set.blockers, "mine"])
        return len(tries)

    async def decide_async(turn: Any) -> int:
        tries.append(run.seq)
        if len(tries) == 1:
            await (await context.runs.get("r")).update(blockers=["theirs"])
        turn.append(raw(session), HELLO)
        turn.update(raw(run), blockers=[*run.working_set.blockers, "mine"])
        return len(tries)

    blocks = isinstance(ctx, Awaitable)
    assert await ctx.turn_with(decide if blocks else decide_async) == 2
    assert tries == [0, 1]
    assert run.working_set.blockers == ("theirs", "mine")
    assert len(await session.load()) == 1


def _faster(context: Any) -> None:
    context.runs.get("r").update(blockers=["theirs"])


async def test_a_repeat_of_turn_with_does_not_ask(ctx: Any) -> None:
    run, session = await world(ctx)
    assert await ctx.turn_with(everything(run, session), commit_id="c") is None
    assert await ctx.turn_with(lambda turn: 1 / 0, commit_id="c") is None
    assert await seen(ctx) == ALL


async def test_turn_with_begins_several_threads(ctx: Any) -> None:
    tries = []

    def decide(turn: Any) -> None:
        tries.append(1)
        for thread in ("a", "b", "c"):
            turn.send(thread, 1, from_id="x")

    await ctx.turn_with(decide)
    assert len(tries) == 1 and (await ctx.threads.stats()).thread_count == 3


async def test_turn_with_gives_up_on_what_nobody_moved(ctx: Any) -> None:
    run, session = await world(ctx)
    await session.append({**HELLO, "id": "m1"})
    tries = []

    def decide(turn: Any) -> None:
        tries.append(1)
        everything(run, session)(turn)

    with pytest.raises(Conflict):
        await ctx.turn_with(decide)
    assert len(tries) == 2


# ---- several handles and expectations of one thing ------------------------------------------------------------------


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


# ---- bounds, and what is no turn ------------------------------------------------------------------------------------


def test_a_turn_is_bounded() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        with pytest.raises(BudgetExceeded, match="100 parts"), ctx.turn() as turn:
            for _ in range(101):
                turn.append(session, HELLO)
        with pytest.raises(BudgetExceeded, match="bytes"), ctx.turn() as turn:
            for _ in range(8):
                turn.append(session, {"role": "user", "content": "x" * 1_000_000})
        assert len(session) == 0


def test_a_turn_that_is_over_takes_nothing_more() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        with ctx.turn() as turn:
            turn.append(session, HELLO)
        with pytest.raises(Closed, match="over"):
            turn.append(session, HELLO)
        with pytest.raises(Closed, match="over"), turn:
            pass
        assert len(session) == 1


async def test_a_turn_without_a_block_is_refused_at_its_first_call(ctx: Any) -> None:
    run, session = await world(ctx)
    turn = raw(ctx).turn()
    with pytest.raises(InvalidInput, match=r"with ctx.turn.* nothing was written"):
        turn.append(raw(session), HELLO)
    with pytest.raises(InvalidInput, match=r"with ctx.turn.* nothing was written"):
        turn.record(raw(run), "TOOL_CALL", {"tool_name": "t"})
    assert await session.load() == []


def test_the_block_of_a_turn_begins_once() -> None:
    with strongroom.open("memory://") as ctx, ctx.turn() as turn:
        with pytest.raises(InvalidInput, match="begun already"), turn:
            pass
        turn.append(ctx.sessions.open("s"), HELLO)


def test_a_blocking_turn_or_context_that_is_entered_by_async_with_says_with() -> None:
    async def entered(what: Any) -> None:
        async with what:
            pass

    with strongroom.open("memory://") as ctx:
        with pytest.raises(TypeError, match=r"write `with ctx.turn.* nothing was written"):
            asyncio.run(entered(ctx.turn()))
        with pytest.raises(TypeError, match=r"write `with strongroom.open"):
            asyncio.run(entered(ctx))


async def test_an_async_turn_or_context_that_is_entered_by_with_says_async_with() -> None:
    async with strongroom.aopen("memory://") as ctx:
        made: Any = ctx.turn()
        with pytest.raises(TypeError, match=r"write `async with ctx.turn.* nothing was written"), made:
            pass
        same: Any = ctx
        with pytest.raises(TypeError, match=r"write `async with strongroom.aopen"), same:
            pass
    opening: Any = strongroom.aopen("memory://")
    with pytest.raises(TypeError, match=r"write `async with strongroom.aopen"), opening:
        pass


def test_what_is_of_another_context_is_refused() -> None:
    with strongroom.open("memory://") as ctx, strongroom.open("memory://") as other:
        session = other.sessions.open("s")
        with pytest.raises(InvalidInput, match="own context"), ctx.turn() as turn:
            turn.append(session, HELLO)
        with pytest.raises(InvalidInput, match="a Run of this context"), ctx.turn() as turn:
            turn.update("r", status="BUSY")  # type: ignore[arg-type]


def test_a_turn_is_one_commit() -> None:
    with strongroom.open("memory://") as ctx:
        run, session = ctx.runs.create(objective="o", run_id="r"), ctx.sessions.open("s")
        commits: list[Commit] = []
        plain = ctx.store.commit

        def counted(commit: Commit) -> Receipt:
            commits.append(commit)
            return plain(commit)

        ctx.store.commit = counted  # type: ignore[method-assign]
        with ctx.turn() as turn:
            everything(run, session)(turn)
        assert len(commits) == 1


def test_parts_that_commute_expect_no_place() -> None:
    with strongroom.open("memory://") as ctx:
        run, session = ctx.runs.create(objective="o", run_id="r"), ctx.sessions.open("s")
        ctx.threads.append("planner", 0, from_id="a")
        plain = ctx.store.commit

        def meanwhile(commit: Commit) -> Receipt:
            ctx.store.commit = plain  # type: ignore[method-assign]
            session.append(HELLO)
            run.record("TOOL_CALL", {"tool_name": "t"})
            ctx.threads.append("planner", 1, from_id="a")
            return plain(commit)

        ctx.store.commit = meanwhile  # type: ignore[method-assign]
        with ctx.turn() as turn:
            turn.append(session, HELLO)
            turn.record(run, "TOOL_RESULT", DONE)
            turn.send("planner", 2, from_id="a")
        [message], event, slot = turn.results()
        assert (message.index, event.sequence_id, slot.index) == (1, 3, 2)


def test_a_turn_that_is_made_raises_nothing_although_no_anchor_can_be_written(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.anchor_milestones(tmp_path / "no" / "folder.jsonl")
        run = ctx.runs.create(objective="o", config={"milestone_step_cap": 1})
        with ctx.turn() as turn:
            turn.update(run, status="BUSY")
        assert len(run.episodes()) == 1 and run.working_set.status == "BUSY"


def test_a_turn_that_is_made_raises_nothing_although_nothing_can_be_read_afterwards() -> None:
    with strongroom.open("memory://") as ctx:
        sessions = ctx.sessions.using(embedder=Embedder(lambda texts: [[1.0] for _ in texts], name="one"))
        run, session = ctx.runs.create(objective="o"), sessions.open("s")
        read, plain = ctx.store.read, ctx.store.commit

        def fails(questions: Any) -> Any:
            raise Unavailable("away", reason="connection")

        def committed(commit: Commit) -> Receipt:
            made = plain(commit)
            ctx.store.read = fails  # type: ignore[method-assign]
            return made

        ctx.store.commit = committed  # type: ignore[method-assign]
        with ctx.turn() as turn:
            turn.append(session, HELLO)
            turn.update(run, status="BUSY")
        ctx.store.read = read  # type: ignore[method-assign]
        assert len(turn.results()) == 2 and len(session.load()) == 1


async def test_a_turn_that_proposes_what_another_worker_adds_meanwhile_is_planned_anew() -> None:
    policy = Policy(auto_commit=frozenset({"importer"}))
    store = MemoryStore()
    there = AsyncContext(Scope(Inline(store)))
    there.memories = there.memories.using(policy=policy)

    class Overtaken(Inline):
        late = False

        async def commit(self, commit: Commit) -> Receipt:
            if not self.late:
                self.late = True
                await there.memories.propose([mcr("likes tea")], proposer="importer")
            return await super().commit(commit)

    here = AsyncContext(Scope(Overtaken(store)))
    here.memories = here.memories.using(policy=policy)
    async with here.turn() as turn:
        turn.propose([mcr("likes tea")], proposer="importer")
    [batch] = await turn.results()
    assert [each.outcome for each in batch.proposals] == ["duplicate"]


@pytest.mark.parametrize("part", ["append", "update", "record"])
async def test_an_id_in_place_of_a_handle_is_refused_and_told_how_to_get_one(part: str) -> None:
    given: dict[str, tuple[Any, ...]] = {"append": ("s", {}), "update": ("r",), "record": ("r", "ERROR", {})}
    told = r"ctx\.sessions\.get" if part == "append" else r"ctx\.runs\.get"
    with strongroom.open("memory://") as ctx, ctx.turn() as turn, pytest.raises(InvalidInput, match=told):
        getattr(turn, part)(*given[part])
    async with strongroom.aopen("memory://") as actx, actx.turn() as collecting:
        with pytest.raises(InvalidInput, match=told):
            getattr(collecting, part)(*given[part])
