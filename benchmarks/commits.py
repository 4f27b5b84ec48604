"""What does a durable write cost, beside what nobody can be faster than, and beside older packages?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from benchmarks.measuring import SECONDS, Result, calls, compare, pick
from benchmarks.processes import MissingPeerError, Program
from benchmarks.workload import NOT_DURABLE, SYNCED
from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore
from strongroom.bridge import Inline, blocking
from strongroom.codec import encode
from strongroom.store import Append, AsyncStore, Commit, Entry, Get, Key, Put, Tail, new_id

BODY = encode({"v": "x" * 290})
STREAM = Key("bench", "stream", "one")
JOURNAL = f"ours: {SYNCED}; theirs: a rollback journal, synced"
SIZES = pick({0: "an empty session", 1_000: "1,000 messages", 10_000: "10,000 messages"}, {0: "an empty session"})


def append(key: Key = STREAM) -> Commit:
    return Commit(new_id(), (), (Append(key, (Entry("note", BODY, weight=5),)),))


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from beside_apsw(folder)
        yield from reading(folder / "reading.db")
        yield bridge()
        yield from in_process()
        for size, told in SIZES.items():
            yield from beside_contextstore(folder, size, told)


def beside_apsw(folder: Path) -> Iterator[Result]:
    """The peer inserts the same row into the same table, and checks nothing."""
    path = str(folder / "session.db")
    with (
        Program("bare:commits", path=str(folder / "bare.db")) as bare,
        Program("ours:conversation", address=path, length=0) as ours,
        SqliteStore(folder / "store.db") as store,
    ):
        # A log is new when somebody opens a file that nobody has open, and writing to it is slower until it has grown:
        # it begins again after 1,000 frames on their side and 4,000 on ours.
        for _ in range(pick(4_000, 400)):
            store.commit(append())
        bare.timed("message")(pick(2_000, 200))
        ours.timed("append")(pick(4_000, 400))
        record = compare(calls(lambda: store.commit(append())), bare.timed("record"), 2 * SECONDS, timed=True)
        note = "a record of 300 bytes; the peer inserts the same row, with nothing to check"
        yield record.row("commits", "a record, against bare apsw", durability=SYNCED, note=note)
        message = compare(ours.timed("append"), bare.timed("message"), 2 * SECONDS, timed=True)
        note = "a message, counted, checked and named; the peer inserts its text"
        yield message.row("commits", "session.append, against bare apsw", durability=SYNCED, note=note)


def reading(path: Path) -> Iterator[Result]:
    key = Key("bench", "document", "one")
    with SqliteStore(path) as store:
        store.commit(Commit(new_id(), (), (Put(key, BODY),)))
        for _ in range(50):
            store.commit(append())
        con = apsw.Connection(str(path))
        get = "SELECT value, version FROM head WHERE space = ? AND kind = ? AND id = ?"
        ours = compare(
            lambda: store.read([Get(key)]), lambda: con.execute(get, (key.space, key.kind, key.id)).fetchone()
        )
        yield ours.row("commits", "Get / the bare SELECT", durability="a read")
        ref: Any = con.execute("SELECT ref FROM head WHERE id = 'one' AND stream = 1").fetchone()[0]
        columns = "pos, type, body, weight, at, sender, receiver, text, commitment, chain, sum"
        tail = f"SELECT {columns} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos DESC LIMIT 10"
        bounds = (int(ref) << 32, (int(ref) + 1) << 32)
        ours = compare(lambda: store.read([Tail(STREAM, count=10)]), lambda: con.execute(tail, bounds).fetchall())
        yield ours.row("commits", "Tail of 10 / the bare SELECT", durability="a read")
        con.close()


class Counters:
    """A small service, as services are written."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def bump(self, key: Key) -> int:
        found: Any = (await self._store.read([Get(key)]))[0]
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
        found: Any = by_hand.read([Get(key)])[0]
        value = 1 if found is None else found.value.load() + 1
        by_hand.commit(Commit(new_id(), (), (Put(key, encode(value)),)))
        return int(value)

    pair = compare(lambda: bridged.bump(key), hand_written)
    return pair.row("commits", "the blocking bridge / blocking code by hand", durability=NOT_DURABLE)


def in_process() -> Iterator[Result]:
    try:
        with Program("older:slots", peer=True) as older, Program("ours:slots") as ours:
            for name, function in (
                ("a slot in process, against ContextBuffer", "append"),
                ("the same through strongroom.compat", "compat"),
            ):
                pair = compare(ours.timed(function), older.timed("append"), timed=True)
                yield pair.row("commits", name, durability=NOT_DURABLE)
    except MissingPeerError as missing:
        print(missing)


def beside_contextstore(folder: Path, size: int, told: str) -> Iterator[Result]:
    path = str(folder / f"beside-{size}.db")
    try:
        with (
            Program("older:conversation", peer=True, path=str(folder / f"older-{size}.db"), length=size) as older,
            Program("ours:conversation", address=path, length=size) as ours,
        ):
            name = f"append {'to' if size == 0 else 'at'} {told}, against ContextStore"
            pair = compare(ours.timed("async_append"), older.timed("append"), timed=True)
            yield pair.row("commits", name, durability=JOURNAL)
            if size == 10_000:
                pair = compare(ours.timed("async_load"), older.timed("load"), timed=True)
                yield pair.row("commits", "load the last 10 of 10,000, against ContextStore", durability="a read")
    except MissingPeerError as missing:
        print(missing)
