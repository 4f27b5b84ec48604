"""Runs, in every interleaving of two writers and at every crash point: state, ledger and memories always agree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.errors import CommitUnknown, Conflict, NotFound
from strongroom.scope import Scope
from strongroom.store import AsyncStore, Commit, Get, Key, Put, Range, Scan, new_id
from strongroom.testing import CRASHED, explore
from tests.services.test_episodes import REQUEST

Program = Callable[[AsyncStore], Any]


def context(store: AsyncStore) -> AsyncContext:
    return AsyncContext(Scope(store))


async def boot(store: AsyncStore) -> None:
    run = await context(store).runs.create(objective="o", run_id="r")
    await run.update(next_action="booted")


def on_run(act: Callable[[Any], Awaitable[Any]]) -> Program:
    async def program(store: AsyncStore) -> Any:
        return await act(await context(store).runs.get("r"))

    return program


async def agree(store: AsyncStore) -> tuple[Any, list[Any]]:
    """Check that everything stored of the run tells the same story; return the run and its events."""
    ctx = context(store)
    run = await ctx.runs.get("r")
    found = await run.verify()
    assert found.ok, found
    events = list(await run.events(limit=1000))
    told = [event.payload["episode_id"] for event in events if event.type == "MILESTONE"]
    assert [made.episode_id for made in await run.episodes()] == told
    for event in events:
        if event.type == "MEMORY_COMMITTED":
            for id in event.payload["memory_ids"]:
                assert (await ctx.memories.get(id)).status == "active"
    for pointer in run.working_set.artifact_refs:
        assert b"".join([chunk async for chunk in run.artifact(pointer.id)])
    return run, events


async def check_agreement(store: AsyncStore, results: Sequence[Any]) -> None:
    await agree(store)


def add(name: str) -> Program:
    return on_run(lambda run: run.update_with(lambda ws: {"blockers": [*ws.blockers, name]}))


def test_two_update_with_are_both_kept() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        run, _ = await agree(store)
        assert sorted(run.working_set.blockers) == ["a", "b"]

    assert explore([add("a"), add("b")], check, setup=boot).failure is None


def test_a_writer_that_forgets_the_expectation_is_caught_here() -> None:
    """The negative control: without the expectation an update is lost, and the exploration finds where."""

    async def careless(store: AsyncStore) -> None:
        run = await context(store).runs.get("r")
        key = Key("default", "run", "r")
        document = await Scope(store).get(Get(key))
        assert document is not None
        value = document.value.load()
        value["working_set"]["blockers"] = [*run.working_set.blockers, "x"]
        await store.commit(Commit(new_id(), (), (Put(key, encode(value), document.tags),)))

    assert explore([careless, add("b")], check_agreement, setup=boot).failure is not None


def test_of_two_updates_that_expect_the_same_one_wins() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        run, events = await agree(store)
        assert sorted(isinstance(result, Conflict) for result in results) == [False, True]
        assert run.seq == 2
        assert [event.type for event in events].count("WS_UPDATE_REJECTED") == 1

    first = on_run(lambda run: run.update(expected_seq=1, next_action="a"))
    second = on_run(lambda run: run.update(expected_seq=1, next_action="b"))
    assert explore([first, second], check, setup=boot).failure is None


def test_appends_never_conflict() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        run, _ = await agree(store)
        assert sorted(run.working_set.blockers) == ["a", "b"]
        assert not any(isinstance(result, Exception) for result in results)

    first = on_run(lambda run: run.update(append={"blockers": ["a"]}))
    second = on_run(lambda run: run.update(append={"blockers": ["b"]}))
    assert explore([first, second], check, setup=boot).failure is None


def test_three_records_are_gapless_whoever_comes_first() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        _, events = await agree(store)
        assert sorted(told.sequence_id for told in results) == [3, 4, 5]
        assert len(events) == 5

    program = on_run(lambda run: run.record("TOOL_CALL", {"tool_name": "t"}))
    assert explore([program] * 3, check, setup=boot).failure is None


async def proposed(store: AsyncStore) -> None:
    await boot(store)
    await context(store).memories.propose([REQUEST], proposer="a", run_id="r", batch_id="batch")


MILESTONE = on_run(lambda run: run.milestone("m", memory_batch_id="batch", reviewer="ana"))
PLAIN_MILESTONE = on_run(lambda run: run.milestone("m"))
UPDATE = on_run(lambda run: run.update(append={"blockers": ["x"]}))
ATTACH = on_run(lambda run: run.attach(b"content", type="t"))
FORK = on_run(lambda run: run.fork(0, run_id="child"))


async def again_and_again(store: AsyncStore) -> None:
    """Update twice through one handle, which goes on from what it remembers; whatever it is told, try the second."""
    run = await context(store).runs.get("r")
    for number in range(2):
        with suppress(Conflict, CommitUnknown):
            await run.update(next_action=f"{number}")


async def erase(store: AsyncStore) -> Any:
    return await context(store).runs.erase("r", reason="asked to")


@pytest.mark.parametrize(
    "programs",
    [
        [MILESTONE, UPDATE],
        [PLAIN_MILESTONE, PLAIN_MILESTONE],
        [ATTACH, ATTACH],
        [erase, UPDATE],
        [FORK, UPDATE],
        [again_and_again, UPDATE],
        [again_and_again, erase],
    ],
    ids=[
        "milestone-update",
        "milestone-milestone",
        "attach-attach",
        "erase-update",
        "fork-update",
        "again-update",
        "again-erase",
    ],
)
def test_whoever_comes_first_everything_agrees(programs: list[Program]) -> None:
    found = explore(programs, check_agreement, setup=proposed)
    assert found.failure is None, str(found.failure)


def test_an_attachment_never_survives_an_erasure_that_came_after_it() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        run, _ = await agree(store)
        uses, contents = await Scope(store).read(Scan("default", "artifact-use"), Scan("default", "artifact"))
        assert len(uses.documents) == len(contents.documents) == len(run.working_set.artifact_refs)

    assert explore([ATTACH, erase], check, setup=boot).failure is None


def test_erasing_one_user_of_content_and_adding_another_never_lose_it() -> None:
    async def setup(store: AsyncStore) -> None:
        await boot(store)
        ctx = context(store)
        await (await ctx.runs.get("r")).attach(b"content", type="t")
        await ctx.runs.create(objective="o", run_id="other")

    async def attach_other(store: AsyncStore) -> Any:
        return await (await context(store).runs.get("other")).attach(b"content", type="t")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        other = await context(store).runs.get("other")
        [pointer] = other.working_set.artifact_refs
        assert b"".join([chunk async for chunk in other.artifact(pointer.id)]) == b"content"

    assert explore([erase, attach_other], check, setup=setup).failure is None


# ---- crashes and unknown outcomes -----------------------------------------------------------------------------------


async def create(store: AsyncStore) -> Any:
    return (await context(store).runs.create(objective="o", run_id="r")).id


def test_a_crash_in_create_leaves_all_of_the_run_or_none() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        try:
            await agree(store)
        except NotFound:
            assert results == (CRASHED,)
            ledger = await Scope(store).get(Range(Key("default", "ledger", "r")))
            assert ledger.length == 0

    assert explore([create], check, crashes=1).failure is None


@pytest.mark.parametrize(
    "program", [UPDATE, MILESTONE, ATTACH, FORK, erase], ids=["update", "milestone", "attach", "fork", "erase"]
)
def test_a_crash_anywhere_leaves_everything_in_agreement(program: Program) -> None:
    found = explore([program], check_agreement, setup=proposed, crashes=1)
    assert found.failure is None, str(found.failure)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack large enough to be restored in several commits."""
    path = tmp_path_factory.mktemp("packs") / "pack.zip"
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        run.attach(b"content" * 250_000, type="t")
        run.milestone("m")
        run.export(path)
    return path


