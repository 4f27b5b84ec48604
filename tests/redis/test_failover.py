"""A replica that was behind takes over. What it never received is missed, and never silently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strongroom.errors import Damaged
from strongroom.store import Key
from tests.redis.words import LOG, append, bodies
from tests.servers.valkey import ValkeyServer, start_or_skip

Connect = Callable[..., Any]


class Pair:
    """A primary, its replica, and a door to whichever serves now."""

    def __init__(self, primary: ValkeyServer, replica: ValkeyServer) -> None:
        self.primary, self.replica = primary, replica
        with replica.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", primary.port)

    def catch_up(self) -> None:
        """Return once the replica has everything."""
        with self.primary.client() as primary, self.replica.client() as replica:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                here, there = primary.info("replication"), replica.info("replication")
                up = there.get("master_link_status") == "up"
                if up and there["slave_repl_offset"] == here["master_repl_offset"]:
                    return
        raise AssertionError("the replica did not catch up")

    def cut(self) -> None:
        """Keep the replica from hearing more."""
        with self.replica.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")

    def fail_over(self) -> None:
        """Stop the primary; the replica takes its address over."""
        port = self.primary.port
        self.primary.kill()
        with self.replica.client() as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
            client.config_set("port", port)
        self.replica.port = port


@pytest.fixture
def pair() -> Iterator[Pair]:
    with start_or_skip() as primary, start_or_skip() as replica:
        yield Pair(primary, replica)


def test_a_stale_replica_is_found_out(connect: Connect, pair: Pair) -> None:
    store = connect(pair.primary.address())
    store.commit(append("replicated"))
    pair.catch_up()
    pair.cut()
    store.commit(append("never received"))
    pair.fail_over()
    for _ in range(2):
        with pytest.raises(Damaged) as caught:
            store.commit(append("on top"))
        assert caught.value.reason == "regressed"
    assert bodies(store) == ["replicated"]


def test_a_replica_that_has_everything_takes_over_unnoticed(connect: Connect, pair: Pair) -> None:
    store = connect(pair.primary.address())
    store.commit(append("replicated"))
    pair.catch_up()
    pair.fail_over()
    store.commit(append("on top"))
    assert bodies(store) == ["replicated", "on top"]


def test_a_space_that_lost_nothing_goes_on(connect: Connect, pair: Pair) -> None:
    store = connect(pair.primary.address())
    elsewhere = Key("elsewhere", LOG.kind, LOG.id)
    store.commit(append("replicated", key=elsewhere))
    pair.catch_up()
    pair.cut()
    store.commit(append("never received"))
    pair.fail_over()
    store.commit(append("on top", key=elsewhere))
    assert bodies(store, elsewhere) == ["replicated", "on top"]


def test_opening_again_accepts_what_is_there(connect: Connect, pair: Pair) -> None:
    address = pair.primary.address()
    store = connect(address)
    store.commit(append("replicated"))
    pair.catch_up()
    pair.cut()
    store.commit(append("never received"))
    pair.fail_over()
    again = connect(address)
    again.commit(append("accepted"))
    assert bodies(again) == ["replicated", "accepted"]
