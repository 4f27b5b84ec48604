"""Erasing page by page: after any history nothing but what is alive is in the files, and nothing alive is hurt."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strongroom.backends.sqlite import SqliteStore, gaps
from strongroom.backends.sqlite.erasure import Cleaner
from strongroom.codec import encode
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Find,
    Get,
    Key,
    Put,
    Range,
    Truncate,
    Write,
    ask,
    new_id,
)

HISTORIES = int(os.environ.get("STRONGROOM_ERASURES", "25"))
KEY = bytes(range(32))


def word(number: int) -> str:
    """Return a word that is like no other from its fourth letter on, however an index of words shortens it."""
    return blake2b(str(number).encode(), digest_size=9).hexdigest().translate(str.maketrans("0123456789", "ghijklmnop"))


class World:
    """Two stores over one file, and what is alive in it: the words of each record and document by its place."""

    def __init__(self, folder: Path, key: bytes | None) -> None:
        self.path = folder / "agent.db"
        self.key = key
        self._open = ExitStack()
        self.stores = [self._open.enter_context(SqliteStore(self.path, key=key)) for _ in range(2)]
        self.streams: dict[Key, list[str | None]] = {}
        self.firsts: dict[Key, int] = {}
        self.documents: dict[Key, str] = {}
        self.said: list[str] = []
        self._numbers = count()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def do(self, who: int, *writes: Write) -> str | None:
        return self.stores[who].commit(Commit(new_id(), (), writes)).pending

    def _say(self) -> str:
        self.said.append(word(next(self._numbers)))
        return self.said[-1]

    def append(self, who: int, which: int, times: int, size: int) -> None:
        key = Key("s", "chat", f"c{which}")
        words = [self._say() for _ in range(times)]
        entries = tuple(Entry("Note", encode({each: "." * size}), 1, 0, sender=each, text=each) for each in words)
        self.do(who, Append(key, entries))
        self.streams.setdefault(key, []).extend(words)

    def put(self, who: int, which: int, times: int, size: int) -> None:
        for each in range(times):
            key = Key("s", "note", f"n{(which + each) % 12}")
            said = self._say()
            self.do(who, Put(key, encode({said: "." * size}), tags={"t": said}, text=said))
            self.documents[key] = said

    def delete(self, who: int, which: int, *_: int) -> None:
        key = Key("s", "note", f"n{which}")
        self.do(who, Delete(key))
        self.documents.pop(key, None)

    def truncate(self, who: int, which: int, times: int, _: int) -> None:
        key = Key("s", "chat", f"c{which}")
        if key in self.streams:
            self.do(who, Truncate(key, times))
            for index in range(min(times, len(self.streams[key]))):
                self.streams[key][index] = None

    def search(self, who: int, *_: int) -> None:
        for kind in ("chat", "note"):
            self.stores[who].search(Find("s", kind, ("nothing",)))

    def erase(self, who: int, which: int, times: int, size: int) -> None:
        key = Key("s", "chat", f"c{which}")
        words = self.streams.get(key, [])
        start = size % (len(words) + 1)
        assert self.do(who, Erase(key, start, start + times)) is None
        for index in range(start, min(start + times, len(words))):
            words[index] = None

    def alive(self) -> set[str]:
        return {each for words in self.streams.values() for each in words if each} | set(self.documents.values())

    def require_erased(self) -> None:
        """Complete an erasure, and look for every word that was ever said in every file."""
        self.append(0, 0, 1, 10)
        key = Key("s", "chat", "c0")
        last = len(self.streams[key]) - 1
        assert self.do(0, Erase(key, last, last + 1)) is None
        self.streams[key][last] = None
        alive = self.alive()
        files = b"".join(self.files())
        left = [each for each in self.said if each not in alive and each[3:].encode() in files]
        assert left == []
        if self.key is None:
            assert gaps.unclean(self.path.read_bytes(), 4096, 100) == []

    def files(self) -> Iterator[bytes]:
        for file in self.path.parent.iterdir():
            yield file.read_bytes()
        if self.key is not None:
            yield from deciphered(self.path, self.key)

    def require_alive(self) -> None:
        for store in self.stores:
            assert store.check().problems == ()
            for key, words in self.streams.items():
                found = {record.index: record.text for record in ask(store, Range(key)).records}
                assert [found.get(index) for index in range(len(words))] == words
            for key, said in self.documents.items():
                document = ask(store, Get(key))
                assert document is not None
                assert document.text == said


class Listening(apsw.VFS):
    """Keeps what is read from a database, above the encryption of its pages."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        super().__init__("listening", "multipleciphers-unix")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return Heard(self.heard, name, flags) if flags[0] & apsw.SQLITE_OPEN_MAIN_DB else super().xOpen(name, flags)


