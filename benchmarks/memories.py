"""What does remembering cost? Beside mem0 and ContextStore, and a batch beside one record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import strongroom
from benchmarks.measuring import SEED, Result, compare, figure, median, micro, pick, seconds
from benchmarks.processes import MissingPeerError, Program
from benchmarks.search import fact
from benchmarks.workload import NOT_DURABLE, SYNCED, message
from strongroom.codec import encode
from strongroom.embedders import Fingerprint
from strongroom.store import Append, Commit, Entry, Key, new_id
from strongroom.vectors import Row
from strongroom.vectors.local import LocalVectors

SIZE = pick(1_000, 100)
COUNT, WIDTH = pick(20_000, 2_000), 384
LESS = f"ours: {SYNCED}; theirs: two files with rollback journals, Qdrant's not synced"


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from beside_mem0(folder)
        yield from batch(folder)
    yield from beside_contextstore()


def beside_mem0(folder: Path) -> Iterator[Result]:
    """Both embed by the same stand-in for a model."""
    try:
        with (
            Program("mem0:memories", peer=True, folder=str(folder), size=SIZE) as peer,
            Program("ours:memories", path=str(folder / "ours.db"), size=SIZE) as ours,
        ):
            pair = compare(ours.timed("add"), peer.timed("add"), timed=True)
            note = f"at {SIZE:,} memories of one user"
            yield pair.row("memories", "add, against mem0 on Qdrant local (infer=False)", durability=LESS, note=note)
            pair = compare(ours.timed("search"), peer.timed("search"), timed=True)
            note = "ours by words and vectors, theirs by vectors alone (its word search needs more packages)"
            yield pair.row("memories", "search, against mem0 on Qdrant local", durability="a read", note=note)
    except MissingPeerError as missing:
        print(missing)


def batch(folder: Path) -> Iterator[Result]:
    """Propose and commit a hundred, against the commit of one record and against a hundredth of it."""
    key, body, numbers = Key("default", "bench", "one"), encode({"v": "x" * 290}), count()
    with strongroom.open(folder / "batch.db") as ctx:

        def known(size: int) -> None:
            requests = [fact(message(next(numbers))["content"]) for _ in range(size)]
            ctx.memories.commit(ctx.memories.propose(requests, proposer="a").id, reviewer="b")

        def record() -> None:
            ctx.store.commit(Commit(new_id(), (), (Append(key, (Entry("note", body),)),)))

        pair = compare(lambda: known(100), record)
        yield pair.row("memories", "a batch of 100 / a record", durability=SYNCED, note="proposed and committed")
        pair = compare(lambda: known(100), lambda: known(1))
        yield pair.row("memories", "a batch of 100 / a batch of one", durability=SYNCED, note="proposed and committed")


def beside_contextstore() -> Iterator[Result]:
    rng = np.random.default_rng(SEED)
    matrix = rng.standard_normal((COUNT, WIDTH), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    index = LocalVectors()
    index.open("s", Fingerprint("bench", "1", WIDTH))
    index.apply("s", 0, COUNT, [Row(str(number), "o", matrix[number]) for number in range(COUNT)], [])
    query: Any = matrix[0]
    try:
        with Program("older:vectors", peer=True, size=COUNT, width=WIDTH, queries=3) as older:
            taken = [seconds(lambda: index.search("s", query, 10, ["o"]), 20) for _ in range(5)]
            theirs = older.call("search")
    except MissingPeerError as missing:
        print(missing)
        return
    yield figure(
        "memories",
        "vectors, against ContextStore",
        [theirs / one for one in taken],
        ours=micro(median(taken)),
        peer=micro(theirs),
        durability=NOT_DURABLE,
        note=f"{COUNT:,} vectors of {WIDTH} numbers, exact",
    )
