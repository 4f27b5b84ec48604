"""Every operation that writes, asked for again: one table, on every store, through every door.

What must be so is said once for all rows of the table, so a test is about one promise and names the rows that break it.
Each row has a space of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from hashlib import blake2b
from typing import Any

import pytest

from strongroom import operations
from strongroom.errors import CommitUnknown, InvalidInput, StrongroomError
from strongroom.store import ExportItem
from tests.repeats.doors import DOORS, Held, House
from tests.repeats.rows import Row
from tests.repeats.table import ROWS
from tests.server.serving import Served, served
from tests.services.memory_samples import mcr

ID = "turn-7"
Looking = AsyncGenerator[None, Held]
Check = Callable[[House, Row, str], Looking]


@pytest.fixture(scope="module")
def running() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, address: str) -> str:
    chosen: str = request.param
    if chosen == "http-async" and address != "memory://":
        pytest.skip("what is behind a server makes no difference to whether its client blocks")
    return chosen


@pytest.fixture
def house(
    address: str, door: str, request: pytest.FixtureRequest, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    server = request.getfixturevalue("running") if door.startswith("http") else None
    made = House(address, door, server, monkeypatch)
    runner.run(made.open())
    yield made
    runner.run(made.close())


# ---- what is promised of each row -----------------------------------------------------------------------------------
#
# `held = yield` looks at what is stored. All rows come as far as that before anybody looks: one look serves them all.


async def the_first_answer_comes_again(house: House, row: Row, space: str) -> Looking:
    ctx, state, first = await called(house, row, space)
    before = yield
    assert await row.call(ctx, state, ID) == first, "another answer"
    after = yield
    assert after[space] == before[space], "something changed"


async def other_content_is_refused(house: House, row: Row, space: str) -> Looking:
    ctx, state, first = await called(house, row, space)
    before = yield
    with pytest.raises(InvalidInput) as refused:
        await row.other_content(ctx, state, ID)
    assert refused.value.path == "commit_id", f"refused for something else: {refused.value}"
    assert ID in str(refused.value), "the caller's own id is not named"
    after = yield
    assert after[space] == before[space], "something changed"
    assert await row.call(ctx, state, ID) == first


async def another_target_is_another_operation(house: House, row: Row, space: str) -> Looking:
    twin = f"{space}-twin"
    its_ctx, its_state, _ = await called(house, row, twin)
    await row.other_target(its_ctx, its_state, "an id of its own")
    ctx, state, first = await called(house, row, space)
    before = yield
    other = await row.other_target(ctx, state, ID)
    after = yield
    assert after[space] != before[space], "nothing was done"
    assert shape(after[space]) == shape(after[twin]), "something else was done"
    assert await row.other_target(ctx, state, ID) == other
    assert await row.call(ctx, state, ID) == first
    at_last = yield
    assert at_last[space] == after[space], "something changed"


async def another_operation_is_another_one(house: House, row: Row, space: str) -> Looking:
    ctx, state, first = await called(house, row, space)
    before = yield
    if row.name == "memories.propose":
        await ctx.runs.create(objective="something else", commit_id=ID)
    else:
        await ctx.memories.propose(mcr("something else"), proposer="somebody else", commit_id=ID)
    after = yield
    assert after[space] != before[space], "nothing was done"
    assert await row.call(ctx, state, ID) == first
    # And one of the same service, about the same thing: what the first one did may be in its way, the id may not.
    place = ROWS.index(row)
    for neighbour in (*ROWS[place + 1 :], *ROWS[:place]):
        if neighbour.prepare is row.prepare and neighbour.name != row.name:
            try:
                await neighbour.call(ctx, state, ID)
            except StrongroomError as refused:
                assert getattr(refused, "path", "") != "commit_id", f"{neighbour.name}: {refused}"
            return


async def a_lost_answer_is_found_again(house: House, row: Row, space: str) -> Looking:
    whole = f"{space}-whole"
    await called(house, row, whole)
    commits = house.line.written_last
    ctx = await house.enter(space)
    state = await row.prepare(ctx)
    house.line.lose = house.line.written + commits
    with pytest.raises(CommitUnknown) as unknown:
        await row.call(ctx, state, ID)
    assert unknown.value.commit_id == ID, "the caller's own id is not named"
    first = await row.call(ctx, state, ID)
    before = yield
    assert shape(before[space]) == shape(before[whole]), "it was done twice, or half"
    assert await row.call(ctx, state, ID) == first
    after = yield
    assert after[space] == before[space], "something changed"


async def two_at_once_are_one(house: House, row: Row, space: str) -> Looking:
    alone = f"{space}-alone"
    await called(house, row, alone)
    ctx, other = await house.enter(space), await house.enter(space)
    state = await row.prepare(ctx)
    house.line.made.clear()
    answers = await house.both(row.call(ctx, state, ID), row.call(other, state, ID))
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    assert answers[0] == answers[1], "two answers"
    assert sum(not receipt.repeated for receipt in house.line.made) <= 1, "two commits"
    held = yield
    assert shape(held[space]) == shape(held[alone]), "two effects"
    assert await row.call(ctx, state, ID) == answers[0]


async def a_session_opened_anew_is_another_target(house: House, row: Row, space: str) -> Looking:
    if not row.name.startswith("session.") or row.name in ("session.delete", "session.erase"):
        return  # it names no session, or nothing undoes what it does to one
    once = f"{space}-once"
    await called(house, row, once)
    ctx, _, _ = await called(house, row, space)
    for info in await ctx.sessions.list():
        await ctx.sessions.delete(info.id)
    state = await row.prepare(ctx)
    again = await row.call(ctx, state, ID)
    after = yield
    wanted, found = shape(after[once]), shape(after[space])
    kinds = [kind for kind in wanted if kind.startswith(("session", "message"))]
    assert {kind: found[kind] for kind in kinds} == {kind: wanted[kind] for kind in kinds}, "it was not done"
    assert await row.call(ctx, state, ID) == again
    at_last = yield
    assert at_last[space] == after[space], "something changed"


# ---- asked of all rows ----------------------------------------------------------------------------------------------


async def test_a_repeat_gives_the_first_answer_and_changes_nothing(house: House) -> None:
    assert await broken(house, the_first_answer_comes_again) == {}


async def test_the_same_id_with_other_content_is_refused_and_changes_nothing(house: House) -> None:
    assert await broken(house, other_content_is_refused) == {}


async def test_the_same_id_for_another_target_is_another_operation(house: House) -> None:
    assert await broken(house, another_target_is_another_operation) == {}


async def test_the_same_id_for_another_operation_is_another_operation(house: House) -> None:
    assert await broken(house, another_operation_is_another_one) == {}


async def test_an_id_says_nothing_of_a_session_that_was_deleted_and_opened_anew(house: House) -> None:
    assert await broken(house, a_session_opened_anew_is_another_target) == {}


async def test_a_repeat_after_a_restart_gives_the_first_answer(house: House) -> None:
    """All are called, then the store is opened again, then all are repeated."""
    made = [await called(house, row, space) for row, space in spaced()]
    await house.restart()
    assert await broken(house, repeated(made)) == {}


async def test_a_repeat_after_29_days_gives_the_first_answer(house: House) -> None:
    """Something is written in each space before the repeat, for that is when stores forget."""
    made = [await called(house, row, space) for row, space in spaced()]
    house.later(days=29)
    for _, space in spaced():
        ctx = await house.enter(space)
        for n in range(3):
            await ctx.threads.append("elsewhere", {"n": n}, from_id="a")
    assert await broken(house, repeated(made)) == {}


async def test_a_repeat_while_the_first_is_under_way_is_the_same_operation(house: House) -> None:
    assert await broken(house, two_at_once_are_one) == {}


async def test_a_repeat_tells_what_became_of_a_lost_answer(house: House) -> None:
    assert await broken(house, a_lost_answer_is_found_again) == {}


# ---- the tests themselves -------------------------------------------------------------------------------------------


def unbound(operation: operations.Operation) -> tuple[str, bytes]:
    """Identify a commit by the caller's id alone, as if nobody else had a turn 7."""
    assert operation.commit_id is not None
    return "!" + operation.commit_id, blake2b(operation.content, digest_size=16).digest()


