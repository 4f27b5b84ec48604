"""Commits of one event loop that share a message are answered as if each had been sent alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

import strongroom
from strongroom.backends.postgres import AsyncPostgresStore
from strongroom.backends.postgres.failures import Effort
from strongroom.backends.postgres.group_commit import few_keys
from strongroom.backends.postgres.link import AsyncLink
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Conflict, Unavailable
from strongroom.scope import Scope
from strongroom.store import CLAIM, Append, Commit, Entry, Expect, Key, Put, Range, Receipt, new_id


def append(name: str, expected: int | None = None) -> Commit:
    key = Key("acme", "log", name)
    expects = () if expected is None else (Expect(key, expected),)
    return Commit(new_id(), expects, (Append(key, (Entry("note", encode(name)),)),))


def together(url: str, commits: Iterable[Commit]) -> list[Any]:
    """Commit all at once, in one event loop; return receipts and refusals."""

    async def all_of_them() -> list[Any]:
        async with await AsyncPostgresStore.open(url) as store:
            return list(await asyncio.gather(*map(store.commit, commits), return_exceptions=True))

    return asyncio.run(all_of_them())


def lengths(url: str, names: Iterable[str]) -> list[int]:
    async def read() -> list[int]:
        async with await AsyncPostgresStore.open(url) as store:
            answers = await Scope(store).get_all([Range(Key("acme", "log", name), 0, 0) for name in names])
            return [slice.length for slice in answers]

    return asyncio.run(read())


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commits each shared message carried."""
    sent: list[int] = []
    original = AsyncLink.execute_all

    async def execute_all(self: AsyncLink, con: Any, sql: str, calls: Any) -> Any:
        sent.append(len(calls))
        return await original(self, con, sql, calls)

    monkeypatch.setattr(AsyncLink, "execute_all", execute_all)
    return sent


def test_commits_that_come_while_others_are_under_way_share_a_message(postgres: str, messages: list[int]) -> None:
    names = [f"n{n}" for n in range(40)]
    answers = together(postgres, map(append, names))
    assert [answer.versions for answer in answers] == [(1,)] * 40
    assert lengths(postgres, names) == [1] * 40
    assert sum(messages) >= 30 and len(messages) <= 4


def test_a_lone_commit_goes_at_once(postgres: str, messages: list[int]) -> None:
    together(postgres, [append("one")])
    assert messages == []


def test_appends_to_one_stream_get_places_of_their_own(postgres: str) -> None:
    answers = together(postgres, [append("one") for _ in range(30)])
    assert sorted(answer.versions for answer in answers) == [(n,) for n in range(1, 31)]


def test_a_refusal_is_for_the_one_who_deserves_it(postgres: str, messages: list[int]) -> None:
    names = [f"n{n}" for n in range(20)]
    answers = together(postgres, [append(name, 7 if name == "n13" else 0) for name in names])
    assert [type(answer) for answer in answers] == [Conflict if name == "n13" else Receipt for name in names]
    assert lengths(postgres, names) == [0 if name == "n13" else 1 for name in names]
    assert max(messages) > 10


def test_a_repeat_among_others_gets_the_first_answer(postgres: str) -> None:
    first = append("one")
    [receipt] = together(postgres, [first])
    answers = together(postgres, [append("other"), first, append("one"), first])
    assert answers[1] == answers[3] == replace(receipt, repeated=True)
    assert lengths(postgres, ["one"]) == [2]


def test_an_id_that_was_used_otherwise_is_refused_among_others(postgres: str, messages: list[int]) -> None:
    commits = [replace(append(f"n{n % 10}"), id=f"id{n % 10}", digest=b"%d" % n) for n in range(20)]
    answers = together(postgres, commits)
    assert sorted(type(answer).__name__ for answer in answers) == ["InvalidInput"] * 10 + ["Receipt"] * 10
    assert lengths(postgres, [f"n{n}" for n in range(10)]) == [1] * 10
    assert max(messages) > 10


def test_one_id_about_different_keys_is_made_once_among_others(postgres: str) -> None:
    commits = [replace(append(f"n{n}"), id="one", digest=b"%d" % n) for n in range(20)]
    answers = together(postgres, commits)
    assert sorted(type(answer).__name__ for answer in answers) == ["InvalidInput"] * 19 + ["Receipt"]
    assert sum(lengths(postgres, [f"n{n}" for n in range(20)])) == 1


