"""Commits that write everything the port can write, at least once."""

from __future__ import annotations

from hashlib import sha256

from strongroom.codec import encode
from strongroom.store import Append, Commit, Delete, Entry, Erase, Expect, Find, Key, Put, Truncate

DOCUMENTS = [Key("ana", "note", f"n{n}") for n in range(8)]
TOMBSTONE = Key("ana", "note", "gone")
REBORN = Key("ana", "note", "back again")
LONG, CHAINED, CUT, ERASED, ENDED = (
    Key("ana", "log", name) for name in ("long", "chained", "cut", "erased", "ended ☂")
)
ELSEWHERE = Key("bö", "note", "n1")
CLAIMING = [Key("bö", "note", f"claim {n}") for n in range(3)]
LONGER, SHORTER = Key("cy", "log", "longer"), Key("cy", "log", "shorter")

FINDS = [
    Find("ana", "note", ("harbour",)),
    Find("ana", "note", ("harbour",), tags={"odd": "1"}),
    Find("ana", "log", ("harbour",)),
    Find("bö", "note", ("harbour",)),
]


def commits() -> list[Commit]:
    """Return the commits, in order."""
    written = [
        Commit(f"note-{n}", (Expect(key, 0),), (Put(key, encode({"n": n, "é": "ü" * n}), {"odd": str(n % 2)}),))
        for n, key in enumerate(DOCUMENTS)
    ]
    written += [
        Commit("again", (Expect(DOCUMENTS[1], 1),), (Put(DOCUMENTS[1], encode([1.5, None, True]), {"odd": "1"}),)),
        Commit("text", (), (Put(DOCUMENTS[3], encode(3), {"odd": "1"}, "a boat leaves the harbour"),)),
        Commit("text-2", (), (Put(DOCUMENTS[4], encode(-(2**63)), {"odd": "0"}, "no boat in the harbour"),)),
        Commit("elsewhere", (), (Put(ELSEWHERE, encode("another tenant"), text="a harbour of his own"),)),
        Commit("born", (), (Put(TOMBSTONE, encode(1), {"odd": "1"}, "harbour"), Put(REBORN, encode(1)))),
        Commit("died", (), (Delete(TOMBSTONE), Delete(REBORN))),
        Commit("reborn", (), (Put(REBORN, encode(2)),)),
    ]
    for n in range(12):
        plain = Entry("Note", encode({"n": n, "x": "y" * (n * 90)}), n, 1_000 + n, "ana", "bö", f"harbour {n}")
        bound = Entry("Event", encode(n), commitment=sha256(bytes([n])).digest(), text=f"harbour {n}")
        streams = (LONG, plain), (CHAINED, bound), (CUT, bound), (ERASED, bound), (ENDED, plain)
        written.append(Commit(f"append-{n}", (), tuple(Append(key, (entry,)) for key, entry in streams)))
    written += [
        Commit("cut", (), (Truncate(CUT, 5),)),
        Commit("erase", (), (Erase(ERASED, 2, 7),)),
        Commit("end", (), (Delete(ENDED),)),
        Commit(
            "all at once",
            (Expect(LONG, 12),),
            (Append(LONG, (Entry("Last", encode({})),)), Put(DOCUMENTS[0], encode(0))),
        ),
    ]
    # Commits whose receipts lie in their records: some already filed, because a stream was cut after them.
    written += [
        Commit(f"{0xA0 + n:032x}", (), (Append(key, (Entry("Note", encode(n)), Entry("Note", encode(-n)))),))
        for n, key in enumerate([LONGER, SHORTER, LONGER])
    ]
    written.append(Commit("0" * 32, (), (Truncate(SHORTER, 1),)))
    written += [
        Commit(f"{0xB0 + n:032x}", (), (Append(key, (Entry("Note", encode(n)),)),))
        for n, key in enumerate([SHORTER, LONGER, LONGER])
    ]
    # Tags by their labels, some of them claims; one was handed over.
    written += [
        Commit("claims", (), tuple(Put(key, encode(key.id), {"=name": key.id, "odd": "1"}) for key in CLAIMING)),
        Commit(
            "handed over",
            (),
            (Put(CLAIMING[0], encode(1)), Put(ELSEWHERE, encode(2), {"=name": "claim 0"}, "his harbour")),
        ),
    ]
    return written
