"""Memories: exact vector search beside numpy and ContextStore, words beside bare FTS5, a batch beside one record.

A batch of 100 is proposed and committed. It is held against the commit of one record, as any service makes it (one
append to a stream, durable), and against a batch of one, which shows what a hundred in one batch save.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import numpy as np

import strongroom
from benchmarks.measuring import Result, median, micro
from strongroom.codec import encode
from strongroom.embedders import Fingerprint
from strongroom.store import Append, Commit, Entry, Key, new_id
from strongroom.vectors import Row
from strongroom.vectors.local import LocalVectors

COUNT, WIDTH = 50_000, 384
MEMORIES = 100_000
FILES = 4  # a record's commit is little but its fsync, and thirty of those say too little
WORDS = [f"word{number}" for number in range(5000)]


def measure() -> Iterator[Result]:
    yield from vectors()
    with tempfile.TemporaryDirectory() as folder:
        yield from batch(Path(folder))
        yield lexical(Path(folder))


def request(rng: np.random.Generator) -> dict[str, Any]:
    picked = (rng.pareto(1.0, 12) * 20).astype(int) % len(WORDS)
    return {
        "op": "add", "type": "fact", "scope": "global", "confidence": 0.9, "source_refs": [], "rationale": "measured",
        "content": " ".join(WORDS[number] for number in picked) + f" {rng.integers(1 << 60)}",
    }  # fmt: skip


def vectors() -> Iterator[Result]:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((COUNT, WIDTH), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    index = LocalVectors()
    index.open("s", Fingerprint("bench", "1", WIDTH))
    index.apply("s", 0, COUNT, [Row(str(number), "o", matrix[number]) for number in range(COUNT)], [])
    queries = rng.standard_normal((40, WIDTH), dtype=np.float32)

    def bare(query: Any) -> Any:
        scores = matrix @ query
        best = np.argpartition(-scores, 10)[:10]
        return best[np.argsort(-scores[best])]

    ours, theirs = _alternate(lambda query: index.search("s", query, 10, ["o"]), bare, queries)
    yield Result("exact search against numpy", ours / theirs, 1.3, at_most=True, ours=micro(ours), peer=micro(theirs))

    from contextstore import InMemoryEmbeddingStore

    async def fill() -> Any:
        store = InMemoryEmbeddingStore()
        for number in range(COUNT):
            await store.add("s", str(number), matrix[number].tolist())
        return store

    store = asyncio.run(fill())
    taken = []
    for query in queries[:3]:
        start = time.perf_counter()
        asyncio.run(store.search("s", query.tolist(), 10))
        taken.append(time.perf_counter() - start)
    peer = median(taken)
    yield Result("exact search against ContextStore", peer / ours, 10, ours=micro(ours), peer=micro(peer))


def _alternate(ours: Any, theirs: Any, queries: Any) -> tuple[float, float]:
    return _medians(_turns(ours, theirs, queries))


def _turns(ours: Any, theirs: Any, queries: Any) -> tuple[list[float], list[float]]:
    taken: tuple[list[float], list[float]] = ([], [])
    for query in queries:
        for place, work in enumerate((ours, theirs)):
            start = time.perf_counter()
            work(query)
            taken[place].append(time.perf_counter() - start)
    return taken


def _medians(*rounds: tuple[list[float], list[float]]) -> tuple[float, float]:
    ours, theirs = zip(*rounds, strict=True)
    return median([*chain(*ours)]), median([*chain(*theirs)])


def batch(folder: Path) -> Iterator[Result]:
    rng = np.random.default_rng(2)
    against_record, against_one = zip(*[_batches(folder / f"{number}.db", rng) for number in range(FILES)], strict=True)
    ours, theirs = _medians(*against_record)
    note = f"propose and commit 100 memories, against the commit of one record; {FILES} files, 30 turns each"
    yield Result("a batch of 100 against one record", ours / theirs, 15, True, micro(ours), micro(theirs), note)
    ours, theirs = _medians(*against_one)
    note = "propose and commit 100 memories, against proposing and committing one"
    yield Result("a batch of 100 against a batch of one", ours / theirs, 15, True, micro(ours), micro(theirs), note)


def _batches(path: Path, rng: np.random.Generator) -> list[tuple[list[float], list[float]]]:
    key, body = Key("default", "bench", "one"), encode({"v": "x" * 290})
    with strongroom.open(path) as ctx:

        def known(requests: list[dict[str, Any]]) -> None:
            ctx.memories.commit(ctx.memories.propose(requests, proposer="a").id, reviewer="b")

        def record(_: object) -> None:
            ctx.store.commit(Commit(new_id(), (), (Append(key, (Entry("note", body),)),)))

        hundreds = [[request(rng) for _ in range(100)] for _ in range(60)]
        pairs = [([request(rng)], hundred) for hundred in hundreds[30:]]
        return [
            _turns(known, record, hundreds[:30]),
            _turns(lambda pair: known(pair[1]), lambda pair: known(pair[0]), pairs),
        ]


def lexical(folder: Path) -> Result:
    rng = np.random.default_rng(3)
    con = apsw.Connection(str(folder / "bare.db"))
    con.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter')")
    with strongroom.open(folder / "words.db", durability="relaxed") as ctx, con:
        for _ in range(MEMORIES // 200):
            requests = [request(rng) for _ in range(200)]
            ctx.memories.commit(ctx.memories.propose(requests, proposer="a").id, reviewer="b")
            con.executemany("INSERT INTO t VALUES (?)", [(each["content"],) for each in requests])
        ctx.memories.search("word1", 1)  # lets the index catch up
        queries = [" ".join(WORDS[int(number)] for number in rng.integers(40, 400, 3)) for _ in range(30)]
        sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT 8"
        ours, theirs = _alternate(
            lambda query: ctx.memories.search(query, 8, mode="lexical"),
            lambda query: con.execute(sql, (" OR ".join(query.split()),)).fetchall(),
            queries,
        )
    note = f"{MEMORIES:,} memories, three words"
    return Result("lexical search against bare FTS5", ours / theirs, 10, True, micro(ours), micro(theirs), note)