def _losing(monkeypatch: pytest.MonkeyPatch, *, applied: bool) -> None:
    """Lose the connection of the first shared message: after it was committed, or before it was sent."""
    original, lost = AsyncLink.execute_all, False

    async def execute_all(self: AsyncLink, con: Any, sql: str, calls: Any) -> Any:
        nonlocal lost
        if lost:
            return await original(self, con, sql, calls)
        lost = True
        if applied:
            await original(self, con, sql, calls)
        con.pgconn.finish()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(AsyncLink, "execute_all", execute_all)


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_message_is_sent_again_one_by_one_and_applied_once(
    postgres: str, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    _losing(monkeypatch, applied=applied)
    names = [f"n{n}" for n in range(20)]
    answers = together(postgres, map(append, names))
    assert [answer.versions for answer in answers] == [(1,)] * 20
    assert lengths(postgres, names) == [1] * 20


def test_a_refusal_after_a_lost_message_counts_the_lost_copy(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    copy = Effort.copy

    def noting(self: Effort) -> tuple[int, ...]:
        told = copy(self)
        if told:
            copies.append(told[1])
        return told

    monkeypatch.setattr(Effort, "copy", noting)
    _losing(monkeypatch, applied=False)
    together(postgres, [append(f"n{n}") for n in range(20)])
    assert copies.count(2) > 10


def hold(holder: psycopg.Connection, url: str) -> None:
    """Keep the lock of a stream, for as long as the transaction of this connection lasts."""
    schema = url.split("schema=")[1]
    together(url, [append("held")])
    holder.execute("SELECT set_config('strongroom.space', 'acme', true)")
    held = holder.execute(f"SELECT id FROM {schema}.head WHERE id = 'held' FOR UPDATE").fetchall()
    assert held == [("held",)]


@pytest.mark.parametrize("names", [["a", "b", "held", "x", "y", "z"], ["held", "held", "a", "b", "x"]])
def test_a_lock_that_somebody_keeps_holds_up_only_those_who_need_it(postgres: str, names: list[str]) -> None:
    with psycopg.connect(postgres.split("?")[0]) as holder:
        hold(holder, postgres)

        async def all_of_them() -> None:
            async with await AsyncPostgresStore.open(postgres, timeout_seconds=600) as store:
                commits = [(name, asyncio.create_task(store.commit(append(name)))) for name in names]
                for name, commit in commits:
                    if name != "held":
                        assert isinstance(await commit, Receipt)
                assert not any(commit.done() for name, commit in commits if name == "held")
                holder.rollback()
                await asyncio.gather(*(commit for _, commit in commits))

        asyncio.run(all_of_them())


def test_those_who_need_a_lock_that_somebody_keeps_are_told_in_time(postgres: str) -> None:
    with psycopg.connect(postgres.split("?")[0]) as holder:
        hold(holder, postgres)

        async def impatient() -> list[Any]:
            async with await AsyncPostgresStore.open(postgres) as store:
                store._core._timeout = 1.0
                return list(await asyncio.gather(*(store.commit(append("held")) for _ in "12"), return_exceptions=True))

        answers = asyncio.run(impatient())
    # Who waits behind another one who waits begins to wait anew after him, and may not hear of a refusal in time.
    assert all(isinstance(answer, Unavailable | CommitUnknown) for answer in answers), answers


def test_only_commits_about_a_few_keys_travel_together() -> None:
    one, other = Key("acme", "log", "one"), Key("acme", "log", "other")
    assert few_keys(Commit("c", (Expect(other, 0),), (Put(one, encode(1)),))) == (one, other)
    many = [Put(Key("acme", "note", str(n)), encode(n)) for n in range(5)]
    assert few_keys(Commit("c", (), tuple(many))) is None
    assert few_keys(Commit("c", (), (Put(one, encode(1), {CLAIM + "name": "x"}),))) is None


def test_messages_of_many_sessions_share_a_message(postgres: str, messages: list[int]) -> None:
    async def all_of_them() -> None:
        async with strongroom.aopen(postgres) as ctx:
            sessions = [await ctx.sessions.open(str(n)) for n in range(20)]
            await asyncio.gather(*(session.append({"role": "user", "content": "hi"}) for session in sessions))
            assert [(await session.info()).messages for session in sessions] == [1] * 20

    asyncio.run(all_of_them())
    assert sum(messages) >= 10


def test_commits_that_wait_for_each_other_in_a_circle_all_land(postgres: str) -> None:
    names = [f"n{n}" for n in range(6)]
    pairs = [(one, other) for one in names for other in names if one != other]

    async def all_of_them() -> list[Any]:
        async with await AsyncPostgresStore.open(postgres) as one, await AsyncPostgresStore.open(postgres) as other:
            made = [
                store.commit(Commit(new_id(), (), (*append(first).writes, *append(second).writes)))
                for first, second in pairs
                for store in (one, other)
            ]
            return list(await asyncio.gather(*made))

    answers = asyncio.run(all_of_them())
    assert all(isinstance(answer, Receipt) for answer in answers)
    assert lengths(postgres, names) == [20] * 6
