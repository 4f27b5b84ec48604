"""Every operation of a session beside every other one, killed anywhere, and with its answer lost.

There is one oracle for all of them: whatever two callers do at once ends as if one had come after the other, in what
they were told and in all that can be seen afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline, run
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, StrongroomError
from strongroom.scope import Scope
from strongroom.services.sessions import writes
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.sessions.values import Message
from strongroom.store import AsyncStore, Commit, Get, Key, Put, Range, new_id
from strongroom.testing import CRASHED, explore
from strongroom.testing.explore import Program
from strongroom.tokens import Custom

Act = Callable[[AsyncSessions, str | None], Awaitable[Any]]
LETTERS = Custom(len, name="letters")
ID = "turn-7"


def sessions(store: AsyncStore) -> AsyncSessions:
    return AsyncSessions(Scope(store, clock=lambda: 1))


def message(text: str, **more: Any) -> Any:
    return {"role": "user", "content": text, **more}


async def begun(store: AsyncStore) -> None:
    """A session with a system message, a pin, and a message that was cut off and can come back."""
    session = await sessions(store).open("s", tags={"user": "ana"})
    await session.append([{"role": "system", "content": "rules"}, *(message(text, id=text) for text in "abcd")])
    await session.pin("b")
    await session.truncate_from("d")


def on_s(act: Callable[[AsyncSession, str | None], Awaitable[Any]]) -> Act:
    async def call(opened: AsyncSessions, commit_id: str | None) -> Any:
        return await act(await opened.get("s"), commit_id)

    return call


OPERATIONS: dict[str, Act] = {
    "open": lambda opened, id: opened.open("s", tokenizer=LETTERS, commit_id=id),
    "create": lambda opened, id: opened.open("f", title="made", commit_id=id),
    "append": on_s(lambda session, id: session.append(message("x"), commit_id=id)),
    "append-id": on_s(lambda session, id: session.append([message("y", id="d", pinned=True)], commit_id=id)),
    "replace": on_s(lambda session, id: session.replace([message("z", id="a")], commit_id=id)),
    "replace_from": on_s(lambda session, id: session.replace_from("b", [message("z", id="c")], commit_id=id)),
    "pop": on_s(lambda session, id: session.pop(commit_id=id)),
    "truncate": on_s(lambda session, id: session.truncate_from("b", commit_id=id)),
    "restore": on_s(lambda session, id: session.restore(commit_id=id)),
    "erase": on_s(lambda session, id: session.erase(["b"], commit_id=id)),
    "delete": lambda opened, id: opened.delete("s", commit_id=id),
    "rename": on_s(lambda session, id: session.rename("renamed", commit_id=id)),
    "metadata": on_s(lambda session, id: session.set_metadata({"k": 1}, commit_id=id)),
    "pin": on_s(lambda session, id: session.pin("a", commit_id=id)),
    "unpin": on_s(lambda session, id: session.unpin("b", commit_id=id)),
    "count_with": on_s(lambda session, id: session.count_with(LETTERS, commit_id=id)),
    "fork": on_s(lambda session, id: session.fork("b", session_id="f", commit_id=id)),
}


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a session of five messages be a long one."""
    monkeypatch.setattr(writes, "DELETED_AT_ONCE", 3)


def told(result: Any) -> Any:
    """Return an answer as something that can be compared."""
    if isinstance(result, StrongroomError):
        return type(result).__name__
    if isinstance(result, AsyncSession):
        return result.id
    if isinstance(result, list):
        return [shown(one) for one in result]
    if isinstance(result, Message):
        return shown(result)
    return result


def shown(one: Message) -> Any:
    return dict(one), one.id, one.index, one.at, one.tokens


async def seen(store: AsyncStore) -> Any:
    """Return all that can be seen of all sessions."""
    found = []
    for info in await sessions(store).list():
        known = LETTERS if info.tokenizer == LETTERS.name else None
        session = await sessions(store).open(info.id, tokenizer=known)
        window = await session.window(60)
        found.append((info, [shown(one) for one in await session.load()], window.messages))
    return found


async def stored(store: AsyncStore) -> int:
    """Return how many messages take up room, seen or not."""
    scope = Scope(store)
    answers = await scope.get_all([Range(scope.key("message", id)) for id in "sf"])
    return sum(len(answer.records) for answer in answers)


def program(name: str, commit_id: str | None = None) -> Program:
    async def act(store: AsyncStore) -> Any:
        return await OPERATIONS[name](sessions(store), commit_id)

    return act


