"""An encrypted store beside a plain one: commits, reads, search, opening."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Result, duel, in_turn, micro
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.encryption import Secret
from strongroom.store import Append, Commit, Entry, Find, Get, Key, Put, Tail, new_id

RAW = b"k" * 32
PASSPHRASE = "four words or more"
STREAM = Key("bench", "stream", "one")
DOCUMENT = Key("bench", "document", "one")
WANTED = 0.8
MOST_SECONDS, MOST_MORE_SECONDS = 0.150, 0.005


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
        for number in range(2000):
            store.commit(append(number))
    find = Find("bench", "stream", ("pear7",), limit=8)
    pairs = {
        "a durable commit": in_turn(lambda: ours.commit(append()), lambda: plain.commit(append()), 4000),
        "Get": duel(lambda: ours.read([Get(DOCUMENT)]), lambda: plain.read([Get(DOCUMENT)]), 3000),
        "Tail of 10": duel(
            lambda: ours.read([Tail(STREAM, count=10)]), lambda: plain.read([Tail(STREAM, count=10)]), 2000
        ),
        "a search": duel(lambda: ours.search(find), lambda: plain.search(find), 200),
    }
    for name, (one, other) in pairs.items():
        yield Result(f"encrypted: {name}", other / one, WANTED, ours=micro(one), peer=micro(other), note="beside plain")
    ours.close()
    plain.close()


def opening(folder: Path) -> Iterator[Result]:
    def opened(name: str, key: Secret | None) -> None:
        SqliteStore(folder / name, key=key).close()

    opened("passphrase.db", PASSPHRASE)
    raw, plain = duel(lambda: opened("encrypted.db", RAW), lambda: opened("plain.db", None), 20)
    stretched, _ = duel(lambda: opened("passphrase.db", PASSPHRASE), lambda: opened("plain.db", None), 5)
    kdf = "PBKDF2-HMAC-SHA256, 64,007 rounds; seconds"
    yield Result(
        "encrypted: opening with a passphrase", stretched, MOST_SECONDS, at_most=True, ours=micro(stretched), note=kdf
    )
    yield Result(
        "encrypted: opening with 32 bytes, more than plain",
        raw - plain,
        MOST_MORE_SECONDS,
        at_most=True,
        ours=micro(raw),
        peer=micro(plain),
        note="seconds",
    )
