"""The server is killed under load. Nothing that was acknowledged is lost, and nobody has to open anything again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from strongroom.backends.redis import RedisStore
from strongroom.errors import CommitUnknown, Damaged, Unavailable
from strongroom.store import Commit, Key, Range, new_id
from tests.redis.words import LOG, append, bodies
from tests.servers.valkey import DURABLE, ValkeyServer, start_or_skip

Connect = Callable[..., Any]
CRASHES = 5 * int(os.environ.get("STRONGROOM_CRASHES", "1"))  # five times as many as of others: they are quick
WRITERS, BETWEEN = 3, 25


class Load:
    """Threads that append for ever and note what was acknowledged. One waits for them, never for the clock."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.acknowledged: list[tuple[int, int]] = []
        self.failure: BaseException | None = None
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [threading.Thread(target=self._write, args=(writer,)) for writer in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, more: int) -> None:
        """Return once `more` commits have been acknowledged from now."""
        with self._changed:
            enough = len(self.acknowledged) + more
            done = self._changed.wait_for(lambda: self.failure or len(self.acknowledged) >= enough, 60)
        if self.failure is not None:
            raise self.failure
        assert done, "the writers did not recover"

    def stop(self) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join(60)
        if self.failure is not None:
            raise self.failure

    def _write(self, writer: int) -> None:
        try:
            number = 0
            while not self._stopping:
                commit = append([writer, number])
                self._until_acknowledged(commit)
                with self._changed:
                    self.acknowledged.append((writer, number))
                    self._changed.notify_all()
                number += 1
        except BaseException as error:
            with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _until_acknowledged(self, commit: Commit) -> None:
        for _ in range(50):
            try:
                self.store.commit(commit)
                return
            except (CommitUnknown, Unavailable):  # the same commit again: that is all a caller has to do
                continue
        raise AssertionError("a commit was never answered")


def test_no_acknowledged_commit_is_lost_when_the_server_is_killed(connect: Connect) -> None:
    with start_or_skip(*DURABLE) as server:
        store = connect(server.address(), require_durable=True, timeout_seconds=20)
        load = Load(store)
        for _ in range(CRASHES):
            load.wait_for(BETWEEN)
            server.kill()
            server.start()
        load.wait_for(BETWEEN)
        load.stop()
        found = [tuple(body) for body in bodies(store)]
    assert len(found) == len(set(found)), "something was done twice"
    assert set(load.acknowledged) <= set(found)
    for writer in range(WRITERS):
        mine = [number for who, number in found if who == writer]
        assert mine == list(range(len(mine)))


def test_a_server_that_keeps_nothing_is_found_out(connect: Connect) -> None:
    """The negative control: without its log, the server does lose what it acknowledged, and the store says so."""
    with start_or_skip() as server:
        store = connect(server.address(), timeout_seconds=20)
        store.commit(append("acknowledged"))
        server.kill()
        server.start()
        assert bodies(store) == []
        with pytest.raises(Damaged) as caught:
            store.commit(append("after"))
    assert caught.value.reason == "regressed"
    assert store.durability.name == "volatile"


def test_a_torn_log_is_healed_by_the_server_and_found_out(connect: Connect) -> None:
    """A log cut off in the middle of the last commit loads without it: all of it, and only it."""
    with start_or_skip("--appendonly", "yes", "--appendfsync", "no", "--aof-load-truncated", "yes") as server:
        store = connect(server.address(), timeout_seconds=20)
        store.commit(append("kept"))
        store.commit(
            Commit(new_id(), (), (*append("torn").writes, *append("torn", key=Key("space", "log", "2")).writes))
        )
        server.kill()
        log = max(server.folder.rglob("*.incr.aof"))
        with log.open("rb+") as file:
            file.truncate(log.stat().st_size - 60)
        server.start()
        assert bodies(store) == ["kept"]
        assert bodies(store, Key("space", "log", "2")) == []
        with pytest.raises(Damaged):
            store.commit(append("after"))


def test_a_server_that_stands_still_is_not_waited_for_for_ever(connect: Connect) -> None:
    with start_or_skip() as server:
        hasty, store = connect(server.address(), timeout_seconds=0.4), connect(server.address())
        commit = append("later")
        store.commit(append("before"))
        server.send(signal.SIGSTOP)
        try:
            with pytest.raises(CommitUnknown):
                hasty.commit(commit)
            with pytest.raises(Unavailable):
                hasty.read([Range(LOG)])
        finally:
            server.send(signal.SIGCONT)
        store.commit(commit)
        assert bodies(store) == ["before", "later"]


def test_a_restarted_server_that_evicts_is_refused() -> None:
    with ValkeyServer(*DURABLE) as server, RedisStore(server.address(), timeout_seconds=20) as store:
        store.commit(append("before"))
        server.kill()
        server._settings = (*DURABLE, "--maxmemory-policy", "allkeys-lru")
        server.start()
        with pytest.raises(Unavailable) as caught:
            store.commit(append("after"))
    assert caught.value.reason == "evicting"
