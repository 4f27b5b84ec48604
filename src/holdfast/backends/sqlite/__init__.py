"""The default store, in one SQLite file."""

from holdfast.backends.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
