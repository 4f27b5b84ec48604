"""The one way to make an operation: what an attempt may do, and what becomes of its id."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.codec import Json, encode
from strongroom.errors import CommitUnknown, StrongroomError, Unavailable
from strongroom.operations import NOTHING, PARTLY, Operation, Plan, perform, step
from strongroom.scope import Scope
from strongroom.services.turns.overlay import Overlay
from strongroom.store import Commit, Get, Key, Put, Receipt, Scan, new_id

KEY = Key("default", "note", "n")


class Forgetful(MemoryStore):
    """Loses the answer to each commit that puts this value."""

    lost: Any = None

    def commit(self, commit: Commit) -> Receipt:
        receipt = super().commit(commit)
        if any(isinstance(write, Put) and write.value == encode(self.lost) for write in commit.writes):
            self.lost = None
            raise CommitUnknown("the answer was lost", commit_id=commit.id)
        return receipt


def put(value: Any, key: Key = KEY) -> Plan[Any]:
    return Plan((), (Put(key, encode(value)),), lambda receipt: value)


async def unasked(receipt: Receipt) -> Any:
    raise AssertionError("nothing was repeated")


async def test_an_attempt_that_saw_things_change_is_made_again() -> None:
    scope, plans = Scope(Inline(MemoryStore())), [None, None, put("third")]

    async def attempt() -> Plan[Any] | None:
        return plans.pop(0)

    assert await perform(scope, Operation("write", KEY, NOTHING), attempt, unasked) == "third"


async def test_a_lost_step_is_repeated_by_the_id_of_the_operation() -> None:
    store = Forgetful()
    scope = Scope(Inline(store))

    async def first() -> Plan[Any]:
        return put("step", Key("default", "note", "step"))

    async def attempt() -> Plan[Any]:
        await step(scope, KEY, first)
        return put("whole")

    async def write(commit_id: str | None = None) -> Any:
        return await perform(scope, Operation("write", KEY, NOTHING, commit_id), attempt, unasked)

    store.lost = "step"
    with pytest.raises(CommitUnknown) as unknown:
        await write()
    assert await scope.get(Get(KEY)) is None
    assert await write(unknown.value.commit_id) == "whole"
    store.lost = "step"
    with pytest.raises(CommitUnknown) as unknown:
        await write("turn-7")
    assert unknown.value.commit_id == "turn-7"


async def test_an_id_of_ours_that_comes_back_is_not_kept_as_one_that_a_caller_chose() -> None:
    kept: list[bool] = []

    class Seen(Forgetful):
        def commit(self, commit: Commit) -> Receipt:
            kept.append(commit.keep)
            return super().commit(commit)

    store = Seen()
    scope = Scope(Inline(store))

    async def attempt() -> Plan[Any]:
        return put("value")

    async def replay(receipt: Receipt) -> Any:
        return "again"

    store.lost = "value"
    with pytest.raises(CommitUnknown) as unknown:
        await perform(scope, Operation("write", KEY, NOTHING), attempt, replay)
    assert await perform(scope, Operation("write", KEY, NOTHING, unknown.value.commit_id), attempt, replay) == "again"
    await perform(scope, Operation("write", KEY, NOTHING, f"~{'0' * 32}"), attempt, replay)
    await perform(scope, Operation("write", KEY, NOTHING, "turn-7"), attempt, replay)
    assert kept == [False, False, True]


class Elsewhere(MemoryStore):
    """A store that makes operations itself: not before it was given a decision, and not with the first one."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__()
        self.answers, self.asked = answers, list[Operation]()

    def perform(self, operation: Operation) -> Receipt | None:
        self.asked.append(operation)
        answer: Receipt | Exception | None = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def new_id(self) -> str:
        return new_id()


async def unattempted() -> Plan[Any]:
    raise AssertionError("what is made elsewhere is not attempted here")


async def versions(receipt: Receipt) -> Any:
    return receipt.versions


async def decision() -> Json:
    return encode({"decided": True})


async def test_what_is_made_elsewhere_is_answered_from_its_receipt() -> None:
    store = Elsewhere([Receipt("id", (7,))])
    operation = Operation("write", KEY, encode({"a": 1}), "turn-7")
    assert await perform(Scope(Inline(store)), operation, unattempted, versions) == (7,)
    assert store.asked == [operation]


