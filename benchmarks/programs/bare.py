"""What nobody can be faster than: apsw alone, with nothing to check or to work out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from benchmarks.workload import message
from strongroom.backends.sqlite import schema

COLUMNS = "pos, type, body, weight, at, sender, receiver, text, commitment, chain, receipt, sum"


@contextmanager
def commits(path: str, synchronous: str = "FULL") -> Iterator[dict[str, Callable[[], object]]]:
    """One row a commit, into the very table that our records are in: a record of 300 bytes, or a message."""
    con = apsw.Connection(path)
    con.execute("PRAGMA journal_mode = WAL").fetchall()
    con.execute(f"PRAGMA synchronous = {synchronous}")
    con.execute(schema.TABLES)
    record = f"INSERT INTO record ({COLUMNS}) VALUES (?, 'note', ?, 5, 0, NULL, NULL, ?, NULL, NULL, ?, ?)"
    places, receipt, body = itertools.count(1 << 32), bytes(16), b'{"v":"' + b"x" * 290 + b'"}'

    def insert(*values: Any) -> None:
        con.execute("BEGIN IMMEDIATE")
        con.execute(record, (next(places), *values, receipt, 1 << 31))
        con.execute("COMMIT")

    yield {"record": lambda: insert(body, None), "message": lambda: insert(b"{}", message(1)["content"])}
    con.close()
