"""Looking after a file: is it whole, how big is it, copy it, shrink it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from strongroom.backends.memory import link
from strongroom.backends.sqlite.labels import label, tags_of
from strongroom.backends.sqlite.rows import MASK, RECORD_COLUMNS, checksum, record_sum
from strongroom.backends.sqlite.schema import INDEX_BITS
from strongroom.errors import InvalidInput

MOST_PROBLEMS = 100


class Check(Struct, frozen=True):
    """What `check()` found. `problems` is empty when every page, row, checksum, index and chain is right."""

    ok: bool
    documents: int
    streams: int
    records: int
    problems: tuple[str, ...]


class Stats(Struct, frozen=True):
    """How much a store holds, in numbers and bytes."""

    documents: int
    streams: int
    records: int
    spaces: int
    file_bytes: int
    log_bytes: int
    free_bytes: int


def check(con: apsw.Connection) -> Check:
    """Verify everything, streaming; stop after a hundred problems."""
    problems: list[str] = []
    counts = {"documents": 0, "streams": 0, "records": 0}
    for problem in _walk(con, counts):
        problems.append(problem)
        if len(problems) >= MOST_PROBLEMS:
            break
    return Check(not problems, problems=tuple(problems), **counts)


def _walk(con: apsw.Connection, counts: dict[str, int]) -> Iterator[str]:
    for (line,) in con.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})").fetchall():
        if line != "ok":
            yield f"database: {line}"
    heads = con.execute(
        "SELECT ref, space, kind, id, stream, alive, version, value, tags, text, chain, sum FROM head ORDER BY ref"
    )
    tags = 0
    for head in heads:
        ref, space, kind, id, stream, alive, version, *rest, total = head
        name = f"{kind} {id!r} in {space!r}"
        counts["streams" if stream else "documents"] += 1
        if checksum((space, kind, id, ref, stream, alive, version, *rest)) != total:
            yield f"{name}: does not match its checksum"
        elif stream:
            yield from _walk_stream(con, name, int(ref), int(version), rest[-1], counts)
        else:
            for pair in tags_of(rest[1]).items():
                tags += 1
                carried = (label(space, kind, *pair), ref)
                if con.execute("SELECT 1 FROM tag WHERE label = ? AND ref = ?", carried).fetchone() is None:
                    yield f"{name}: is not found by one of its tags"
    kept: Any = con.execute("SELECT count(*) FROM tag").fetchone()
    if kept[0] > tags:
        yield "database: there are tags that no document carries"


def _walk_stream(
    con: apsw.Connection, name: str, ref: int, first: int, chain: bytes | None, counts: dict[str, int]
) -> Iterator[str]:
    expected = first
    follow = True
    sql = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos"
    rows: Any = con.execute(sql, (ref << INDEX_BITS, (ref + 1) << INDEX_BITS))
    for row in rows:
        index = row[0] & MASK
        counts["records"] += 1
        if index != expected:
            yield f"{name}: records {expected} to {index - 1} are missing"
        if record_sum(row[:-2], row[-2]) != row[-1]:
            yield f"{name}: record {index} does not match its checksum"
            follow = False  # the chain is taken up again at the next sound record
        else:
            if follow and link(chain, row[8]) != row[9]:
                yield f"{name}: the hash chain breaks at record {index}"
            chain, follow = row[9], True
        expected = index + 1


def stats(con: apsw.Connection, path: Path) -> Stats:
    """Count. Records are counted by their index, without visiting them."""
    heads: Any = con.execute(
        "SELECT count(*) FILTER (WHERE stream = 0 AND alive), count(*) FILTER (WHERE stream = 1 AND alive), "
        "count(DISTINCT space) FROM head"
    ).fetchone()
    records: Any = con.execute("SELECT count(*) FROM record").fetchone()
    return Stats(
        documents=heads[0],
        streams=heads[1],
        spaces=heads[2],
        records=records[0],
        file_bytes=_size(path),
        log_bytes=_size(Path(f"{path}-wal")),
        free_bytes=con.pragma("freelist_count") * con.pragma("page_size"),
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