@pytest.mark.parametrize(("commit_id", "undecided"), [(None, 0), ("turn-7", 1)])
async def test_what_its_caller_decides_is_decided_again_until_it_fits(commit_id: str | None, undecided: int) -> None:
    store = Elsewhere([*[None] * undecided, None, None, Receipt("id", (7,))])
    operation = Operation("write", KEY, NOTHING, commit_id)
    assert await perform(Scope(Inline(store)), operation, unattempted, versions, decision) == (7,)
    assert [asked.besides for asked in store.asked] == [None] * undecided + [await decision()] * 3
    assert len({asked.commit_id for asked in store.asked}) == 1


async def test_what_was_done_before_is_not_decided_again() -> None:
    async def undecided() -> Json:
        raise AssertionError("nobody needs to know")

    scope = Scope(Inline(Elsewhere([Receipt("id", (7,), repeated=True)])))
    assert await perform(scope, Operation("write", KEY, NOTHING, "turn-7"), unattempted, versions, undecided) == (7,)


async def test_an_unknown_outcome_elsewhere_names_the_id_to_repeat_with() -> None:
    store = Elsewhere([CommitUnknown("lost", commit_id="some other"), Receipt("id", (7,))])
    with pytest.raises(CommitUnknown) as unknown:
        await perform(Scope(Inline(store)), Operation("write", KEY, NOTHING), unattempted, versions)
    again = Operation("write", KEY, NOTHING, unknown.value.commit_id)
    assert await perform(Scope(Inline(store)), again, unattempted, versions) == (7,)
    assert store.asked[0] == store.asked[1]


async def test_pages_follow_each_other_until_all_was_seen() -> None:
    scope = Scope(Inline(MemoryStore()))

    async def attempt() -> Plan[Any]:
        return Plan((), [Put(Key("default", "note", str(n)), encode(n)) for n in range(5)], lambda receipt: None)

    await step(scope, KEY, attempt)
    pages = [page async for page in scope.pages(Scan("default", "note", limit=2))]
    assert [document.value.load() for page in pages for document in page] == [0, 1, 2, 3, 4]
    assert [page async for page in scope.pages(Scan("default", "nothing"))] == []


async def failing_after(steps: int, scope: Scope, problem: StrongroomError, store: Scope | None = None) -> str:
    """Return what is said of an operation that takes some steps and then fails."""

    async def attempt() -> Plan[Any]:
        for number in range(steps):
            await step(store or scope, KEY, one(number))
        raise problem

    def one(number: int) -> Any:
        async def first() -> Plan[Any]:
            return put(number)

        return first

    with pytest.raises(StrongroomError) as failed:
        await perform(scope, Operation("write", KEY, NOTHING), attempt, unasked)
    return str(failed.value)


async def test_what_fails_before_any_step_says_that_nothing_changed() -> None:
    said = await failing_after(0, Scope(Inline(MemoryStore())), Unavailable("gone", reason="io"))
    assert said == "gone; nothing changed"


@pytest.mark.parametrize("said", ["gone", "gone; nothing changed"])
async def test_what_fails_after_a_step_says_that_part_of_it_is_done(said: str) -> None:
    told = await failing_after(1, Scope(Inline(MemoryStore())), Unavailable(said, reason="io"))
    assert told == "gone; part of it is done, and a repeat goes on"


async def test_a_step_that_fails_after_another_says_that_part_of_it_is_done() -> None:
    scope = Scope(Inline(MemoryStore()))

    async def broken() -> Plan[Any]:
        raise Unavailable("gone", reason="io")

    async def first() -> Plan[Any]:
        return put("first")

    async def attempt() -> Plan[Any]:
        await step(scope, KEY, first)
        return await step(scope, KEY, broken)

    with pytest.raises(Unavailable, match=r"^gone; part of it is done, and a repeat goes on$"):
        await perform(scope, Operation("write", KEY, NOTHING), attempt, unasked)


async def test_what_was_only_planned_is_not_done() -> None:
    scope = Scope(Inline(MemoryStore()))
    planned = Scope(Overlay(scope.store))
    assert await failing_after(1, scope, Unavailable("gone", reason="io"), planned) == "gone; nothing changed"


async def test_a_server_that_did_part_of_it_is_believed() -> None:
    class There(Inline):
        async def perform(self, operation: Operation) -> Receipt | None:
            raise Unavailable(f"gone; {PARTLY}", reason="io")

        async def new_id(self) -> str:
            return new_id()

    said = await failing_after(0, Scope(There(MemoryStore())), Unavailable("not asked", reason="io"))
    assert said == "gone; part of it is done, and a repeat goes on"
