"""A connection may break anywhere. Nothing is lost, nothing is done twice, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from strongroom.backends.redis import AsyncRedisStore, core
from strongroom.backends.redis.scripts import COMMIT, Script
from strongroom.errors import Closed, CommitUnknown, Conflict, Unavailable
from strongroom.scope import Scope
from strongroom.store import EXISTS, Append, Commit, Entry, Expect, Range, Receipt, new_id
from tests.redis.proxy import Proxy
from tests.redis.words import DOC, LOG, append, bodies, put
from tests.servers.valkey import ValkeyServer

Connect = Callable[..., Any]
FOR_EVER = 10**9


def test_a_commit_whose_reply_is_cut_off_heals(connect: Connect, valkey_server: ValkeyServer, proxy: Proxy) -> None:
    store = connect(valkey_server.address(port=proxy.port))
    store.commit(append("before"))
    proxy.cut_replies = 1
    assert store.commit(append("cut")).versions == (2,)
    assert bodies(store) == ["before", "cut"]


def test_a_commit_that_never_arrived_heals(connect: Connect, valkey_server: ValkeyServer, proxy: Proxy) -> None:
    store = connect(valkey_server.address(port=proxy.port))
    store.commit(append("before"))
    proxy.cut_requests = 1
    assert store.commit(append("cut")).versions == (2,)
    assert bodies(store) == ["before", "cut"]


def test_a_read_whose_reply_is_cut_off_heals(connect: Connect, valkey_server: ValkeyServer, proxy: Proxy) -> None:
    store = connect(valkey_server.address(port=proxy.port))
    store.commit(append(1, 2))
    proxy.cut_replies = 2
    assert bodies(store) == [1, 2]


def test_without_any_reply_the_outcome_is_unknown(connect: Connect, valkey_server: ValkeyServer, proxy: Proxy) -> None:
    store = connect(valkey_server.address(port=proxy.port), timeout_seconds=3.0)
    store.commit(append("before"))
    proxy.cut_replies = FOR_EVER
    commit = append("cut")
    with pytest.raises(CommitUnknown) as caught:
        store.commit(commit)
    assert caught.value.commit_id == commit.id
    proxy.cut_replies = 0
    assert store.commit(commit) == Receipt(commit.id, (2,), repeated=True)
    assert bodies(store) == ["before", "cut"]


def test_without_receipts_a_cut_commit_is_done_twice(
    connect: Connect, valkey_server: ValkeyServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the tests above: they can fail."""
    forgetful = COMMIT.text.decode().replace("if found[2] then", "if false then")
    monkeypatch.setattr(core, "COMMIT", Script(forgetful))
    store = connect(valkey_server.address(port=proxy.port))
    store.commit(append("before"))
    proxy.cut_replies = 1
    store.commit(append("cut"))
    assert bodies(store) == ["before", "cut", "cut"]


def test_a_late_copy_of_a_refused_commit_changes_nothing(
    connect: Connect, valkey_server: ValkeyServer, proxy: Proxy
) -> None:
    store = connect(valkey_server.address(port=proxy.port))
    store.commit(append("before"))
    proxy.marker = b"late"
    proxy.hold_requests = 1
    entry = Entry("t", append("late").writes[0].entries[0].body)  # type: ignore[union-attr]
    with pytest.raises(Conflict):  # the first copy is still on its way when the second is refused
        store.commit(Commit(new_id(), (Expect(DOC, EXISTS),), (Append(LOG, (entry,)),)))
    store.commit(put("now it exists"))
    proxy.release.set()
    assert proxy.released.wait(60)
    assert bodies(store) == ["before"]


