"""The SQLite store keeps every promise, blocking and async."""

from __future__ import annotations

import tempfile
from pathlib import Path

from strongroom.backends.sqlite import SqliteStore
from strongroom.bridge import Threaded
from strongroom.store import AsyncStore, Store
from strongroom.testing import Driven, StoreConformance


class TestSqlite(StoreConformance):
    max_record_bytes = 65536

    def setup_method(self, method: object = None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        super().setup_method()

    def teardown_method(self, method: object = None) -> None:
        super().teardown_method()
        self.folder.cleanup()

    def make_store(self) -> Store:
        return SqliteStore(Path(self.folder.name, "agent.db"), max_record_bytes=self.max_record_bytes)


class TestSqliteEncrypted(TestSqlite):
    def make_store(self) -> Store:
        path = Path(self.folder.name, "agent.db")
        return SqliteStore(path, max_record_bytes=self.max_record_bytes, key=b"k" * 32)


class TestSqliteAsync(TestSqlite):
    secret: bytes | None = None

    def make_store(self) -> Store:
        path = Path(self.folder.name, "agent.db")

        async def opened() -> AsyncStore:
            return Threaded(SqliteStore(path, max_record_bytes=self.max_record_bytes, key=self.secret))

        return Driven(opened)


class TestSqliteEncryptedAsync(TestSqliteAsync):
    secret = b"k" * 32
