"""A cluster of two: each space lives on one node, and the store finds it there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import redis
from strongroom.backends.memory import MemoryStore
from strongroom.backends.redis import RedisStore
from strongroom.backends.redis.layout import Layout
from strongroom.codec import encode
from strongroom.copying import copy
from strongroom.store import Commit, Expect, Get, Key, Put, Range, Scan, new_id
from tests.redis.words import append, bodies
from tests.servers.valkey import ValkeyServer, free_port, start_or_skip

Connect = Callable[..., Any]
SPACES = [f"space{n}" for n in range(12)]
HALF = 8192


class Cluster:
    """Two primaries with half of the slots each."""

    def __init__(self, low: ValkeyServer, high: ValkeyServer) -> None:
        self.low, self.high = low, high
        self._call(low, "ADDSLOTSRANGE", 0, HALF - 1)
        self._call(high, "ADDSLOTSRANGE", HALF, 16383)
        with high.client() as client:
            bus = client.config_get("cluster-port")["cluster-port"]
        self._call(low, "MEET", "127.0.0.1", high.port, bus)
        self.ids = {server.port: self._call(server, "MYID") for server in (low, high)}
        self._settle()

    def address(self) -> str:
        return self.low.address()

    def move(self, slot: int, *, finish: bool) -> None:
        """Move a slot from low to high, with its keys; stop half-way unless told to finish."""
        here, there = self.ids[self.low.port], self.ids[self.high.port]
        self._call(self.high, "SETSLOT", slot, "IMPORTING", here)
        self._call(self.low, "SETSLOT", slot, "MIGRATING", there)
        with self.low.client() as client:
            keys = self._call(self.low, "GETKEYSINSLOT", slot, 1000)
            if keys:
                client.execute_command("MIGRATE", "127.0.0.1", self.high.port, "", 0, 5000, "KEYS", *keys)
        if finish:
            for server in (self.high, self.low):
                self._call(server, "SETSLOT", slot, "NODE", there)

    def _settle(self) -> None:
        deadline = time.monotonic() + 60
        for server in (self.low, self.high):
            while True:
                said = str(self._call(server, "INFO"))
                if "cluster_state:ok" in said and "cluster_known_nodes:2" in said:
                    break
                assert time.monotonic() < deadline, "the cluster did not form"

    @staticmethod
    def _call(server: ValkeyServer, *words: Any) -> Any:
        # One string: the driver would otherwise shape the reply of the commands it knows.
        with server.client() as client:
            connection = client.connection_pool.get_connection()
            try:
                connection.send_command("CLUSTER", *words)
                return connection.read_response()
            finally:
                client.connection_pool.release(connection)


def _node() -> ValkeyServer:
    return start_or_skip("--cluster-enabled", "yes", "--cluster-port", str(free_port()))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with _node() as low, _node() as high:
        yield Cluster(low, high)


def _slot(prefix: str, space: str) -> int:
    return int(redis.crc.key_slot(Layout(prefix).heads(space)))


def _in(space: str, kind: str = "log") -> Key:
    return Key(space, kind, "one")


def test_every_space_is_found_on_its_node(connect: Connect, cluster: Cluster) -> None:
    store = connect(cluster.address())
    for space in SPACES:
        writes = (*append(space, key=_in(space)).writes, Put(_in(space, "doc"), encode(space), {"a": "b"}))
        store.commit(Commit(new_id(), (Expect(_in(space), 0),), writes))
    for space in SPACES:
        found = store.read([Range(_in(space)), Get(_in(space, "doc")), Scan(space, "doc", {"a": "b"})])
        assert [found[0].length, found[1].value, len(found[2].documents)] == [1, encode(space), 1]


def test_both_nodes_are_used(connect: Connect, cluster: Cluster) -> None:
    """The negative control of the test above: the spaces are really spread out."""
    prefix = new_id()
    assert len({_slot(prefix, space) < HALF for space in SPACES}) == 2
    store = connect(cluster.low.address(prefix))
    for space in SPACES:
        store.commit(append(1, key=_in(space)))
    with cluster.low.client() as low, cluster.high.client() as high:
        assert all(len(list(client.scan_iter(match=f"{{{prefix}:*"))) > 0 for client in (low, high))


def test_one_read_may_ask_about_several_spaces(connect: Connect, cluster: Cluster) -> None:
    store = connect(cluster.address())
    for n, space in enumerate(SPACES):
        store.commit(append(*range(n + 1), key=_in(space)))
    found = store.read([Range(_in(space)) for space in reversed(SPACES)])
    assert [slice.length for slice in found] == list(range(len(SPACES), 0, -1))


@pytest.mark.parametrize("finish", [False, True], ids=["moving", "moved"])
def test_a_space_that_moves_is_followed(connect: Connect, cluster: Cluster, finish: bool) -> None:
    prefix = new_id()
    store = connect(cluster.low.address(prefix))
    space = next(space for space in SPACES if _slot(prefix, space) < HALF)
    store.commit(append("before", key=_in(space)))
    cluster.move(_slot(prefix, space), finish=finish)
    store.commit(append("after", key=_in(space)))
    assert bodies(store, _in(space)) == ["before", "after"]


def test_a_cluster_is_moved_as_a_whole(cluster: Cluster) -> None:
    with RedisStore(cluster.address()) as store:
        for space in SPACES:
            store.commit(append(space, key=_in(space)))
        target = MemoryStore()
        assert copy(store, target).keys == len(SPACES)
    assert all(bodies(target, _in(space)) == [space] for space in SPACES)


def test_a_cluster_is_moved_into(cluster: Cluster) -> None:
    source = MemoryStore()
    for space in SPACES:
        source.commit(append(space, key=_in(space)))
    with RedisStore(cluster.address()) as store:
        copy(source, store)
        assert all(bodies(store, _in(space)) == [space] for space in SPACES)
