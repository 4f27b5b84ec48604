"""The server dies under load and comes back: nothing acknowledged is lost, and clients go on by themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strongroom.backends.postgres import schema
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Unavailable
from strongroom.store import Append, Commit, Entry, Key, Put, Range, new_id
from tests.missing import had_or_skip
from tests.servers.postgres import PostgresServer

CRASHES = int(os.environ.get("STRONGROOM_CRASHES", "3"))
WRITERS = 4
COMMITS_BETWEEN = 40
SHARED = Key("acme", "log", "shared")


@pytest.fixture(scope="module")
def careless_server() -> Iterator[PostgresServer]:
    """A server that would acknowledge before its log is on disk, unless a commit asks it not to."""
    server = had_or_skip(lambda: PostgresServer("synchronous_commit=off", "wal_writer_delay=10s"))
    yield server
    server.close()


class Load:
    """Threads that append to one stream, and remember what was acknowledged. If they count, each in a document of its
    own, a commit is about two keys and travels alone."""

    def __init__(self, store: Any, counting: bool) -> None:
        self.store = store
        self.counting = counting
        self.acknowledged: dict[str, int] = {}  # body -> its index in the stream
        self.failures: list[BaseException] = []
        self.progress = threading.Condition()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, commits: int) -> None:
        with self.progress:
            assert self.progress.wait_for(lambda: self.failures or len(self.acknowledged) >= commits, 120)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: int) -> None:
        try:
            count = 0
            while not self._stop.is_set():
                count += 1
                body = f"{name}:{count}"
                length, *version = self._commit(name, body)
                assert version == [count] * self.counting, "a commit was applied twice"
                with self.progress:
                    self.acknowledged[body] = length - 1
                    self.progress.notify_all()
        except BaseException as failure:
            with self.progress:
                self.failures.append(failure)
                self.progress.notify_all()

    def _commit(self, name: int, body: str) -> tuple[int, ...]:
        counter = Put(Key("acme", "counter", str(name)), encode(body))
        writes = (Append(SHARED, (Entry("note", encode(body)),)), counter)
        commit = Commit(new_id(), (), writes if self.counting else writes[:1])
        while True:
            try:
                versions: tuple[int, ...] = self.store.commit(commit).versions
                return versions
            except (CommitUnknown, Unavailable):
                continue  # what a caller should do: the same commit again


def survives(store: Any, server: PostgresServer, *, counting: bool = True) -> bool:
    """Crash the server under load, again and again; tell whether all that was acknowledged is there, once."""
    load = Load(store, counting)
    try:
        for _ in range(CRASHES):
            load.wait_for(len(load.acknowledged) + COMMITS_BETWEEN)
            server.crash()
            server.start()
        load.wait_for(len(load.acknowledged) + COMMITS_BETWEEN)
    finally:
        load.stop()
    stored = store.read([Range(SHARED)])[0]
    bodies = [record.body.load() for record in stored.records]
    assert [record.index for record in stored.records] == list(range(stored.length))
    places = {body: place for place, body in enumerate(bodies)}
    kept = all(places.get(body) == place for body, place in load.acknowledged.items())
    return kept and len(places) == len(bodies) and not load.failures


@pytest.mark.parametrize("counting", [True, False])
def test_a_crashing_server_loses_nothing_acknowledged(
    connect: Callable[..., Any], careless_server: PostgresServer, counting: bool
) -> None:
    store = connect(careless_server.new_database())
    assert store.durability.name == "durable"
    assert survives(store, careless_server, counting=counting)


def test_the_crash_test_notices_a_store_that_does_not_insist(
    connect: Callable[..., Any], careless_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = schema.script
    monkeypatch.setattr(schema, "script", lambda name: script(name).replace("commit', 'on'", "commit', 'off'"))
    assert not survives(connect(careless_server.new_database()), careless_server)
