"""The default store, in one SQLite file."""

from __future__ import annotations

import os
from typing import Literal

from strongroom.arguments import checked
from strongroom.backends.sqlite.read_only import ReadOnlyStore
from strongroom.backends.sqlite.rekeying import rekey
from strongroom.backends.sqlite.store import SqliteStore
from strongroom.encryption import Secret
from strongroom.store import MAX_RECORD_BYTES, REPEATS, Repeats

__all__ = ["ReadOnlyStore", "SqliteStore", "open_file", "rekey"]


@checked
def open_file(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    durability: Literal["durable", "relaxed"] = "durable",
    timeout_seconds: float = 30.0,
    max_record_bytes: int = MAX_RECORD_BYTES,
    repeats: Repeats = REPEATS,
    key: Secret | None = None,
) -> SqliteStore | ReadOnlyStore:
    """Open a file, an encrypted one with its key. With `read_only` nothing is written, nor needed the right to."""
    if read_only:
        return ReadOnlyStore(path, timeout_seconds=timeout_seconds, key=key)
    return SqliteStore(
        path,
        durability=durability,
        timeout_seconds=timeout_seconds,
        max_record_bytes=max_record_bytes,
        repeats=repeats,
        key=key,
    )
