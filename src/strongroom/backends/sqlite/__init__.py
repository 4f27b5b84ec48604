"""The default store, in one SQLite file."""

from __future__ import annotations

import os
from typing import Literal

from strongroom.arguments import checked
from strongroom.backends.sqlite.read_only import ReadOnlyStore, is_read_only
from strongroom.backends.sqlite.store import SqliteStore
from strongroom.store import MAX_RECORD_BYTES, REPEATS, Repeats

__all__ = ["ReadOnlyStore", "SqliteStore", "is_read_only", "open_file"]


@checked
def open_file(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    durability: Literal["durable", "relaxed"] = "durable",
    timeout_seconds: float = 30.0,
    max_record_bytes: int = MAX_RECORD_BYTES,
    repeats: Repeats = REPEATS,
) -> SqliteStore | ReadOnlyStore:
    """Open a file. With `read_only` nothing is written, and no right to write is needed."""
    if read_only:
        return ReadOnlyStore(path, timeout_seconds=timeout_seconds)
    return SqliteStore(
        path,
        durability=durability,
        timeout_seconds=timeout_seconds,
        max_record_bytes=max_record_bytes,
        repeats=repeats,
    )
