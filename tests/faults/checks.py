"""What a fault test writes, what must hold afterwards, and ways to damage a file.

Every writer commits steps 1, 2, 3, ... Step n puts a document, appends to a stream of the writer's own and appends to
one stream shared by all, in one commit whose id and content follow from (writer, n). So afterwards anybody can tell,
from the store alone, whether a commit was lost, halved, doubled or changed; `check` does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from hashlib import shake_128
from pathlib import Path
from typing import Any

import apsw

from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import Json, encode
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Document,
    Entry,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    Slice,
    Store,
    ask,
)

SPACE = "faults"
SHARED = Key(SPACE, "shared", "all")
PAGE = 4096


class Broken(AssertionError):
    """A promise was not kept."""


class Lost(Broken):
    """Something that was acknowledged is not there."""


class Checkpointing(SqliteStore):
    """A store that empties its log every few commits, so that a short test meets many checkpoints."""

    def _connect(self, *, writer: bool) -> apsw.Connection:
        con = super()._connect(writer=writer)
        con.wal_autocheckpoint(12)
        return con


def document(writer: int) -> Key:
    return Key(SPACE, "document", str(writer))


def stream(writer: int) -> Key:
    return Key(SPACE, "stream", str(writer))


@lru_cache(10_000)
def content(writer: int, number: int) -> Json:
    """Return what a step writes: from 0 to about 1,500 characters that follow from its name."""
    noise = shake_128(f"{writer}-{number}".encode()).hexdigest((number * 37 + writer * 11) % 750)
    return encode({"writer": writer, "number": number, "noise": noise})


def step(writer: int, number: int) -> Commit:
    """Return a writer's commit number 1, 2, 3, ..."""
    value = content(writer, number)
    writes = (
        Put(document(writer), value),
        Append(stream(writer), (Entry("Step", value),)),
        Append(SHARED, (Entry("Step", encode([writer, number])),)),
    )
    # The id is one that a caller chose, so it is kept long enough for whatever the clock does.
    return Commit(f"step-{writer}-{number}", (), writes, shake_128(value).digest(16), keep=True)


def repeat(store: Store, writer: int, number: int) -> Receipt:
    """Commit a step again, or for the first time, and make sure that the answer is the one it must always get."""
    receipt = store.commit(step(writer, number))
    if receipt.versions[:2] != (number, number):
        raise Broken(f"step {number} of writer {writer} got the receipt {receipt.versions}")
    return receipt


def glance(store: Store, writers: int) -> list[int]:
    """Return how many steps of each writer there are, from one snapshot; raise `Broken` if any is half there."""
    questions: list[AnyQuestion] = [Range(SHARED, 0, 0)]
    for writer in range(writers):
        questions += [Get(document(writer)), Range(stream(writer), 0, 0)]
    shared, *pairs = store.read(questions)
    assert isinstance(shared, Slice)
    found = []
    for writer, (doc, own) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
        assert isinstance(doc, Document | None) and isinstance(own, Slice)
        version = 0 if doc is None else doc.version
        if version != own.length:
            raise Broken(f"half a commit: writer {writer} has document {version} and stream {own.length}")
        found.append(version)
    if sum(found) != shared.length:
        raise Broken(f"half a commit: {found} steps, and {shared.length} in the shared stream")
    return found


def compare(writer: int, acknowledged: int, found: int, in_flight: int = 1) -> None:
    """Raise `Lost` or `Broken` unless what is there is what was acknowledged, and at most what was in flight."""
    told = f"writer {writer}: {acknowledged} steps were acknowledged, {found} are there"
    if found < acknowledged:
        raise Lost(told)
    if found > acknowledged + in_flight:
        raise Broken(told)


def check(store: Store, acknowledged: Sequence[int], *, in_flight: int = 1) -> list[int]:
    """Read everything; raise `Broken` unless each writer's steps are exactly 1 to n, with n acknowledged or in flight.

    Returns n for each writer.
    """
    found = glance(store, len(acknowledged))
    for writer, (number, acked) in enumerate(zip(found, acknowledged, strict=True)):
        compare(writer, acked, number, in_flight)
        doc, own = ask(store, Get(document(writer)), Range(stream(writer)))
        if doc is not None and doc.value != content(writer, number):
            raise Broken(f"writer {writer}: its document is not that of step {number}")
        if [record.body for record in own.records] != [content(writer, n) for n in range(1, number + 1)]:
            raise Broken(f"writer {writer}: its stream is not steps 1 to {number}")
    seen = [0] * len(acknowledged)
    for record in ask(store, Range(SHARED)).records:
        assert record.body is not None
        writer, number = record.body.load()
        seen[writer] += 1
        if seen[writer] != number:
            raise Broken(f"shared record {record.index} is step {number} of writer {writer}, not {seen[writer]}")
    return found


def check_file(path: str | Path, key: str | bytes | None = None) -> None:
    """Raise `Broken` if SQLite's own check finds the file damaged. No store may have it open in another SQLite."""
    con = apsw.Connection(str(path))
    try:
        if key is not None:
            con.pragma("key", key if isinstance(key, str) else f"raw:{key.hex()}")
        found: Any = con.execute("PRAGMA integrity_check").fetchone()
        if found != ("ok",):
            raise Broken(f"integrity_check: {found}")
    finally:
        con.close()


def damage(path: str | Path, rng: random.Random) -> str:
    """Spoil a file in one random way and say which: a flipped bit, a zeroed or swapped page, or a lost tail."""
    data = bytearray(Path(path).read_bytes())
    pages = max(1, len(data) // PAGE)
    kind = rng.choice(["flip", "flip", "flip", "zero", "swap", "cut"])
    at = rng.randrange(len(data))
    page = rng.randrange(pages) * PAGE
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "zero":
        data[page : page + PAGE] = bytes(len(data[page : page + PAGE]))
    elif kind == "swap":
        other = rng.randrange(pages) * PAGE
        data[page : page + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[page : page + PAGE]
    else:
        del data[at:]
    Path(path).write_bytes(data)
    return f"{kind} at {at if kind in ('flip', 'cut') else page}"
