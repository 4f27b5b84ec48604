"""Turns: everything in one commit, on every store, blocking and async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.payloads import ToolResult
from tests.awaitable import Awaitable
from tests.services.memory_samples import mcr
from tests.turning import raw, turned

HELLO: Any = {"role": "user", "content": "hello"}
DONE: ToolResult = {"tool_name": "fetch", "ok": True}


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
    written = str(msgspec.to_builtins(stored[part]))
    assert "first" in written and "pay " not in written


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
