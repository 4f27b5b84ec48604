"""What becomes of a million memories and ten million messages in one space? Takes long, so `make bench-many` alone.

Sizes shrink by STRONGROOM_MEMORIES and STRONGROOM_MESSAGES. The bare engine has the same texts in an FTS5 table.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

import strongroom
from benchmarks.measuring import SEED, Result, compare, figure, micro, pick
from benchmarks.processes import peak_megabytes
from benchmarks.search import fact
from benchmarks.workload import BUDGET, SYNCED, message, prose, questions

MEMORIES = int(os.environ.get("STRONGROOM_MEMORIES", pick(1_000_000, 5_000)))
MESSAGES = int(os.environ.get("STRONGROOM_MESSAGES", pick(10_000_000, 20_000)))
QUESTIONS = pick(200, 20)
STEP = 5_000
SMALL = 1_000


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        yield from many_memories(Path(name))
    with tempfile.TemporaryDirectory() as name:
        yield from many_messages(Path(name))
    peak = peak_megabytes()
    yield figure("many", "peak memory, megabytes", peak, ours=f"{peak:.0f} MB", durability=SYNCED)


def many_memories(folder: Path) -> Iterator[Result]:
    con = _table(folder / "bare.db")
    with strongroom.open(folder / "ours.db", durability="relaxed") as ctx:
        start = time.monotonic()
        for first in range(0, MEMORIES, 200):
            some = [f"{prose(number)} {number}" for number in range(first, first + 200)]
            ctx.memories.commit(ctx.memories.propose([fact(text) for text in some], proposer="a").id, reviewer="b")
            _insert(con, some)
        ctx.memories.search("lake", 1)
        note = f"{MEMORIES:,} memories, found {time.monotonic() - start:.0f} s after the first was written"
        yield from asked("memories by words", con, lambda text: ctx.memories.search(text, 10, mode="lexical"), note)
    con.close()


def many_messages(folder: Path) -> Iterator[Result]:
    con = _table(folder / "bare.db")
    with strongroom.open(folder / "ours.db", durability="relaxed") as ctx:
        small, large = ctx.sessions.open("small"), ctx.sessions.open("large")
        small.append(
            [{"role": "user", "content": prose(n)} for n in range(MESSAGES - SMALL, MESSAGES)]
        )  # the same newest messages, so the same window
        start = time.monotonic()
        for first in range(0, MESSAGES, STEP):
            some = [{"role": "user", "content": prose(n)} for n in range(first, min(first + STEP, MESSAGES))]
            large.append(some)
            _insert(con, [one["content"] for one in some])
        large.search("lake", k=1)
        note = f"{MESSAGES:,} messages, found {time.monotonic() - start:.0f} s after the first was written"
        yield from asked("messages by words", con, lambda text: large.search(text, k=10), note)
    with strongroom.open(folder / "ours.db") as ctx:
        small, large = ctx.sessions.open("small"), ctx.sessions.open("large")
        pair = compare(lambda: large.append([message(1)]), lambda: small.append([message(1)]))
        yield pair.row("many", "append at 10,000,000 / at 1,000", durability=SYNCED, note=note)
        pair = compare(lambda: large.window(max_tokens=BUDGET), lambda: small.window(max_tokens=BUDGET))
        yield pair.row("many", "window at 10,000,000 / at 1,000", durability="a read", note=note)
    con.close()


def asked(name: str, con: apsw.Connection, ours: Callable[[str], Any], note: str) -> Iterator[Result]:
    """Ask the same questions in turn, and compare the middle and the slow ones."""
    mine, theirs = [], []
    for question in questions(QUESTIONS, SEED):
        begun = time.perf_counter()
        ours(question)
        between = time.perf_counter()
        _bm25(con, question)
        mine.append(between - begun)
        theirs.append(time.perf_counter() - between)
    for told, place in (("p50", len(mine) // 2), ("p95", len(mine) * 95 // 100)):
        one, other = sorted(mine)[place], sorted(theirs)[place]
        values = {"ours": micro(one), "peer": micro(other), "durability": "a read", "note": note}
        yield figure("many", f"{name}, {told} / bare FTS5", one / other, **values)


def _table(path: Path) -> apsw.Connection:
    con = apsw.Connection(str(path))
    con.execute("PRAGMA journal_mode = WAL").fetchall()
    con.execute("PRAGMA synchronous = NORMAL")
    con.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter')")
    return con


def _insert(con: apsw.Connection, texts: list[str]) -> None:
    with con:
        con.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])


def _bm25(con: apsw.Connection, question: str) -> None:
    wanted = " OR ".join(f'"{word}"' for word in question.split())
    con.execute("SELECT rowid, text FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", (wanted,)).fetchall()