class Heard(apsw.VFSFile):
    def __init__(self, heard: list[bytes], name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("multipleciphers-unix", name, flags)
        self._heard = heard

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._heard.append(super().xRead(amount, offset))
        return self._heard[-1]


def deciphered(path: Path, key: bytes) -> list[bytes]:
    """Return every page of an encrypted file as it is under its key, gaps and all. Its log must be empty."""
    vfs = Listening()
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        shutil.copy(path, copy)
        con = apsw.Connection(str(copy), vfs="listening")
        con.pragma("key", f"raw:{key.hex()}{copy.read_bytes()[:16].hex()}")
        assert con.pragma("integrity_check") == "ok"
        con.close()
    vfs.unregister()
    return vfs.heard


Step = tuple[str, int, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "put", "put", "delete", "truncate", "search", "erase"]),
        st.integers(0, 1),
        st.integers(0, 5),
        st.integers(1, 30),
        st.integers(0, 1500),
    ),
    max_size=30,
)
# Conversations that take turns, looked for in between: their pages are split and filled over and over.
TURNS: list[Step] = [
    (what, n % 2, n % 6, 7, 60 * (n % 9))
    for n in range(60)
    for what in ("append", "put", "search")
    if what != "search" or n % 20 == 9
]
# The same in disorder, and then most of it erased: what is not cleaned leaves a dozen of its words behind.
_chance = random.Random(1)
MIXED: list[Step] = [
    ("append", _chance.randrange(2), _chance.randrange(6), _chance.randrange(1, 12), _chance.randrange(700))
    for _ in range(200)
] + [("erase", 0, which, 9999, 3) for which in range(6)]


def history(steps: list[Step], key: bytes | None) -> None:
    with TemporaryDirectory() as folder, World(Path(folder), key) as world:
        for what, *numbers in steps:
            act: Callable[..., None] = getattr(world, what)
            act(*numbers)
        world.require_erased()
        world.require_alive()
        world.put(1, 0, 3, 100)  # whoever had pages in memory must not write back what lay in them
        world.append(1, 1, 9, 100)
        world.require_erased()


@settings(max_examples=HISTORIES, deadline=None)
@example(MIXED)
@example([*TURNS, ("erase", 0, 1, 40, 3), ("erase", 1, 2, 25, 30)])
@given(STEPS)
def test_after_any_history_only_what_is_alive_is_in_the_files(steps: list[Step]) -> None:
    history(steps, None)


@settings(max_examples=max(1, HISTORIES // 5), deadline=None)
@example(MIXED)
@given(STEPS)
def test_nor_is_anything_else_behind_the_key_of_an_encrypted_store(steps: list[Step]) -> None:
    history(steps, KEY)


def test_without_clearing_gaps_there_are_copies_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "unclean", lambda *_: [])
    with pytest.raises(AssertionError, match="assert"):
        history(MIXED, None)


def test_without_rewriting_there_are_copies_left_behind_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cleaner, "_rewrite", lambda *_: None)
    with pytest.raises(AssertionError, match="assert"):
        history(MIXED, KEY)


def test_without_joining_the_index_replaced_words_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.backends.sqlite.erasure._join_words", lambda _: None)
    with pytest.raises(AssertionError, match="assert"):
        history([("put", 0, 0, 12, 9), ("search", 0, 0, 0, 0), ("put", 0, 0, 12, 9), ("search", 0, 0, 0, 0)], None)


def page(cells: list[int], stop: int) -> bytearray:
    """Return a leaf of a table whose gap is full of something."""
    made = bytearray(b"x" * 512)
    made[:8] = bytes([13, 0, 0, 0, len(cells), stop >> 8, stop & 255, 0])
    for n, cell in enumerate(cells):
        made[8 + 2 * n : 10 + 2 * n] = cell.to_bytes(2, "big")
    return made


def test_a_gap_lies_between_the_pointers_and_the_cells() -> None:
    assert gaps.unclean(bytes(page([500, 490], 490)), 512, 0) == [(12, 490)]


def test_the_header_of_the_file_is_no_part_of_its_first_page() -> None:
    first = bytearray(b"x" * 100 + bytes(412))
    first[100:108] = page([], 512)[:8]
    assert gaps.unclean(bytes(first), 512, 100) == []
    first[300] = 1
    assert gaps.unclean(bytes(first), 512, 100) == [(108, 512)]


@pytest.mark.parametrize("first", [0, 1, 3, 12, 255])
def test_a_page_of_no_tree_is_left_alone(first: int) -> None:
    other = page([500], 500)
    other[0] = first
    assert gaps.unclean(bytes(other), 512, 0) == []


@pytest.mark.parametrize("cells, stop", [([400], 490), ([500], 513), ([500] * 250, 490)])
def test_a_damaged_page_is_left_alone(cells: list[int], stop: int) -> None:
    made = page(cells, stop)[:512]
    assert gaps.unclean(bytes(made), 512, 0) == []


def test_a_check_after_others_have_changed_the_index_finds_nothing_wrong(tmp_path: Path) -> None:
    with World(tmp_path, None) as world:
        for what, *numbers in TURNS:
            getattr(world, what)(*numbers)
            if what == "search":
                assert world.stores[0].check().problems == ()