def undigested(operation: operations.Operation) -> tuple[str, bytes]:
    """Identify a commit as it should be, and look at no content."""
    return identify(operation)[0], b""


identify = operations.identify


@pytest.mark.parametrize("address", ["memory://"])
@pytest.mark.parametrize("door", ["blocking"])
@pytest.mark.parametrize(
    ("mutation", "check"),
    [(unbound, another_target_is_another_operation), (undigested, other_content_is_refused)],
)
async def test_these_tests_find_out_if_ids_are_not_bound_or_contents_not_looked_at(
    house: House, monkeypatch: pytest.MonkeyPatch, mutation: Any, check: Check
) -> None:
    def mutated(operation: operations.Operation) -> tuple[str, bytes]:
        return identify(operation) if operation.commit_id is None else mutation(operation)

    skipped: set[str] = set()
    monkeypatch.setattr(operations, "identify", mutated)
    found = await broken(house, check, skipped)
    assert found.keys() | skipped == {space for _, space in spaced()}


# ---- how they are asked ---------------------------------------------------------------------------------------------


def spaced() -> list[tuple[Row, str]]:
    return [(row, f"{place} {row.name}") for place, row in enumerate(ROWS)]


async def called(house: House, row: Row, space: str) -> tuple[Any, Any, Any]:
    """Prepare a row and make its call for the first time."""
    ctx = await house.enter(space)
    state = await row.prepare(ctx)
    before = house.line.written
    answer = await row.call(ctx, state, ID)
    house.line.written_last = house.line.written - before
    return ctx, state, answer


def repeated(made: list[tuple[Any, Any, Any]]) -> Check:
    """Return the check that each call, made before, is answered in the same way now, and changes nothing."""
    known = dict(zip([space for _, space in spaced()], made, strict=True))

    async def check(house: House, row: Row, space: str) -> Looking:
        _, state, first = known[space]
        ctx = await house.enter(space)
        before = yield
        assert await row.call(ctx, state, ID) == first, "another answer"
        after = yield
        assert after[space] == before[space], "something changed"

    return check


async def broken(house: House, check: Check, skipped: set[str] | None = None) -> dict[str, str]:
    """Return the rows of which a promise does not hold, and why."""
    found = {}
    going = {space: check(house, row, space) for row, space in spaced()}
    held: Held | None = None
    while going:
        for space, looking in list(going.items()):
            try:
                await (anext(looking) if held is None else looking.asend(held))
                continue
            except StopAsyncIteration:
                pass
            except pytest.skip.Exception:
                if skipped is not None:
                    skipped.add(space)
            except (Exception, pytest.fail.Exception) as problem:
                found[space] = f"{type(problem).__name__}: {problem}"
            del going[space]
        if going:
            held = await house.held()
    return found


def shape(items: list[ExportItem]) -> Counter[str]:
    """Return how many documents and records of each kind there are."""
    counted: Counter[str] = Counter()
    for item in items:
        if item.alive:
            counted[item.key.kind] += len(item.records) if item.stream else 1
    return counted
