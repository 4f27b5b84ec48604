"""Whatever the network does, a commit happens at most once, and the caller knows what it can know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from strongroom.backends.postgres import commits
from strongroom.backends.postgres.address import Address, parse
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Conflict, Unavailable
from strongroom.store import EXISTS, Append, Commit, Entry, Expect, Get, Key, Put, Range, ReceiptOf, new_id
from tests.postgres.proxy import Proxy
from tests.servers.postgres import PostgresServer, wait_for_a_lock

KEY = Key("acme", "log", "a")
DOC = Key("acme", "doc", "a")
Connect = Callable[..., Any]


def append(*, expected: int | None = None) -> Commit:
    expects = () if expected is None else (Expect(KEY, expected),)
    return Commit(new_id(), expects, (Append(KEY, (Entry("note", encode("hello")),)),))


def length(store: Any) -> int:
    return int(store.read([Range(KEY)])[0].length)


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    proxy = Proxy(postgres_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def behind(postgres: str, proxy: Proxy, postgres_server: PostgresServer) -> str:
    """The address of the store behind the proxy."""
    return postgres.replace(f":{postgres_server.port}/", f":{proxy.port}/")


@pytest.fixture
def store(connect: Connect, behind: str) -> Any:
    """A store behind the proxy, with one connection, in its pool."""
    store = connect(behind, max_connections=1)
    store.commit(append())
    return store


@pytest.fixture
def hasty(connect: Connect, behind: str) -> Any:
    """The same, for tests in which it must give up."""
    store = connect(behind, max_connections=1)
    store.commit(append())
    vars(store).get("_store", store)._core._timeout = 1.0  # from now on: what must succeed has all the time it needs
    return store


def test_a_reply_lost_after_the_commit_is_found_again(store: Any, proxy: Proxy) -> None:
    commit = append(expected=1)
    proxy.lose_replies()
    assert store.commit(commit).versions == (2,)
    assert proxy.lost == 1
    assert store.commit(commit).versions == (2,)
    assert length(store) == 2


def test_a_request_lost_before_the_commit_is_sent_again(store: Any, proxy: Proxy) -> None:
    proxy.lose_requests()
    assert store.commit(append(expected=1)).versions == (2,)
    assert proxy.lost == 1
    assert length(store) == 2


def test_a_commit_nobody_can_ask_about_is_unknown_and_safe_to_repeat(
    hasty: Any, proxy: Proxy, connect: Connect, postgres: str
) -> None:
    commit = append()
    proxy.lose_replies()
    proxy.refusing = True
    with pytest.raises(CommitUnknown) as unknown:
        hasty.commit(commit)
    assert unknown.value.commit_id == commit.id
    other = connect(postgres)
    assert other.commit(commit).versions == (2,)
    assert length(other) == 2


def test_a_commit_that_was_never_sent_is_not_unknown(hasty: Any, proxy: Proxy) -> None:
    proxy.refusing = True
    proxy.lose_requests()
    with pytest.raises(Unavailable):
        hasty.read([Get(KEY)])  # uses the pooled connection up
    with pytest.raises(Unavailable) as down:
        hasty.commit(append())
    assert down.value.reason == "unreachable"


def test_a_stalled_network_is_given_up_on(hasty: Any, proxy: Proxy, connect: Connect, postgres: str) -> None:
    commit = append()
    proxy.stall()
    with pytest.raises(CommitUnknown):
        hasty.commit(commit)
    proxy.flow()
    other = connect(postgres)
    assert other.commit(commit).versions == (2,)
    assert length(other) == 2


def test_a_read_is_asked_again_on_a_fresh_connection(store: Any, proxy: Proxy) -> None:
    proxy.lose_replies(2)
    assert length(store) == 1
    assert proxy.lost == 2


def test_a_refusal_found_after_a_lost_reply_is_a_refusal(store: Any, proxy: Proxy) -> None:
    proxy.lose_requests()
    with pytest.raises(Conflict) as refused:
        store.commit(append(expected=7))
    assert (refused.value.expected, refused.value.actual) == (7, 1)


def test_what_voids_a_lost_copy_is_no_receipt(store: Any, proxy: Proxy) -> None:
    commit = append(expected=7)
    proxy.lose_requests()
    with pytest.raises(Conflict):
        store.commit(commit)
    assert store.read([ReceiptOf("acme", commit.id)]) == [None]


def test_a_late_copy_of_a_refused_commit_changes_nothing(store: Any, proxy: Proxy) -> None:
    proxy.hold_requests()
    commit = Commit(new_id(), (Expect(DOC, EXISTS),), append().writes)
    with pytest.raises(Conflict):  # the first copy is still on its way when the second is refused
        store.commit(commit)
    store.commit(Commit(new_id(), (), (Put(DOC, encode("now it exists")),)))
    proxy.release()
    assert proxy.late.wait(60)
    assert length(store) == 1
    assert store.commit(commit).versions == (2,)  # the id itself is free: the caller may try again


def test_without_the_void_a_late_copy_is_applied(
    connect: Connect, behind: str, proxy: Proxy, postgres_server: PostgresServer
) -> None:
    """The negative control of the test above."""
    schema = behind.rpartition("=")[2]
    store = connect(behind, max_connections=1)
    with psycopg.connect(postgres_server.superuser("agent"), autocommit=True) as con:
        [(source,)] = con.execute(f"SELECT pg_get_functiondef('{schema}.commit'::regproc)").fetchall()
        con.execute(source.replace("outcome IN (1, 2, 3, 5) AND p_copy > 1", "false"))
    store.commit(append())
    proxy.hold_requests()
    with pytest.raises(Conflict):
        store.commit(Commit(new_id(), (Expect(DOC, EXISTS),), append().writes))
    store.commit(Commit(new_id(), (), (Put(DOC, encode("now it exists")),)))
    proxy.release()
    assert proxy.late.wait(60)
    assert length(store) == 2


def test_a_repeat_waits_for_the_copy_that_still_runs(
    connect: Connect, postgres: str, postgres_server: PostgresServer
) -> None:
    """Two connections: the first copy holds its locks, and has not committed, when the second comes."""
    store = connect(postgres)
    store.commit(append())
    commit, call, address = append(expected=1), commits.new_call(), parse(postgres)
    sql, arguments = address.sql(commits.CALL), commits.arguments(commit, 60, 60)
    with psycopg.connect(address.conninfo) as first, ThreadPoolExecutor(1) as other:
        assert commits.settled(commit, first.execute(sql, (*arguments, call, 1)).fetchone()).versions == (2,)
        repeat = other.submit(_alone, address, sql, (*arguments, call, 2))
        wait_for_a_lock(postgres_server)
        first.commit()
        assert commits.settled(commit, repeat.result(60)).versions == (2,)
    assert length(store) == 2


def _alone(address: Address, sql: str, arguments: tuple[Any, ...]) -> Any:
    with psycopg.connect(address.conninfo) as con:
        return con.execute(sql, arguments).fetchone()


def test_terminated_backends_are_replaced(connect: Connect, postgres: str, postgres_server: PostgresServer) -> None:
    store = connect(postgres)
    store.commit(append())
    for place in range(2, 6):
        with psycopg.connect(postgres_server.superuser(), autocommit=True) as con:
            con.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'agent'")
        assert store.commit(append()).versions == (place,)
        assert length(store) == place


def test_a_refusal_for_a_lock_has_as_much_time_to_come_back_as_there_was_to_wait_for_it() -> None:
    assert commits.arguments(append(), 30.0, 60)[2] == 15_000
    assert commits.while_left(commits.arguments(append(), 30.0, 60), 4.0)[2] == 2_000


def test_a_lock_that_somebody_keeps_is_a_refusal(
    connect: Connect, postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "_patience", lambda seconds: 50)
    key = Key("acme", "doc", "a")
    store = connect(postgres)
    store.commit(Commit(new_id(), (), (Put(key, encode(1)),)))
    commit = Commit(new_id(), (), (Put(key, encode(2)),))
    schema = postgres.rpartition("=")[2]
    with psycopg.connect(postgres_server.superuser("agent")) as con:
        con.execute(f"SELECT FROM {schema}.head FOR UPDATE")
        with pytest.raises(Unavailable) as refused:
            store.commit(commit)
    assert refused.value.reason == "locked"
    assert store.read([Get(key)])[0].version == 1
    assert store.commit(commit).versions == (2,)
