"""The store says what its server can promise, and refuses what would break a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strongroom.backends.redis import RedisStore
from strongroom.backends.redis.failures import Refused
from strongroom.backends.redis.guarantees import DURABLE, RELAXED, UNKNOWN, UNSYNCED, VOLATILE, parse_settings, weakest
from strongroom.bridge import run
from strongroom.errors import CommitUnknown, InvalidInput, StrongroomError, Unavailable
from strongroom.store import Commit, Delete, Durability, Erase, Range, ReceiptOf, Truncate, Write, new_id
from tests.redis.words import DOC, LOG, append, bodies, put, value
from tests.servers.valkey import ValkeyServer, start_or_skip

Connect = Callable[..., Any]
SECRET = "hunter2-%40-pässword"


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    """A server whose settings the tests may change."""
    with start_or_skip("--appendonly", "yes") as server:
        yield server


@pytest.fixture(autouse=True)
def settings(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Change settings of the module's server until the end of the test."""
    if "server" not in request.fixturenames:
        yield lambda **_: None
        return
    server: ValkeyServer = request.getfixturevalue("server")
    with server.client() as client:
        before: dict[str, Any] = {}

        def change(**wanted: str) -> None:
            for name, value in wanted.items():
                name = name.replace("_", "-")
                before.setdefault(name, client.config_get(name)[name])
                client.config_set(name, value)

        yield change
        for name, value in before.items():
            client.config_set(name, value)


@pytest.mark.parametrize(
    ("appendonly", "appendfsync", "wanted"),
    [
        ("yes", "always", DURABLE),
        ("yes", "everysec", RELAXED),
        ("yes", "no", UNSYNCED),
        ("no", "always", VOLATILE),
    ],
)
def test_the_class_follows_the_settings(
    connect: Connect,
    server: ValkeyServer,
    settings: Callable[..., None],
    appendonly: str,
    appendfsync: str,
    wanted: Durability,
) -> None:
    settings(appendonly=appendonly, appendfsync=appendfsync)
    assert connect(server.address()).durability == wanted


def test_a_server_that_hides_its_settings_gets_the_lowest_class(connect: Connect, server: ValkeyServer) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-config", "-info")
    store = connect(server.address().replace("redis://", "redis://guest:pw@"))
    assert store.durability == UNKNOWN
    store.commit(append("still works"))


def test_require_durable_refuses_less(connect: Connect, server: ValkeyServer, settings: Callable[..., None]) -> None:
    settings(appendfsync="everysec")
    with pytest.raises(Unavailable, match="not durable"):
        connect(server.address(), require_durable=True)
    settings(appendfsync="always")
    assert connect(server.address(), require_durable=True).durability.name == "durable"


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_server_that_evicts_is_refused(
    connect: Connect, server: ValkeyServer, settings: Callable[..., None], policy: str
) -> None:
    settings(maxmemory_policy=policy)
    with pytest.raises(Unavailable) as caught:
        connect(server.address())
    assert caught.value.reason == "evicting"


def test_eviction_is_found_even_where_config_is_forbidden() -> None:
    hidden = Refused("NOPERM", "")
    assert (
        parse_settings([hidden, hidden, hidden, b"maxmemory_policy:allkeys-lru\r\n", hidden]).eviction == "allkeys-lru"
    )


def test_several_nodes_promise_what_the_weakest_does() -> None:
    assert weakest([DURABLE, RELAXED]) == RELAXED
    assert weakest([VOLATILE, DURABLE]) == VOLATILE


def test_waiting_for_the_disk_makes_commits_durable(
    connect: Connect, server: ValkeyServer, settings: Callable[..., None]
) -> None:
    settings(appendfsync="everysec")
    store = connect(server.address(), wait_aof=True, require_durable=True)
    assert store.durability == DURABLE
    store.commit(append("on the disk"))
    assert bodies(store) == ["on the disk"]


def test_a_disk_that_does_not_confirm_makes_the_outcome_unknown(
    connect: Connect, server: ValkeyServer, settings: Callable[..., None]
) -> None:
    settings(appendfsync="everysec")
    store = connect(server.address(), wait_aof=True)
    settings(appendonly="no")
    commit = append("unconfirmed")
    with pytest.raises(CommitUnknown) as caught:
        store.commit(commit)
    assert caught.value.reason == "fsync"
    settings(appendonly="yes")
    assert store.commit(commit).versions == (1,)
    assert bodies(store) == ["unconfirmed"]


def test_another_node_that_syncs_by_itself_does_not_end_the_waiting_for_the_first(
    server: ValkeyServer, settings: Callable[..., None]
) -> None:
    settings(appendfsync="everysec")
    with (
        RedisStore(server.address(), wait_aof=True) as store,
        ValkeyServer("--appendonly", "yes", "--appendfsync", "always") as other,
    ):
        run(store._core._connections.exchange([("PING",)], ("127.0.0.1", other.port)))
        assert store.durability == DURABLE
        settings(appendonly="no")
        with pytest.raises(CommitUnknown) as caught:
            store.commit(append("unconfirmed"))
        assert caught.value.reason == "fsync"
        settings(appendonly="yes")


