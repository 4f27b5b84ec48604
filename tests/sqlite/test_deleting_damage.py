"""What is damaged can be deleted, and nothing else can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.errors import Damaged
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Truncate,
    Write,
    ask,
    new_id,
)

DOC, CHAT = Key("s", "task", "one"), Key("s", "chat", "one")
HEAD = "UPDATE head SET sum = sum + 1 WHERE id = 'one'"
LAST = "UPDATE record SET weight = 9 WHERE pos = (SELECT max(pos) FROM record WHERE pos >> 32 = {chat})"
LOST = "DELETE FROM record WHERE pos >> 32 = {chat}"
WAYS = [
    HEAD,
    "UPDATE head SET version = version + 1 WHERE id = 'one'",
    "UPDATE head SET alive = 0 WHERE id = 'one'",
    "UPDATE head SET tags = CAST('{}' AS BLOB), chain = zeroblob(32) WHERE id = 'one'",
]


def entry(text: str) -> Entry:
    return Entry("Note", encode(text), 1, 0, text=text)


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Callable[[str], SqliteStore]]:
    """Open a store in which one document and one stream are damaged in some way, and two are not."""

    def make(way: str) -> SqliteStore:
        path = tmp_path / "agent.db"
        with SqliteStore(path) as store:
            for id in ("one", "other"):
                chat = Append(Key("s", "chat", id), tuple(entry(f"tea {n}") for n in range(3)))
                store.commit(Commit(new_id(), (), (Put(Key("s", "task", id), encode(id), {"open": "yes"}), chat)))
        with apsw.Connection(str(path)) as con:
            [(chat_ref,)] = con.execute("SELECT ref FROM head WHERE kind = 'chat' AND id = 'one'").fetchall()
            con.execute(way.replace("{chat}", str(chat_ref)))
            assert con.changes()
        opened.append(SqliteStore(path))
        return opened[-1]

    opened: list[SqliteStore] = []
    yield make
    for store in opened:
        store.close()


def do(store: SqliteStore, *writes: Write, expects: tuple[Expect, ...] = ()) -> Any:
    return store.commit(Commit(new_id(), expects, writes)).versions


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_document_is_deleted_and_the_file_is_whole_again(
    damaged: Callable[[str], SqliteStore], way: str
) -> None:
    store = damaged(way)
    do(store, Delete(DOC), Delete(CHAT), Erase(CHAT, 0, 0))
    assert (ask(store, Get(DOC)), ask(store, Range(CHAT)).length) == (None, 0)
    assert [one.key.id for one in ask(store, Scan("s", "task", {"open": "yes"})).documents] == ["other"]
    assert ask(store, Range(Key("s", "chat", "other"))).length == 3
    assert store.check().problems == ()


@pytest.mark.parametrize("way", [HEAD, LAST, LOST])
def test_a_damaged_stream_is_deleted_and_the_next_one_of_its_name_goes_on(
    damaged: Callable[[str], SqliteStore], way: str
) -> None:
    store = damaged(way)
    do(store, Delete(CHAT), Erase(CHAT, 0, 0))
    assert do(store, Append(CHAT, (entry("new"),))) == ((1,) if way == LOST else (4,))
    assert [one.text for one in ask(store, Range(CHAT)).records] == ["new"]


@pytest.mark.parametrize(
    "write",
    [
        Put(DOC, encode(1)),
        Append(CHAT, (entry("no"),)),
        Append(CHAT, (entry("no"),), max_length=9),
        Truncate(CHAT, 2),
        Erase(CHAT, 0, 2),
    ],
)
def test_nothing_else_is_written_to_what_is_damaged(damaged: Callable[[str], SqliteStore], write: Write) -> None:
    store = damaged(HEAD)
    for writes in ((write,), (Put(Key("s", "task", "new"), encode(1)), write), (Delete(write.key), write)):
        with pytest.raises(Damaged):
            do(store, *writes)
    assert ask(store, Get(Key("s", "task", "new"))) is None


def test_what_is_damaged_is_not_deleted_by_who_expects_something_of_it(damaged: Callable[[str], SqliteStore]) -> None:
    store = damaged(HEAD)
    for key in (DOC, CHAT):
        with pytest.raises(Damaged):
            do(store, Delete(key), expects=(Expect(key, 1),))


def test_a_row_of_another_is_not_deleted_where_an_index_leads_to_it(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    two, three = Key("s", "task", "two"), Key("s", "task", "three")
    with SqliteStore(path) as store:
        do(store, Put(DOC, encode(1)), Put(two, encode(2)), Put(three, encode(3)))
    con = apsw.Connection(str(path))
    roots: list[Any] = con.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'head_by_name'").fetchall()
    start = (roots[0][0] - 1) * con.pragma("page_size")
    con.close()
    raw = bytearray(path.read_bytes())
    number = raw.index(b"tasktwo", start) + len(b"tasktwo")  # an entry ends with the number of its row
    assert raw[number] == 2
    raw[number] = 3
    path.write_bytes(raw)
    with SqliteStore(path) as store:
        with pytest.raises(Damaged):
            do(store, Delete(two))
        assert ask(store, Get(three)) is not None


def test_a_damaged_document_with_words_in_the_index_stays(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as store:
        do(store, Put(DOC, encode("tea"), text="tea"))
    with apsw.Connection(str(path)) as con:
        con.execute(HEAD)
    with SqliteStore(path) as store, pytest.raises(Damaged):
        do(store, Delete(DOC))
