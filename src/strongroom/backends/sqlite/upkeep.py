"""Looking after a file: how big is it, copy it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from strongroom.backends.sqlite.duty import pending
from strongroom.errors import InvalidInput


class Stats(Struct, frozen=True):
    """How much a store holds, in numbers and bytes, and whether an erasure in it is not complete."""

    documents: int
    streams: int
    records: int
    spaces: int
    receipts: int
    file_bytes: int
    log_bytes: int
    free_bytes: int
    pending: str | None = None


def stats(con: apsw.Connection, path: Path) -> Stats:
    """Count. Records are counted by their index, without visiting them."""
    heads: Any = con.execute(
        "SELECT count(*) FILTER (WHERE stream = 0 AND alive), count(*) FILTER (WHERE stream = 1 AND alive), "
        "count(DISTINCT space) FROM head"
    ).fetchone()
    records: Any = con.execute("SELECT count(*) FROM record").fetchone()
    receipts: Any = con.execute("SELECT count(*) FROM receipt").fetchone()
    return Stats(
        documents=heads[0],
        streams=heads[1],
        spaces=heads[2],
        records=records[0],
        receipts=receipts[0],
        file_bytes=_size(path),
        log_bytes=_size(Path(f"{path}-wal")),
        free_bytes=con.pragma("freelist_count") * con.pragma("page_size"),
        pending=pending(con),
    )


def backup(source: apsw.Connection, target: Path) -> None:
    """Copy the database as it is now into a new file, while others go on. The copy appears whole or not at all."""
    if target.exists():
        raise InvalidInput(f"{target} exists already; a backup never overwrites (nothing changed)")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist (nothing changed)")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        copy = apsw.Connection(str(partial))
        try:
            with copy.backup("main", source, "main") as running:
                while not running.done:
                    running.step(1024)
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, no sidecars
        finally:
            copy.close()
        _sync(partial)
        os.link(partial, target)  # unlike a rename, this refuses to overwrite what appeared meanwhile
        _sync(target.parent)
    except FileExistsError:
        raise InvalidInput(f"{target} exists already; a backup never overwrites (nothing changed)") from None
    finally:
        partial.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