def test_a_receipt_is_not_shown_before_the_disk_has_confirmed_it(
    connect: Connect, server: ValkeyServer, settings: Callable[..., None]
) -> None:
    settings(appendfsync="everysec")
    commit, address = append("unconfirmed"), server.address()
    connect(address).commit(commit)
    store = connect(address, wait_aof=True)
    assert store.read([ReceiptOf("space", commit.id)])[0].versions == (1,)
    settings(appendonly="no")
    with pytest.raises(Unavailable) as caught:
        store.read([ReceiptOf("space", commit.id)])
    assert caught.value.reason == "fsync"
    assert store.read([ReceiptOf("space", "never made"), Range(LOG)])[0] is None
    settings(appendonly="yes")


def test_a_server_that_is_full_refuses_and_changes_nothing(
    connect: Connect, server: ValkeyServer, settings: Callable[..., None]
) -> None:
    store = connect(server.address())
    store.commit(append("before"))
    store.commit(put("before"))
    settings(maxmemory="1")
    for commit in (append("after"), put("after")):
        with pytest.raises(Unavailable) as caught:
            store.commit(commit)
        assert caught.value.reason == "memory"
    assert (bodies(store), value(store)) == (["before"], "before")
    settings(maxmemory="0")
    store.commit(append("after"))
    assert bodies(store) == ["before", "after"]


def test_a_replica_refuses_to_write(connect: Connect, server: ValkeyServer) -> None:
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        store = connect(server.address())
        try:
            with pytest.raises(Unavailable) as caught:
                store.commit(append("no"))
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")
    assert caught.value.reason == "read_only"


def _everything_said(error: BaseException | None) -> str:
    said = ""
    while error is not None:
        said += f"{error} {error!r} {error.args} {vars(error)}"
        error = error.__cause__ or error.__context__
    return said


@pytest.mark.parametrize(
    "address",
    [
        "redis://:{secret}@127.0.0.1:{port}/0",
        "redis://nobody:{secret}@127.0.0.1:{port}/0",
        "redis://:{secret}@127.0.0.1:1/0",
        "redis://:{secret}@127.0.0.1:1{secret}/0",
        "redis://127.0.0.1:{port}/0?password={secret}",
        "redis://:{secret}@127.0.0.1:{port}/0?socket_timeout={secret}",
        "redis://:{secret}@127.0.0.1:{port}/0?prefix={secret}!",
        "redis://:{secret}@127.0.0.1:{port}/0?nonsense={secret}",
    ],
)
def test_a_password_is_never_shown(connect: Connect, server: ValkeyServer, address: str) -> None:
    with pytest.raises((Unavailable, InvalidInput)) as caught:
        connect(address.format(secret=SECRET, port=server.port))
    assert "hunter2" not in _everything_said(caught.value)


def test_a_store_does_not_show_its_password(connect: Connect, server: ValkeyServer) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "shown", "on", ">hunter2", "~*", "&*", "+@all", "-evalsha")
    store = connect(server.address().replace("redis://", "redis://shown:hunter2@"))
    with pytest.raises(StrongroomError) as caught:
        store.commit(append("no"))
    assert isinstance(caught.value, Unavailable) and caught.value.reason == "permission"
    assert "hunter2" not in _everything_said(caught.value) + repr(store)


def test_an_address_of_another_kind_is_refused(connect: Connect) -> None:
    with pytest.raises(InvalidInput, match="redis://"):
        connect("http://127.0.0.1/0")


# ---- access rules ---------------------------------------------------------------------------------------------------


def as_guest(server: ValkeyServer, *rules: str) -> str:
    """Return the address of a store for a user with all rights but these."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "&*", "+@all", *rules)
    return server.address().replace("redis://", "redis://guest:pw@")


@pytest.mark.parametrize(
    "removal", [Truncate(LOG, 2), Truncate(LOG, 3), Delete(LOG)], ids=["some", "everything", "the stream"]
)
def test_a_removal_that_the_rules_forbid_is_refused_and_changes_nothing(
    connect: Connect, server: ValkeyServer, removal: Write
) -> None:
    store = connect(as_guest(server, "-hdel"))
    store.commit(append(1, 2, 3))
    commit = Commit(new_id(), (), (removal, *put("new").writes))
    with pytest.raises(Unavailable, match="nothing changed") as caught:
        store.commit(commit)
    assert caught.value.reason == "permission"
    assert (bodies(store), value(store)) == ([1, 2, 3], None)
    as_guest(server)
    store.commit(commit)
    assert value(store) == "new"


@pytest.mark.parametrize("forbidden", ["unlink", "zrem", "lpop", "lindex", "rpush"])
def test_a_commit_that_is_made_is_acknowledged_whatever_the_rules_forbid(
    connect: Connect, server: ValkeyServer, forbidden: str
) -> None:
    store = connect(as_guest(server, f"-{forbidden}"))
    for n in range(20):
        assert (
            store.commit(Commit(new_id(), (), (*append(n).writes, *put(n, t=str(n)).writes))).versions == (n + 1,) * 2
        )
    store.commit(Commit(new_id(), (), (Erase(LOG, 0, 5), Truncate(LOG, 4))))
    assert store.read([Range(LOG)])[0].records[0].body is None
    store.commit(Commit(new_id(), (), (Delete(LOG), Delete(DOC))))
    assert (bodies(store), value(store)) == ([], None)


def test_what_is_deleted_is_gone_from_the_server_even_without_unlink(connect: Connect, server: ValkeyServer) -> None:
    address = as_guest(server, "-unlink", "-del")
    store = connect(address)
    store.commit(append("secret"))
    store.commit(Commit(new_id(), (), (Delete(LOG),)))
    prefix = address.partition("prefix=")[2]
    with server.client() as client:
        assert not [key for key in client.scan_iter(match=f"*{prefix}*") if b"records" in key]
