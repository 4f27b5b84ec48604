"""The bounds of a turn: how much it holds, where it begins and ends, and that it is one commit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.embedders import Embedder
from strongroom.errors import BudgetExceeded, Closed, InvalidInput, Unavailable
from strongroom.scope import Scope
from strongroom.services.memories.policy import Policy
from strongroom.store import Commit, Receipt
from tests.services.memory_samples import mcr
from tests.services.test_turns import DONE, HELLO, everything, world
from tests.turning import raw


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