def test_a_crash_in_restore_leaves_all_of_the_run_or_none_of_it_to_see(pack: Path) -> None:
    async def restore(store: AsyncStore) -> Any:
        return (await context(store).runs.restore(pack)).id

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        try:
            await agree(store)
        except NotFound:
            assert results == (CRASHED,)
            assert list(await context(store).runs.list()) == []

    found = explore([restore], check, crashes=1)
    assert found.failure is None, str(found.failure)
    assert found.schedules > 4


def test_what_a_crashed_restore_left_is_swept_a_day_later(pack: Path) -> None:
    later = 2 * 24 * 3600 * 1_000_000

    async def restore(store: AsyncStore) -> Any:
        return (await context(store).runs.restore(pack)).id

    async def restore_later(store: AsyncStore) -> Any:
        scope = Scope(store, clock=lambda: Scope(store).clock() + later)
        return (await AsyncContext(scope).runs.restore(pack, run_id="later")).id

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        left = await Scope(store).get(Scan("default", "staging"))
        assert left.documents == ()

    found = explore([restore], check, crashes=1, recover=[restore_later])
    assert found.failure is None, str(found.failure)


def test_of_a_restore_and_a_create_of_one_id_one_wins(pack: Path) -> None:
    async def restore(store: AsyncStore) -> Any:
        return (await context(store).runs.restore(pack)).id

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await agree(store)
        assert sum(isinstance(result, Conflict) for result in results) == 1

    found = explore([restore, create], check)
    assert found.failure is None, str(found.failure)


