"""What a search reads: as much as its words stand in, however often it was asked before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from strongroom.backends.postgres.address import parse
from strongroom.backends.postgres.search import FIND, question
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Find, Key, new_id

MANY = 5_000


def test_the_tenth_search_for_a_rare_word_reads_no_more_than_the_first(
    postgres: str, connect: Callable[..., Any]
) -> None:
    key = Key("acme", "message", "s")
    texts = ["a quokka", *(" ".join(f"word{n % 40 + place}" for place in range(30)) for n in range(MANY))]
    entries = tuple(Entry("user", encode({}), text=text) for text in texts)
    connect(postgres).commit(Commit(new_id(), (), (Append(key, entries),)))
    address = parse(postgres)
    asked = question(Find("acme", "message", ("quokka",), "s"))
    with psycopg.connect(address.conninfo, autocommit=True) as con:
        con.execute(address.sql("VACUUM (ANALYZE) :schema.word"))
        for _ in range(10):
            assert found(con, address.sql(FIND), asked) == [0, 1]
        with con.transaction():
            before = fetched(con)
            found(con, address.sql(FIND), asked)
            assert fetched(con) - before < 100


def found(con: psycopg.Connection[Any], sql: str, asked: tuple[Any, ...]) -> list[int]:
    return [row[0] for row in con.execute(sql, asked).fetchall()]


def fetched(con: psycopg.Connection[Any]) -> int:
    """Return how many rows of words this transaction has read."""
    row = con.execute(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables "
        "WHERE relname = 'word' ORDER BY 1 DESC LIMIT 1"
    ).fetchone()
    assert row is not None
    return int(row[0])
