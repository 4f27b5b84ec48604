"""Behind a pooler in transaction mode, where every call may meet another backend and none keeps any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.store import Append, Commit, Entry, Expect, Get, Key, Put, Range, Scan, Tail, new_id
from tests.postgres.proxy import Pooler
from tests.servers.postgres import PostgresServer


@pytest.fixture
def pooled(postgres: str, postgres_server: PostgresServer) -> Iterator[tuple[str, Pooler]]:
    pooler = Pooler(postgres_server.port)
    yield postgres.replace(f":{postgres_server.port}/", f":{pooler.port}/"), pooler
    pooler.close()


def test_a_store_works_behind_a_pooler(connect: Callable[..., Any], postgres: str, pooled: tuple[str, Pooler]) -> None:
    url, pooler = pooled
    connect(postgres)  # creating the tables takes one long transaction, which this simple pooler does not offer
    store = connect(url)
    log, document = Key("acme", "log", "a"), Key("acme", "doc", "a")
    for place in range(10):
        entry = Entry("note", encode(place), weight=1)
        commit = Commit(
            new_id(), (Expect(log, place),), (Append(log, (entry,)), Put(document, encode(place), {"a": "b"}))
        )
        assert store.commit(commit).versions == store.commit(commit).versions
    with pytest.raises(Conflict):
        store.commit(Commit(new_id(), (Expect(log, 3),), ()))
    found, window, page, whole = store.read(
        [Get(document), Tail(log, max_weight=3), Scan("acme", "doc", {"a": "b"}), Range(log)]
    )
    assert (found.version, len(window.records), len(page.documents), whole.length) == (10, 3, 1, 10)
    assert pooler.transactions > 20


def test_waiting_works_behind_a_pooler_that_swallows_notifications(
    connect: Callable[..., Any], postgres: str, pooled: tuple[str, Pooler]
) -> None:
    log = Key("acme", "log", "a")
    direct = connect(postgres)
    direct.commit(Commit(new_id(), (), (Append(log, (Entry("note", encode(1)),)),)))
    behind = connect(pooled[0])
    behind.wait(log, 0, 60.0)
    assert behind.read([Range(log)])[0].length == 1
