"""What does encryption cost? An encrypted store beside a plain one: commits, reads, search, opening."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import SECONDS, Result, compare, figure, micro, pick
from benchmarks.workload import SYNCED
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.encryption import Secret
from strongroom.store import Append, Commit, Entry, Find, Get, Key, Put, Tail, new_id

RAW = b"k" * 32
PASSPHRASE = "four words or more"
STREAM = Key("bench", "stream", "one")
DOCUMENT = Key("bench", "document", "one")
KDF = "PBKDF2-HMAC-SHA256, 64,007 rounds"


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        yield from working(Path(folder))
        yield from opening(Path(folder))


def append(number: int = 0) -> Commit:
    entry = Entry("note", encode({"v": "x" * 290}), 5, text=f"apple pear{number % 50}")
    return Commit(new_id(), (), (Append(STREAM, (entry,)),))


def working(folder: Path) -> Iterator[Result]:
    plain = SqliteStore(folder / "plain.db")
    ours = SqliteStore(folder / "encrypted.db", key=RAW)
    for store in (plain, ours):
        store.commit(Commit(new_id(), (), (Put(DOCUMENT, encode({"v": "x" * 290})),)))
        for number in range(pick(2000, 500)):
            store.commit(append(number))
    find = Find("bench", "stream", ("pear7",), limit=8)
    works = {
        "a durable commit": lambda store: store.commit(append()),
        "Get": lambda store: store.read([Get(DOCUMENT)]),
        "Tail of 10": lambda store: store.read([Tail(STREAM, count=10)]),
        "a search": lambda store: store.search(find),
    }
    for name, work in works.items():
        pair = compare(lambda work=work: work(ours), lambda work=work: work(plain), 1.5 * SECONDS)
        yield pair.row("encryption", f"{name}, against plain", durability=SYNCED if "commit" in name else "a read")
    ours.close()
    plain.close()


def opening(folder: Path) -> Iterator[Result]:
    def opened(name: str, key: Secret | None) -> None:
        SqliteStore(folder / name, key=key).close()

    opened("passphrase.db", PASSPHRASE)
    raw = compare(lambda: opened("encrypted.db", RAW), lambda: opened("plain.db", None))
    stretched = compare(lambda: opened("passphrase.db", PASSPHRASE), lambda: opened("plain.db", None))
    name = "opening with a passphrase, milliseconds"
    told = {"ours": micro(stretched.ours), "peer": micro(stretched.peer)}
    yield figure("encryption", name, stretched.ours * 1e3, durability=SYNCED, note=f"and closing; {KDF}", **told)
    more = [(ratio - 1) * raw.peer * 1e3 for ratio in raw.ratios]
    name = "opening with 32 bytes, milliseconds more than plain"
    told = {"ours": micro(raw.ours), "peer": micro(raw.peer)}
    yield figure("encryption", name, more, durability=SYNCED, note="and closing", **told)
