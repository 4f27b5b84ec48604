"""The default store, in one SQLite file."""

from strongroom.backends.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
