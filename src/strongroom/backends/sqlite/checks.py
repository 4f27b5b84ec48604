"""How much does a file hold, and is it whole? Everything that a read could come across is looked at, and everything
that could keep it from coming across it.

A row's checksum shows that the row was altered, never that a damaged index leads past it. So indexes are compared with
the rows they are about, entry by entry, and the words of the full-text index with the words of the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from strongroom.backends.memory import link
from strongroom.backends.sqlite.carried import unsealed
from strongroom.backends.sqlite.erasure import pending
from strongroom.backends.sqlite.failures import DRIVER_ERRORS
from strongroom.backends.sqlite.rows import (
    MASK,
    RECORD_COLUMNS,
    checksum,
    label,
    place_of,
    record_sum,
    stored_key,
    tags_of,
)
from strongroom.backends.sqlite.schema import INDEX_BITS, differences
from strongroom.backends.sqlite.search import require_start, terms
from strongroom.errors import Damaged
from strongroom.store import Key

MOST_PROBLEMS = 100

_HEADS = "SELECT ref, space, kind, id, stream, alive, version, value, tags, text, chain, sum FROM head ORDER BY ref"
# Unary plus keeps SQLite from answering about an index from the index itself.
_BY_NAME = "SELECT ref FROM head INDEXED BY head_by_name WHERE space = ? AND kind = ? AND id = ?"
_BY_ORDER = """
SELECT 1 FROM head INDEXED BY head_by_order WHERE space = ? AND kind = ? AND ref = ? AND stream = 0 AND alive = 1"""
_SIZES = """
SELECT (SELECT count(*) FROM head INDEXED BY head_by_name WHERE space >= ''),
       (SELECT count(*) FROM head INDEXED BY head_by_order WHERE space >= '' AND stream = 0 AND alive = 1),
       (SELECT count(*) FROM tag), (SELECT count(*) FROM record)"""
_UNINDEXED = "SELECT place, ref, start, space, kind FROM unindexed LEFT JOIN head USING (ref)"
_STRAY = """
SELECT 'carrier', ref FROM carrier WHERE ref NOT IN (SELECT ref FROM head WHERE stream = 1) UNION ALL
SELECT 'unindexed', ref FROM unindexed WHERE ref NOT IN (SELECT ref FROM head)"""


class Check(Struct, frozen=True):
    """What `check()` found. `problems` is empty when every page, row, checksum, index and chain is right.

    Documents and streams are those that live; a tombstone is all that is left of one that was deleted. `pending` tells
    of an erasure that is not complete yet: erased content may still lie in the files.
    """

    ok: bool
    documents: int
    streams: int
    tombstones: int
    records: int
    problems: tuple[str, ...]
    pending: str | None = None


class Stats(Struct, frozen=True):
    """How much a store holds, counted as `Check` does, in bytes too, and whether an erasure in it is not complete."""

    documents: int
    streams: int
    tombstones: int
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
        "count(*) FILTER (WHERE NOT alive), count(DISTINCT space) FROM head"
    ).fetchone()
    records: Any = con.execute("SELECT count(*) FROM record").fetchone()
    receipts: Any = con.execute("SELECT count(*) FROM receipt").fetchone()
    return Stats(
        documents=heads[0],
        streams=heads[1],
        tombstones=heads[2],
        spaces=heads[3],
        records=records[0],
        receipts=receipts[0],
        file_bytes=_size(path),
        log_bytes=_size(Path(f"{path}-wal")),
        free_bytes=con.pragma("freelist_count") * con.pragma("page_size"),
        pending=pending(con),
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def check(con: apsw.Connection) -> Check:
    """Verify everything, streaming; stop after a hundred problems."""
    problems: list[str] = []
    counts = {"documents": 0, "streams": 0, "tombstones": 0, "records": 0}
    for problem in _walk(con, counts):
        problems.append(problem)
        if len(problems) >= MOST_PROBLEMS:
            break
    return Check(not problems, problems=tuple(problems), pending=pending(con), **counts)


def _refresh_index(con: apsw.Connection) -> None:
    try:
        con.execute("SELECT 1 FROM word WHERE word MATCH 'a' LIMIT 1").fetchall()
    except DRIVER_ERRORS:
        pass  # what is wrong with it is told below


def _walk(con: apsw.Connection, counts: dict[str, int]) -> Iterator[str]:
    # A query makes FTS5 look for what others have changed; checked without one, it takes its old list of parts for true
    # on a connection that has searched before, and finds some of them missing.
    _refresh_index(con)
    for (line,) in con.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})").fetchall():
        if line != "ok":
            yield f"database: {line}"
    for name in differences(con):
        yield f"database: {name} is not defined as it was made"
    written = _Words()
    behind: dict[int, int] = {}
    missing: list[Any] = con.execute(_UNINDEXED).fetchall()
    for place, ref, start, space, kind in missing:
        try:
            behind[ref] = require_start(start)
            if space is not None and place != place_of(space, kind):
                yield f"database: unindexed lists {ref} where no search of {kind} in {space!r} looks"
        except Damaged as damage:
            yield f"database: {damage}"
    tags = 0
    for head in con.execute(_HEADS):
        ref, space, kind, id, stream, alive, version, *rest, total = head
        name = f"{kind} {id!r} in {space!r}"
        counts["tombstones" if not alive else "streams" if stream else "documents"] += 1
        if con.execute(_BY_NAME, (space, kind, id)).fetchall() != [(ref,)]:
            yield f"{name}: is not found by its name"
        if checksum((space, kind, id, ref, stream, alive, version, *rest)) != total:
            yield f"{name}: does not match its checksum"
            continue
        key = stored_key(space, kind, id)
        if stream:
            until = behind.get(int(ref), MASK)
            yield from _walk_stream(con, key, int(ref), head, counts, written, until)
        else:
            if alive and con.execute(_BY_ORDER, (space, kind, ref)).fetchone() is None:
                yield f"{name}: is not found among the documents of its kind"
            carried = tags_of(rest[1])
            if rest[2] is not None and ref not in behind:
                written.add(int(ref), terms(key, rest[2], carried))
            for pair in carried.items():
                tags += 1
                entry = (label(space, kind, *pair), ref)
                if con.execute("SELECT 1 FROM tag WHERE label = ? AND ref = ?", entry).fetchone() is None:
                    yield f"{name}: is not found by one of its tags"
    names = counts["documents"] + counts["streams"] + counts["tombstones"]
    expected = (names, counts["documents"], tags, counts["records"])
    sizes: Any = con.execute(_SIZES).fetchone()
    for what, found, right in zip(("names", "documents", "tags", "records"), sizes, expected, strict=True):
        if found != right:
            yield f"database: it lists {found} {what}, and {right} belong to what it holds"
    yield from _walk_receipts(con)
    yield from _walk_words(con, written)


def _walk_stream(
    con: apsw.Connection,
    key: Key,
    ref: int,
    head: tuple[Any, ...],
    counts: dict[str, int],
    written: _Words,
    indexed: int,
) -> Iterator[str]:
    name = f"{key.kind} {key.id!r} in {key.space!r}"
    alive, first, chain = head[5], head[6], head[10]
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
            if row[7] is not None and index < indexed:
                written.add(row[0], terms(key, row[7], {}))
        expected = index + 1
    if alive and expected == 0:
        yield f"{name}: its records are missing"


def _walk_receipts(con: apsw.Connection) -> Iterator[str]:
    for space, id, *row in con.execute("SELECT space, id, digest, versions, answer, sum FROM receipt"):
        if checksum((space, id, *row[:-1])) != row[-1]:
            yield f"the receipt of commit {id!r} in {space!r}: does not match its checksum"
    for table, ref in con.execute(_STRAY):
        yield f"database: {table} lists {ref}, which is nothing it could be"
    carriers: list[Any] = con.execute("SELECT ref, start FROM carrier").fetchall()
    for ref, start in carriers:
        try:
            pos = (ref << INDEX_BITS) + unsealed(ref, start)
        except Damaged as damage:
            yield f"database: {damage}"
            continue
        if con.execute("SELECT 1 FROM record WHERE pos = ? AND receipt IS NOT NULL", (pos,)).fetchone() is None:
            yield f"database: stream {ref} carries no receipt where it should"


class _Words:
    """A set of (place, word) that only knows how many and whether another is the same: their hashes added up."""

    def __init__(self) -> None:
        self.count = self.total = 0

    def add(self, place: int, found: Iterable[str]) -> None:
        for word in {*found}:
            self.count += 1
            self.total += int.from_bytes(blake2b(f"{place} {word}".encode(), digest_size=16).digest(), "big")

    def same(self, other: _Words) -> bool:
        return (self.count, self.total) == (other.count, other.total)


def _walk_words(con: apsw.Connection, written: _Words) -> Iterator[str]:
    found = _Words()
    try:
        con.execute("CREATE VIRTUAL TABLE temp.instance USING fts5vocab(main, word, instance)")
        try:
            for word, place in con.execute("SELECT term, doc FROM temp.instance"):
                found.add(int(place), (str(word),))
        finally:
            con.execute("DROP TABLE temp.instance")
    except DRIVER_ERRORS as problem:
        yield f"database: the index of words cannot be read ({problem})"
        return
    if not found.same(written):
        yield f"database: the index of words has {found.count} places, and the texts {written.count} or others"