def test_a_commit_id_that_was_voided_can_be_used_again(
    connect: Connect, valkey_server: ValkeyServer, proxy: Proxy
) -> None:
    store = connect(valkey_server.address(port=proxy.port))
    store.commit(append("before"))
    commit = Commit(new_id(), (Expect(DOC, EXISTS),), append("again").writes)
    proxy.cut_replies = 1
    with pytest.raises(Conflict):
        store.commit(commit)
    store.commit(put("now it exists"))
    assert store.commit(commit).versions == (2,)
    assert bodies(store) == ["before", "again"]


def test_a_server_that_is_not_there_changes_nothing(connect: Connect, valkey_server: ValkeyServer) -> None:
    with Proxy(valkey_server.port) as gone:
        store = connect(valkey_server.address(port=gone.port), timeout_seconds=3.0)
    with pytest.raises(Unavailable) as caught:
        store.commit(append("nowhere"))
    assert caught.value.reason == "unreachable"
    with pytest.raises(Unavailable):
        bodies(store)


def test_opening_an_address_where_nobody_listens_says_so(connect: Connect, valkey_server: ValkeyServer) -> None:
    with Proxy(valkey_server.port) as gone:
        address = valkey_server.address(port=gone.port)
    with pytest.raises(Unavailable, match="cannot be reached"):
        connect(address)


def test_waiting_does_not_use_up_the_connections(valkey_server: ValkeyServer) -> None:
    async def scenario() -> None:
        async with await AsyncRedisStore.open(valkey_server.address(), max_connections=1) as store:
            waiting = [asyncio.create_task(store.wait(LOG, 0, 30)) for _ in range(8)]
            await store.commit(put("while they wait"))
            await store.commit(append("wake up"))
            await asyncio.gather(*waiting)

    asyncio.run(scenario())


def test_a_waiter_is_woken_by_another_store(valkey_server: ValkeyServer) -> None:
    async def scenario() -> None:
        address = valkey_server.address()
        async with await AsyncRedisStore.open(address) as here, await AsyncRedisStore.open(address) as there:
            waiting = asyncio.create_task(here.wait(LOG, 0, 30))
            await there.commit(append("wake up"))
            await waiting
            assert (await Scope(here).get(Range(LOG))).length == 1

    asyncio.run(scenario())


def test_a_cancelled_commit_lands_first(valkey_server: ValkeyServer, proxy: Proxy) -> None:
    async def scenario() -> None:
        async with await AsyncRedisStore.open(valkey_server.address(port=proxy.port)) as store:
            await store.commit(append("before"))
            proxy.hold_replies = 1
            task = asyncio.create_task(store.commit(append("cancelled")))
            assert await asyncio.to_thread(proxy.held.wait, 60)
            task.cancel()
            await asyncio.wait([task], timeout=0.05)
            assert not task.done()
            proxy.release.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await Scope(store).get(Range(LOG))).length == 2

    asyncio.run(scenario())


def test_closing_lets_a_commit_under_way_finish(valkey_server: ValkeyServer, proxy: Proxy) -> None:
    async def scenario() -> None:
        store = await AsyncRedisStore.open(valkey_server.address(port=proxy.port))
        await store.commit(append("before"))
        proxy.hold_replies = 1
        task = asyncio.create_task(store.commit(append("last")))
        assert await asyncio.to_thread(proxy.held.wait, 60)
        closing = asyncio.create_task(store.close())
        await asyncio.wait([closing], timeout=0.05)
        assert not closing.done()
        proxy.release.set()
        await closing
        assert (await task).versions == (2,)
        with pytest.raises(Closed):
            await store.commit(append("too late"))

    asyncio.run(scenario())


async def test_whoever_is_cancelled_in_the_moment_of_being_woken_ends(valkey_server: ValkeyServer) -> None:
    store = await AsyncRedisStore.open(valkey_server.address())
    signal = asyncio.Event()
    waiter = asyncio.create_task(store._core._connections.pause(300.0, signal))
    await asyncio.sleep(0)
    signal.set()
    waiter.cancel()
    await asyncio.wait([waiter])
    assert waiter.cancelled()
    await store.close()
