"""Everything can be exported from SQLite to Postgres and back, exactly as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strongroom.backends.postgres import PostgresStore
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.copying import copy, survey
from strongroom.errors import Conflict, InvalidInput
from strongroom.stemming import words
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Expect,
    Exportable,
    ExportItem,
    Find,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Searchable,
    Truncate,
    Watchable,
    Write,
    ask,
    new_id,
)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "source.db") as store:
        for space in ("acme", "zeta"):
            for writes in _history(space):
                store.commit(Commit(new_id(), (), writes))
        yield store


@pytest.fixture
def target(postgres: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres) as store:
        yield store


def _history(space: str) -> Iterator[tuple[Write, ...]]:
    log, dropped, gone = Key(space, "log", "long"), Key(space, "doc", "dropped"), Key(space, "log", "gone")
    for place in range(30):
        entry = Entry("note", encode(place), 1, place, "a", "b\0", f"apple {place}", bytes([place]) * 32)
        document = Key(space, "doc", f"d{29 - place}")
        yield Append(log, (entry,) * 3), Put(document, encode(place), {"n": str(place % 2)}, "some pears")
    yield Truncate(log, 7), Put(dropped, encode(1), {"n": "1"}, "pear"), Append(gone, (Entry("n", encode(1)),))
    yield Delete(dropped), Delete(gone)


def test_a_copy_has_the_same_content(sqlite: SqliteStore, target: PostgresStore) -> None:
    assert copy(sqlite, target) == survey(sqlite)


def test_a_copy_can_go_back(sqlite: SqliteStore, target: PostgresStore, tmp_path: Path) -> None:
    copy(sqlite, target)
    with SqliteStore(tmp_path / "back.db") as back:
        assert copy(target, back) == survey(sqlite)
        assert back.check().ok


def test_loading_twice_changes_nothing(sqlite: SqliteStore, target: PostgresStore) -> None:
    for _ in range(2):
        target.load(sqlite.unload(None, 10**6).items)
    assert survey(target) == survey(sqlite)


def test_small_pages_hold_the_same(sqlite: SqliteStore, target: PostgresStore) -> None:
    copy(sqlite, target)
    found: list[ExportItem] = []
    cursor = None
    while True:
        exported = target.unload(cursor, 7)
        found += exported.items
        cursor = exported.next
        if cursor is None:
            break
    whole = target.unload(None, 10**6).items
    assert {item.key for item in found} == {item.key for item in whole}
    assert [r for p in found for r in p.records] == [r for p in whole for r in p.records]


def test_a_copied_stream_goes_on_where_it_was(sqlite: SqliteStore, target: PostgresStore) -> None:
    copy(sqlite, target)
    log = Key("acme", "log", "long")
    commit = Commit(new_id(), (Expect(log, 90),), (Append(log, (Entry("note", encode("x"), commitment=b"x" * 32),)),))
    assert sqlite.commit(commit) == target.commit(commit)
    assert sqlite.read([Range(log)]) == target.read([Range(log)])


def test_a_copied_tombstone_keeps_its_count(sqlite: SqliteStore, target: PostgresStore) -> None:
    copy(sqlite, target)
    with pytest.raises(Conflict):
        target.commit(Commit(new_id(), (Expect(Key("acme", "doc", "dropped"), 2),), ()))
    writes = (
        Put(Key("acme", "doc", "dropped"), encode(1)),
        Append(Key("acme", "log", "gone"), (Entry("n", encode(1)),)),
    )
    assert target.commit(Commit(new_id(), (), writes)).versions == (3, 2)


def test_copied_documents_keep_their_order_and_tags(sqlite: SqliteStore, target: PostgresStore) -> None:
    copy(sqlite, target)
    for scan in (Scan("acme", "doc"), Scan("acme", "doc", {"n": "1"})):
        assert ask(target, scan).documents == ask(sqlite, scan).documents
    assert target.read([Get(Key("acme", "doc", "dropped"))]) == [None]


def test_copied_text_is_found(sqlite: SqliteStore, target: PostgresStore) -> None:
    copy(sqlite, target)
    for find in (Find("acme", "log", words("apples 12")), Find("acme", "doc", words("pear"))):
        assert target.search(find) == sqlite.search(find)


def test_a_made_up_cursor_is_refused(target: PostgresStore) -> None:
    with pytest.raises(InvalidInput):
        target.unload("1:2", 10)


def test_the_store_says_what_it_can_do(target: PostgresStore) -> None:
    assert isinstance(target, Watchable)
    assert isinstance(target, Searchable)
    assert isinstance(target, Exportable)
