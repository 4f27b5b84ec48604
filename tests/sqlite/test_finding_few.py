"""Where a search may look at few places only, they are read instead of asking the index for each word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, search
from strongroom.codec import encode
from strongroom.stemming import words
from strongroom.store import Append, Commit, Delete, Entry, Find, Key, Put, new_id

BODY = encode({})
TEXTS = ("the lake in summer", "Swimming, with cousins!", "Été à la plage", "夏の湖で泳ぐ", "the lake again", "nothing")
ASKED = words("summer lake swims été 湖 absent")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "a.db") as store:
        for number, text in enumerate(TEXTS * 2):
            whose = {"owner": "ana" if number % 2 else "bob"}
            store.commit(Commit(new_id(), (), (Put(Key("s", "k", f"d{number}"), BODY, tags=whose, text=text),)))
        entries = tuple(Entry("note", BODY, text=text) for text in TEXTS)
        store.commit(Commit(new_id(), (), (Append(Key("s", "k", "stream"), entries),)))
        store.commit(Commit(new_id(), (), (Delete(Key("s", "k", "d1")),)))
        yield store


@pytest.mark.parametrize(
    "find",
    [
        Find("s", "k", ASKED, tags={"owner": "ana"}, limit=100),
        Find("s", "k", ASKED, tags={"owner": "nobody"}, limit=100),
        Find("s", "k", ASKED, "stream", limit=100),
        Find("s", "k", ASKED, "d2", limit=100),
        Find("s", "k", ASKED, limit=3),
    ],
)
def test_the_same_is_found_whether_places_are_read_or_words_are_looked_up(
    store: SqliteStore, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = []
    for few in (0, 100):
        monkeypatch.setattr(search, "FEW", few)
        answers.append(store.search(find))
    assert answers[0] == answers[1]


def test_more_words_cost_no_more_pages_where_an_owner_has_few_places(store: SqliteStore, tmp_path: Path) -> None:
    others = tuple(Entry("note", BODY, text="the lake in summer") for _ in range(3_000))
    store.commit(Commit(new_id(), (), (Append(Key("s", "k", "others"), others),)))
    store.search(Find("s", "k", ("lake",)))

    def pages(*asked: str) -> int:
        """Return how many pages SQLite looks at for a search."""
        with closing(apsw.Connection(str(tmp_path / "a.db"))) as con:
            search.search(con, Find("s", "k", ("absent",), tags={"owner": "ana"}))  # reads the schema
            con.status(apsw.SQLITE_DBSTATUS_CACHE_HIT, True)
            con.status(apsw.SQLITE_DBSTATUS_CACHE_MISS, True)
            search.search(con, Find("s", "k", asked, tags={"owner": "ana"}))
            return con.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0] + con.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]

    assert pages("absent", "missing", "gone") == pages("absent")
