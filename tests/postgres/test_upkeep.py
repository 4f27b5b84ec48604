"""What somebody did behind the store's back is found."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from strongroom.backends.postgres import PostgresStore, store
from strongroom.backends.postgres.address import parse
from strongroom.codec import encode
from strongroom.store import Append, Commit, Delete, Entry, Key, Put, Truncate, new_id

KEY = Key("acme", "log", "a")


@pytest.fixture
def opened(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    monkeypatch.setattr(store, "STEP", 4)  # streams come in several parts
    with PostgresStore(postgres) as opened:
        entries = tuple(Entry("note", encode(place), commitment=bytes([place]) * 32) for place in range(10))
        writes = (
            Append(KEY, entries),
            Append(Key("zeta", "log", "b"), entries),
            Put(Key("acme", "doc", "a"), encode(1)),
        )
        for write in writes:
            opened.commit(Commit(new_id(), (), (write,)))
        opened.commit(Commit(new_id(), (), (Truncate(KEY, 2), Append(Key("acme", "log", "gone"), entries))))
        opened.commit(Commit(new_id(), (), (Delete(Key("acme", "log", "gone")),)))
        yield opened


def tamper(address: str, sql: str) -> None:
    parsed = parse(address)
    with psycopg.connect(parsed.conninfo, autocommit=True) as con:
        con.execute(f"SET search_path = {parsed.schema}")
        con.execute("SET strongroom.space = 'acme'")
        assert con.execute(sql).rowcount == 1


def test_a_whole_store_is_found_whole(opened: PostgresStore) -> None:
    found = opened.check()
    assert found.ok
    assert (found.documents, found.streams, found.tombstones, found.records) == (1, 2, 1, 18)
    assert found.problems == ()


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM record WHERE index = 5", "records 5 to 5 are missing"),
        ("DELETE FROM record WHERE index = 9", "records 9 to 9 are missing"),
        ("UPDATE record SET commitment = chain WHERE index = 6", "the hash chain breaks at record 6"),
    ],
)
def test_tampering_is_found(opened: PostgresStore, postgres: str, sql: str, problem: str) -> None:
    tamper(postgres, sql)
    found = opened.check()
    assert not found.ok
    assert found.problems[0] == f"log 'a' in 'acme': {problem}"
