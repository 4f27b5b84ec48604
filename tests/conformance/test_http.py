"""The store behind a server keeps every promise, blocking and async."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.client.store import AsyncHttpStore, HttpStore
from strongroom.errors import Closed
from strongroom.server.app import use_store
from strongroom.store import Answer, AnyQuestion, AsyncStore, Commit, Durability, Key, Receipt, ReceiptOf, Scan, Store
from strongroom.testing import Driven, StoreConformance
from tests.server.serving import Served, served


@pytest.fixture(autouse=True, scope="module")
def server() -> Iterator[None]:
    with served() as started:
        use_store(started.app, OnLoop(MemoryStore(max_record_bytes=TestHttp.max_record_bytes)))
        TestHttp.server = started
        yield


class Tenants:
    """One store over many. A server answers only for the space of a key; the suite makes spaces as it likes."""

    def __init__(self, server: Served, mode: type[TestHttp]) -> None:
        self._server = server
        self._mode = mode
        self._stores: dict[str, Any] = {}
        self._closed = False
        self._lock = threading.Lock()

    @property
    def durability(self) -> Durability:
        stated: Durability = self._of("any").durability
        return stated

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        spaces = [
            question.space if isinstance(question, Scan | ReceiptOf) else question.key.space for question in questions
        ]
        if len(set(spaces)) < 2:
            found: list[Answer] = self._of(spaces[0] if spaces else "any").read(questions)
            return found
        return [self._of(space).read([question])[0] for space, question in zip(spaces, questions, strict=True)]

    def commit(self, commit: Commit) -> Receipt:
        receipt: Receipt = self._of(commit.space).commit(commit)
        return receipt

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        self._of(key.space).wait(key, length, timeout_seconds)

    def close(self) -> None:
        self._closed = True
        for store in self._stores.values():
            store.close()

    def _of(self, space: str) -> Any:
        if self._closed:
            raise Closed("closed")
        with self._lock:
            if space not in self._stores:
                self._stores[space] = self._mode.opened(self._server.url, self._server.key(space))
            return self._stores[space]


class TestHttp(StoreConformance):
    server: Served
    max_record_bytes = 65536

    def make_store(self) -> Store:
        return Tenants(self.server, type(self))

    @staticmethod
    def opened(url: str, key: str) -> Store:
        return HttpStore(url, key=key)


@pytest.mark.skipif(
    "STRONGROOM_CLIENTS" not in os.environ, reason="a minute; STRONGROOM_CLIENTS=http,http-async runs it"
)
class TestHttpAsync(TestHttp):
    @staticmethod
    def opened(url: str, key: str) -> Store:
        async def made() -> AsyncStore:
            return await AsyncHttpStore.open(url, key=key)

        return Driven(made)
