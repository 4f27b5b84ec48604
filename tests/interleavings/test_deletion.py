"""Deleting a long session under every schedule and at every crash point: whoever comes next finishes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from strongroom.bridge import Inline
from strongroom.errors import NotFound
from strongroom.scope import Scope
from strongroom.services.sessions import writes
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.store import AsyncStore, Delete, Key, Range, Scan
from strongroom.testing.explore import CRASHED, Program, explore

LONG = 7


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "DELETED_AT_ONCE", 2)


def sessions(store: AsyncStore) -> AsyncSessions:
    return AsyncSessions(Scope(store))


async def two_sessions(store: AsyncStore) -> None:
    session = await sessions(store).open("s", user_id="ana")
    await session.append([{"role": "user", "content": f"canaria {n}"} for n in range(LONG)])
    await sessions(store).open("other")


async def deleting(store: AsyncStore) -> None:
    await sessions(store).delete("s")


async def deleting_another(store: AsyncStore) -> None:
    await sessions(store).delete("other")


async def creating(store: AsyncStore) -> None:
    for _ in range(LONG):
        await sessions(store).open()


async def opening_it_anew(store: AsyncStore) -> None:
    await (await sessions(store).open("s")).append({"role": "user", "content": "new"})


async def contents(store: AsyncStore) -> list[Any]:
    return [message["content"] for message in await (await sessions(store).get("s")).load()]


async def nothing_is_left(store: AsyncStore) -> None:
    assert isinstance(store, Inline)
    assert "canaria" not in str((await store.unload(None, 10_000)).items)
    assert (await Scope(store).get(Scan("default", "session_rest"))).documents == ()


@pytest.mark.parametrize("next_one", [deleting_another, creating])
def test_whoever_comes_next_finishes_what_a_kill_at_any_commit_left(next_one: Program) -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        try:
            await sessions(store).get("s")
        except NotFound:
            await nothing_is_left(store)
        else:
            assert results[0] == CRASHED

    found = explore([deleting], check, setup=two_sessions, crashes=1, recover=[next_one])
    assert found.failure is None, str(found.failure)
    assert found.schedules > LONG // 2


def test_a_session_opened_anew_meanwhile_keeps_what_is_its_own_and_loses_nothing() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        part = await Scope(store).get(Range(Key("default", "message", "s")))
        shown = [one async for page in Scope(store).pages(Scan("default", "session")) for one in page]
        is_there = any(one.key.id == "s" for one in shown)
        assert len(part.records) == is_there
        assert not is_there or await contents(store) == ["new"]
        await nothing_is_left(store)

    found = explore([deleting, opening_it_anew], check, setup=two_sessions, reads_in_order=True)
    assert found.failure is None, str(found.failure)


def test_two_who_delete_it_at_once_leave_nothing() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await nothing_is_left(store)

    found = explore([deleting, deleting], check, setup=two_sessions, reads_in_order=True)
    assert found.failure is None, str(found.failure)


def test_without_the_note_what_is_left_would_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.services.sessions.erasure.REST", "session_other")
    monkeypatch.setattr("strongroom.services.sessions.erasure.Put", lambda key, *_: Delete(key))

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        if results[0] == CRASHED and not (await sessions(store).list(tags={"user_id": "ana"})):
            await nothing_is_left(store)

    assert explore([deleting], check, setup=two_sessions, crashes=1, recover=[creating]).failure is not None