@cache
def serial(*names: str) -> tuple[tuple[Any, ...], Any, int]:
    """Return what is told and what can be seen if operations come one after the other."""

    async def one_by_one() -> tuple[tuple[Any, ...], Any, int]:
        store = Inline(MemoryStore())
        await begun(store)
        results = []
        for name in names:
            try:
                results.append(told(await program(name)(store)))
            except StrongroomError as problem:
                results.append(told(problem))
        return tuple(results), await seen(store), await stored(store)

    return run(one_by_one())


PAIRS = list(combinations_with_replacement(OPERATIONS, 2))


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=["+".join(pair) for pair in PAIRS])
def test_two_at_once_are_as_if_one_came_after_the_other(one: str, other: str) -> None:
    forth, (back, *after) = serial(one, other), serial(other, one)
    allowed = [forth, (back[::-1], *after)]
    if one == other == "delete":
        allowed.append(((None, None), *after))  # whoever finds a deletion under way helps to end it

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert (tuple(map(told, results)), await seen(store), await stored(store)) in allowed

    found = explore([program(one), program(other)], check, setup=begun, reads_in_order=True)
    assert found.failure is None, str(found.failure)
    assert found.schedules > 1


@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_anywhere_it_is_done_or_not_and_a_repeat_ends_as_if_nothing_had_happened(name: str) -> None:
    (answer,), done, room = serial(name)
    before = serial()[1]

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results == (CRASHED,) or told(results[0]) == answer
        assert await seen(store) in ([done] if results != (CRASHED,) else [before, done])
        assert told(await program(name, ID)(store)) == answer
        assert (await seen(store), await stored(store)) == (done, room)

    found = explore([program(name, ID)], check, setup=begun, crashes=1)
    assert found.failure is None, str(found.failure)
    assert found.schedules > 1


@pytest.mark.parametrize("chosen", [ID, None], ids=["chosen", "ours"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_answer_that_was_lost_is_had_by_repeating_the_id(name: str, chosen: str | None) -> None:
    (answer,), done, room = serial(name)

    async def stubborn(store: AsyncStore) -> Any:
        commit_id = chosen
        while True:
            try:
                return await program(name, commit_id)(store)
            except CommitUnknown as problem:
                commit_id = problem.commit_id

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert (told(results[0]), await seen(store), await stored(store)) == (answer, done, room)

    found = explore([stubborn], check, setup=begun, unknowns=2)
    assert found.failure is None, str(found.failure)
    assert found.schedules > 1


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_repeat_while_the_first_is_under_way_is_told_the_same(name: str) -> None:
    (answer,), done, room = serial(name)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert list(map(told, results)) == [answer, answer]
        assert (await seen(store), await stored(store)) == (done, room)

    found = explore([program(name, ID)] * 2, check, setup=begun, reads_in_order=True)
    assert found.failure is None, str(found.failure)


def test_a_session_opened_anew_shows_nothing_of_one_that_came_and_went_meanwhile() -> None:
    """A deletion that died leaves messages behind; whoever looked before that must look again."""

    async def open(store: AsyncStore) -> Any:
        return await sessions(store).open("n")

    async def short_life(store: AsyncStore) -> Any:
        session = await sessions(store).open("n")
        await session.append([message("old")] * 5)
        await session.delete()

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert [info.messages for info in await sessions(store).list()] in ([], [0], [5])

    found = explore([short_life, open], check, crashes=1, reads_in_order=True)
    assert found.failure is None, str(found.failure)


def test_reading_it_all_while_it_is_deleted_gives_all_of_it_or_says_that_it_is_gone() -> None:
    async def reading(store: AsyncStore) -> Any:
        return await (await sessions(store).get("s")).load()

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert told(results[0]) == "NotFound" or [one.content for one in results[0]] == ["rules", "a", "b", "c"]

    found = explore([reading, program("delete")], check, setup=begun)
    assert found.failure is None, str(found.failure)


def test_a_writer_that_forgets_the_expectation_is_caught_here() -> None:
    """The negative control."""

    async def careless(store: AsyncStore) -> None:
        key = Key("default", "session", "s")
        document = await Scope(store).get(Get(key))
        assert document is not None
        value = document.value.load() | {"title": "renamed"}
        await store.commit(Commit(new_id(), (), (Put(key, encode(value), document.tags),)))

    forth, back = serial("rename", "pin"), serial("pin", "rename")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert await seen(store) in (forth[1], back[1])

    assert explore([careless, program("pin")], check, setup=begun).failure is not None
    assert explore([program("rename"), program("pin")], check, setup=begun).failure is None
