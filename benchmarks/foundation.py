"""The store itself beside bare apsw, and the bridge beside hand-written blocking code."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from tests.faults.disk import Disk

from benchmarks.measuring import Result, duel, in_turn, median, micro, rate, seconds
from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore, schema
from strongroom.bridge import Inline, Threaded, blocking
from strongroom.codec import encode
from strongroom.store import Append, AsyncStore, Commit, Entry, Get, Key, Put, Store, Tail, new_id

BODY = encode({"v": "x" * 290})
STREAM = Key("bench", "stream", "one")
CLIENTS = 32


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        yield from one_commit(Path(folder) / "commit.db")
        yield from reading(Path(folder) / "reading.db")
        yield from many_clients(Path(folder) / "many.db")
        yield from slow_disk(Path(folder) / "slow.db")
        yield from long_history(Path(folder) / "long.db")
    yield bridge()
    yield importing()


def append(key: Key = STREAM) -> Commit:
    return Commit(new_id(), (), (Append(key, (Entry("note", BODY, weight=5),)),))


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[SqliteStore]:
    store = SqliteStore(path, **options)
    try:
        yield store
    finally:
        store.close()


def bare(path: Path) -> apsw.Connection:
    con = apsw.Connection(str(path))
    con.execute("PRAGMA journal_mode = WAL").fetchall()
    con.execute("PRAGMA synchronous = FULL")
    con.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, v BLOB)")
    return con


def one_commit(path: Path) -> Iterator[Result]:
    con = bare(path.with_suffix(".bare"))
    con.execute(schema.TABLES)
    columns = "pos, type, body, weight, at, sender, receiver, text, commitment, chain, receipt, sum"
    insert = f"INSERT INTO record ({columns}) VALUES (?, 'note', ?, 5, 0, NULL, NULL, NULL, NULL, NULL, ?, ?)"
    count, receipt, body = itertools.count(1 << 32), bytes(16), bytes(BODY)

    def peer() -> None:
        con.execute("BEGIN IMMEDIATE")
        con.execute(insert, (next(count), body, receipt, 1 << 31))
        con.execute("COMMIT")

    note = "a 300-byte record; the peer inserts the same row into the same table, with nothing to check or to work out"
    with opened(path) as store:
        # A log is new whenever somebody opens a file that nobody has open. It begins again after 1,000 frames on their
        # side and 4,000 on ours; writing to one that need not grow is all that is left to compare from then on.
        parts = [in_turn(lambda: store.commit(append()), peer, times) for times in (800, 9200, 6000)]
        whole = tuple((parts[0][side] * 8 + parts[1][side] * 92) / 100 for side in (0, 1))
        told = {"the first 800": parts[0], "the first 10,000": whole, "after 10,000": parts[2]}
        for name, (ours, theirs) in told.items():
            values = {"ours": micro(ours), "peer": micro(theirs), "note": note}
            yield Result(f"one durable commit, {name}", theirs / ours, 0.80, **values)
    con.close()


def reading(path: Path) -> Iterator[Result]:
    key = Key("bench", "document", "one")
    with opened(path) as store:
        store.commit(Commit(new_id(), (), (Put(key, BODY),)))
        for _ in range(50):
            store.commit(append())
        con = apsw.Connection(str(path))
        get = "SELECT value, version FROM head WHERE space = ? AND kind = ? AND id = ?"
        ours, theirs = duel(
            lambda: store.read([Get(key)]), lambda: con.execute(get, (key.space, key.kind, key.id)).fetchone(), 5000
        )
        yield Result("Get", ours / theirs, 4.0, at_most=True, ours=micro(ours), peer=micro(theirs))
        ref = con.execute("SELECT ref FROM head WHERE id = 'one' AND stream = 1").fetchone()[0]
        columns = "pos, type, body, weight, at, sender, receiver, text, commitment, chain, sum"
        tail = f"SELECT {columns} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos DESC LIMIT 10"
        bounds = (int(ref) << 32, (int(ref) + 1) << 32)
        ours, theirs = duel(
            lambda: store.read([Tail(STREAM, count=10)]), lambda: con.execute(tail, bounds).fetchall(), 3000
        )
        yield Result("Tail of 10", ours / theirs, 4.0, at_most=True, ours=micro(ours), peer=micro(theirs))
        con.close()


def many_clients(path: Path) -> Iterator[Result]:
    with opened(path) as store:
        one = 1 / seconds(lambda: store.commit(append()), 2000)
        for name, work in (("threads", threads), ("tasks", tasks)):
            before = store._committer.batches
            many, commits = work(store, 200)
            fsyncs = (store._committer.batches - before) / commits
            yield Result(f"{CLIENTS} {name}, fsyncs a commit", fsyncs, 0.1, at_most=True, ours=f"{fsyncs:.3f}")
            yield Result(f"{CLIENTS} {name} against one client", many / one, 2.5, ours=rate(many), peer=rate(one))


def slow_disk(path: Path) -> Iterator[Result]:
    with Disk(path, writes=False) as disk, opened(path) as store:
        disk.fsync_seconds = 0.002
        one = 1 / seconds(lambda: store.commit(append()), 200)
        for name, work in (("threads", threads), ("tasks", tasks)):
            many, _ = work(store, 60)
            note = "each fsync slowed to 2 ms, as on a real disk"
            yield Result(f"{CLIENTS} {name}, slow disk", many / one, 15, ours=rate(many), peer=rate(one), note=note)


def threads(store: Store, each: int) -> tuple[float, int]:
    def client(number: int) -> None:
        key = Key("bench", "thread", str(number))
        for _ in range(each):
            store.commit(append(key))

    workers = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return CLIENTS * each / (time.perf_counter() - start), CLIENTS * each


def tasks(store: SqliteStore, each: int) -> tuple[float, int]:
    async def client(shared: AsyncStore, number: int) -> None:
        key = Key("bench", "task", str(number))
        for _ in range(each):
            await shared.commit(append(key))

    async def all_clients() -> float:
        shared = Threaded(store)
        start = time.perf_counter()
        await asyncio.gather(*(client(shared, number) for number in range(CLIENTS)))
        return time.perf_counter() - start

    return CLIENTS * each / asyncio.run(all_clients()), CLIENTS * each


def long_history(path: Path, million: int = 1_000_000) -> Iterator[Result]:
    full, empty = Key("bench", "long", "full"), Key("bench", "long", "empty")
    entries = tuple(Entry("note", BODY, weight=5) for _ in range(1000))
    with opened(path, durability="relaxed") as filling:
        for _ in range(million // 1000):
            filling.commit(Commit(new_id(), (), (Append(full, entries),)))
    with opened(path) as store:
        store.commit(append(empty))
        ours, theirs = duel(lambda: store.commit(append(full)), lambda: store.commit(append(empty)), 400)
        note = f"a stream of {million:,} records beside a new one"
        yield Result("append, long history", ours / theirs, 1.2, True, micro(ours), micro(theirs), note)
        ours, theirs = duel(
            lambda: store.read([Tail(full, count=10)]), lambda: store.read([Tail(empty, count=10)]), 3000
        )
        yield Result("Tail, long history", ours / theirs, 1.2, True, micro(ours), micro(theirs), note)


class Counters:
    """A small service, as services are written."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def bump(self, key: Key) -> int:
        found = (await self._store.read([Get(key)]))[0]
        value = 1 if found is None else found.value.load() + 1
        await self._store.commit(Commit(new_id(), (), (Put(key, encode(value)),)))
        return int(value)


class BlockingCounters:
    def __init__(self, service: Counters) -> None:
        self._async = service

    bump = blocking(Counters.bump)


def bridge() -> Result:
    key = Key("bench", "counter", "one")
    bridged, by_hand = BlockingCounters(Counters(Inline(MemoryStore()))), MemoryStore()

    def hand_written() -> int:
        found = by_hand.read([Get(key)])[0]
        value = 1 if found is None else found.value.load() + 1
        by_hand.commit(Commit(new_id(), (), (Put(key, encode(value)),)))
        return int(value)

    ours, theirs = duel(lambda: bridged.bump(key), hand_written, 5000)
    return Result("blocking bridge", ours / theirs, 1.5, at_most=True, ours=micro(ours), peer=micro(theirs))


def importing() -> Result:
    def timed(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    pairs = [(timed("import strongroom"), timed("import asyncio")) for _ in range(9)]
    ours, theirs = median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])
    note = "whole process, from start to end"
    return Result("import strongroom", ours / theirs, 2.5, True, f"{ours * 1e3:.0f} ms", f"{theirs * 1e3:.0f} ms", note)
