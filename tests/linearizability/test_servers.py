"""Whatever happens to servers, connections and clients, what clients see can be explained by one order of their calls.

STRONGROOM_HISTORIES says how many histories are recorded on each server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from strongroom.backends.postgres import AsyncPostgresStore, PostgresStore
from strongroom.backends.redis import AsyncRedisStore, RedisStore
from strongroom.errors import Unavailable
from strongroom.store import AnyQuestion, AsyncStore, Commit, Durability, Receipt, Store
from strongroom.testing import Driven
from tests.linearizability.crowd import HASTY, Scene, explained, unknowns
from tests.missing import had_or_skip
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import DURABLE, ValkeyServer, start_or_skip

HISTORIES = int(os.environ.get("STRONGROOM_HISTORIES", "50"))
HASTY_SECONDS, PATIENT_SECONDS = 0.4, 30.0


def patience(client: int) -> float:
    return HASTY_SECONDS if client == HASTY else PATIENT_SECONDS


def at_last(opened: Callable[[], Store]) -> Store:
    """Open a store. On a busy machine that may take longer than the hasty one waits; then it is tried again."""
    for _ in range(100):
        with suppress(Unavailable):
            return opened()
    return opened()


@pytest.fixture(scope="module")
def postgres_scene() -> Iterator[Scene]:
    server = had_or_skip(lambda: PostgresServer("fsync=off"))  # the machine stays up, only the server crashes
    address = server.new_database()

    def connect(client: int, port: int) -> Store:
        url = address.replace(f":{server.port}/", f":{port}/")
        options: dict[str, Any] = {"max_connections": 2, "timeout_seconds": patience(client)}

        async def opened() -> AsyncStore:
            return await AsyncPostgresStore.open(url, **options)

        return at_last(lambda: PostgresStore(url, **options) if client % 2 else Driven(opened))

    PostgresStore(address).close()  # so that the hasty one finds the tables made
    scene = Scene(server, server.port, connect)
    yield scene
    scene.close()
    server.close()


class Valkey(ValkeyServer):
    def crash(self) -> None:
        self.kill()


@pytest.fixture(scope="module")
def redis_scene() -> Iterator[Scene]:
    start_or_skip().close()
    with Valkey(*DURABLE) as started:
        server: Any = started
        address = server.address()

        def connect(client: int, port: int) -> Store:
            url = address.replace(f":{server.port}/", f":{port}/")

            async def opened() -> AsyncStore:
                return await AsyncRedisStore.open(url, timeout_seconds=patience(client))

            return at_last(lambda: RedisStore(url, timeout_seconds=patience(client)) if client % 2 else Driven(opened))

        scene = Scene(server, server.port, connect)
        yield scene
        scene.close()


@pytest.fixture(params=["postgres", "redis"])
def scene(request: pytest.FixtureRequest) -> Scene:
    made: Scene = request.getfixturevalue(f"{request.param}_scene")
    return made


def test_one_order_explains_what_clients_see_whatever_fails(scene: Scene) -> None:
    lost = 0
    scene.struck.clear()
    for seed in range(HISTORIES):
        history = scene.history(seed)
        assert explained(history), f"history {seed} has no explanation: {history}"
        lost += unknowns(history)
    assert lost, "no outcome was unknown: the faults did not strike"
    assert scene.struck == {"crash", "reply lost", "request lost", "no replies", "pause", "cuts"}


# ---- the control: a store with a bug in front of the same server ----------------------------------------------------


class Wrapped:
    """Passes everything on."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def durability(self) -> Durability:
        return self.store.durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Any]:
        return self.store.read(questions)

    def commit(self, commit: Commit) -> Receipt:
        return self.store.commit(commit)

    def close(self) -> None:
        self.store.close()


class DropsExpectations(Wrapped):
    def commit(self, commit: Commit) -> Receipt:
        return self.store.commit(Commit(commit.id, (), commit.writes))


class AnswersFromAnOldRead(Wrapped):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._old: dict[AnyQuestion, Any] = {}

    def read(self, questions: Sequence[AnyQuestion]) -> list[Any]:
        fresh = super().read(questions)
        return [self._old.setdefault(question, answer) for question, answer in zip(questions, fresh, strict=True)]


class ForgetsWhatItSent(Wrapped):
    """Sends a commit twice, the second time under another id: what a driver's own retry would do."""

    def commit(self, commit: Commit) -> Receipt:
        self.store.commit(commit)
        return self.store.commit(Commit(f"{commit.id}-again", (), commit.writes))


@pytest.mark.parametrize("wrong", [DropsExpectations, AnswersFromAnOldRead, ForgetsWhatItSent])
def test_a_planted_bug_is_caught(scene: Scene, wrong: Callable[[Store], Store]) -> None:
    without_faults = range(9, 200, 10)
    assert not all(explained(scene.history(seed, wrong=wrong)) for seed in without_faults)
