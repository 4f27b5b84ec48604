"""How fast is finding? The first search of a long history; later ones beside plain BM25, bare FTS5 and numpy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import apsw
import numpy as np

import strongroom
import strongroom.retrieval as retrieval
from benchmarks.measuring import SEED, Result, compare, figure, pick
from benchmarks.processes import Program
from benchmarks.workload import SYNCED, prose, questions
from strongroom.embedders import Fingerprint
from strongroom.stemming import words
from strongroom.store import Find
from strongroom.vectors import Row
from strongroom.vectors.local import LocalVectors

LONG, LONG_SECONDS = pick(1_000_000, 20_000), pick(120.0, 5.0)
SESSION = pick(10_000, 2_000)
MEMORIES = pick(50_000, 2_000)
COUNT, WIDTH = pick(50_000, 10_000), 384
READ = "a read"
ROLES = ("user", "assistant")


def measure() -> Iterator[Result]:
    yield from by_words()
    yield memories_by_words()
    yield by_vectors()
    yield from first_search()


def first_search() -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Program("ours:first_search", folder=folder, size=LONG, seconds=LONG_SECONDS) as ours,
    ):
        longest, peak = ours.call("search"), ours.peak_megabytes()
    note = f"{longest['size']:,.0f} messages, 500 an append; the longest append took {longest['append']:.3f} s"
    name = "first search after many appends, seconds of the longest call"
    worst = max(longest["search"], longest["append"])
    yield figure("search", name, worst, ours=f"{longest['search']:.3f} s", durability=SYNCED, note=note)
    name = "peak memory of that process, megabytes"
    yield figure("search", name, peak, ours=f"{peak:.0f} MB", durability=SYNCED)


def by_words() -> Iterator[Result]:
    """The same session, asked by its search, and by the same engine with nothing but BM25 over what it found."""
    texts = [prose(number) for number in range(SESSION)]
    asked = cycle(questions(40, SEED))
    with tempfile.TemporaryDirectory() as folder:
        con = _fts5(Path(folder) / "bare.db", texts)
        with strongroom.open(Path(folder) / "ours.db", durability="relaxed") as ctx:
            session = ctx.sessions.open("s")
            for start in range(0, SESSION, 1000):
                some = texts[start : start + 1000]
                session.append([{"role": ROLES[n % 2], "content": text} for n, text in enumerate(some)])
            session.search("lake", k=10)  # lets the index catch up
            store: Any = ctx.store

            def plain() -> list[Any]:
                wanted = words(next(asked))
                found = store.search(Find(ctx.space, "message", tuple(wanted), "s", limit=500))
                candidates = [words(match.record.text or "") for match in found.matches]
                scores = retrieval.bm25(wanted, candidates, found.total, found.counts)
                return sorted(zip(scores, found.matches, strict=True), key=lambda pair: -pair[0])[:10]

            assert plain()
            pair = compare(lambda: session.search(next(asked), k=10), plain)
            note = f"{SESSION:,} messages, three words; the peer ranks the same candidates by BM25 alone"
            yield pair.row("search", "p50 / plain BM25 of the same engine", durability=READ, note=note)
            pair = compare(lambda: session.search(next(asked), k=10), lambda: _bm25(con, next(asked)))
            note = f"{SESSION:,} messages, three words; the peer returns texts and nothing else"
            yield pair.row("search", "p50 / bare FTS5 with bm25()", durability=READ, note=note)
        con.close()


def memories_by_words() -> Result:
    texts = [f"{prose(number)} {number}" for number in range(MEMORIES)]
    asked = cycle(questions(40, SEED))
    with tempfile.TemporaryDirectory() as folder:
        con = _fts5(Path(folder) / "bare.db", texts)
        with strongroom.open(Path(folder) / "ours.db", durability="relaxed") as ctx:
            for start in range(0, MEMORIES, 200):
                requests = [fact(text) for text in texts[start : start + 200]]
                ctx.memories.commit(ctx.memories.propose(requests, proposer="a").id, reviewer="b")
            ctx.memories.search("lake", 1)  # lets the index catch up
            pair = compare(
                lambda: ctx.memories.search(next(asked), 10, mode="lexical"), lambda: _bm25(con, next(asked))
            )
        con.close()
    note = f"{MEMORIES:,} memories, three words"
    return pair.row("search", "memories by words, p50 / bare FTS5 with bm25()", durability=READ, note=note)


def fact(text: str) -> Any:
    return {
        "op": "add", "type": "fact", "scope": "global", "confidence": 0.9, "source_refs": [], "rationale": "measured",
        "content": text,
    }  # fmt: skip


def by_vectors() -> Result:
    rng = np.random.default_rng(SEED)
    matrix = rng.standard_normal((COUNT, WIDTH), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    index = LocalVectors()
    index.open("s", Fingerprint("bench", "1", WIDTH))
    index.apply("s", 0, COUNT, [Row(str(number), "o", matrix[number]) for number in range(COUNT)], [])
    queries = cycle(rng.standard_normal((40, WIDTH), dtype=np.float32))

    def bare() -> Any:
        scores = matrix @ next(queries)
        best = np.argpartition(-scores, 10)[:10]
        return best[np.argsort(-scores[best])]

    pair = compare(lambda: index.search("s", next(queries), 10, ["o"]), bare)
    note = f"{COUNT:,} vectors of {WIDTH} numbers, exact"
    return pair.row("search", "memories by vectors / numpy", durability=READ, note=note)


def _fts5(path: Path, texts: list[str]) -> apsw.Connection:
    con = apsw.Connection(str(path))
    con.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter')")
    with con:
        con.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])
    return con


def _bm25(con: apsw.Connection, question: str) -> list[Any]:
    wanted = " OR ".join(f'"{word}"' for word in question.split())
    found: list[Any] = con.execute(
        "SELECT rowid, text FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", (wanted,)
    ).fetchall()
    return found