def test_an_update_of_unknown_outcome_is_applied_once_when_repeated_by_its_id() -> None:
    async def stubborn(store: AsyncStore) -> Any:
        run = await context(store).runs.get("r")
        while True:
            try:
                return await run.update(expected_seq=1, next_action="once", commit_id="mine")
            except CommitUnknown:
                continue

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        run, _ = await agree(store)
        assert (run.seq, run.working_set.next_action) == (2, "once")
        assert results[0].seq == 2

    found = explore([stubborn], check, setup=boot, unknowns=2)
    assert found.failure is None, str(found.failure)


def test_a_handle_that_lost_an_answer_never_goes_on_from_what_may_not_be() -> None:
    found = explore([again_and_again], check_agreement, setup=boot, unknowns=1)
    assert found.failure is None, str(found.failure)


LARGE = on_run(lambda run: run.attach(b"content" * 250_000, type="t"))


def test_an_attachment_whose_answer_was_lost_is_whole_or_not_there() -> None:
    async def attach(store: AsyncStore) -> None:
        with suppress(CommitUnknown):
            await LARGE(store)

    found = explore([attach], check_agreement, setup=boot, unknowns=1)
    assert found.failure is None, str(found.failure)


def test_a_restore_whose_answer_was_lost_is_whole_or_not_there(pack: Path) -> None:
    async def restore(store: AsyncStore) -> None:
        with suppress(CommitUnknown):
            await context(store).runs.restore(pack)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        with suppress(NotFound):
            await agree(store)

    found = explore([restore], check, unknowns=1)
    assert found.failure is None, str(found.failure)


def repeated(call: Callable[[AsyncContext, str | None], Awaitable[Any]]) -> Program:
    """Call until it is known how it ended, with the id that the lost answer told."""

    async def program(store: AsyncStore) -> Any:
        commit_id: str | None = None
        while True:
            try:
                return await call(context(store), commit_id)
            except CommitUnknown as lost:
                commit_id = lost.commit_id or commit_id

    return program


async def _create(ctx: AsyncContext, id: str | None) -> Any:
    return (await ctx.runs.create(objective="o", commit_id=id)).id


async def _fork(ctx: AsyncContext, id: str | None) -> Any:
    return (await (await ctx.runs.get("r")).fork(commit_id=id)).id


async def _attach(ctx: AsyncContext, id: str | None) -> Any:
    return await (await ctx.runs.get("r")).attach(b"content", type="t", commit_id=id)


async def _record(ctx: AsyncContext, id: str | None) -> Any:
    return await (await ctx.runs.get("r")).record("TOOL_CALL", {"tool_name": "t"}, commit_id=id)


async def _erase(ctx: AsyncContext, id: str | None) -> Any:
    return await ctx.runs.erase("r", reason="asked to", commit_id=id)


async def _milestone(ctx: AsyncContext, id: str | None) -> Any:
    return await (await ctx.runs.get("r")).milestone("m", commit_id=id)


async def _update(ctx: AsyncContext, id: str | None) -> Any:
    return (await (await ctx.runs.get("r")).update(append={"blockers": ["b"]}, commit_id=id)).seq


def test_an_update_is_done_whatever_becomes_of_the_milestone_that_is_then_due() -> None:
    async def setup(store: AsyncStore) -> None:
        await context(store).runs.create(objective="o", run_id="r", config={"milestone_step_cap": 1})

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        run, _ = await agree(store)
        assert (results[0], run.seq) == (1, 1)

    found = explore([repeated(_update)], check, setup=setup, unknowns=2)
    assert found.failure is None, str(found.failure)


@pytest.mark.parametrize("call", [_create, _fork, _attach, _record, _erase, _milestone])
def test_repeating_by_the_id_that_a_lost_answer_told_does_it_once(call: Any) -> None:
    async def lengths(store: AsyncStore) -> tuple[int, int]:
        await agree(store)
        ledger = await Scope(store).get(Range(Key("default", "ledger", "r"), limit=0))
        return ledger.length, len(await context(store).runs.list())

    ends: set[tuple[int, int]] = set()

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert not isinstance(results[0], Exception), results
        ends.add(await lengths(store))

    found = explore([repeated(call)], check, setup=boot, unknowns=2)
    assert found.failure is None, str(found.failure)
    assert len(ends) == 1


def test_of_two_who_open_one_run_both_get_it() -> None:
    async def opening(store: AsyncStore) -> Any:
        return (await context(store).runs.open("r", objective="o")).id

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        _, events = await agree(store)
        assert list(results) == ["r", "r"]
        assert len(events) == 1

    found = explore([opening, opening], check)
    assert found.failure is None, str(found.failure)
