"""What is remembered of a commit, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from strongroom.backends.postgres.address import parse
from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.store import Commit, Get, Key, Put, new_id
from tests.servers.postgres import PostgresServer, wait_for_a_lock

KEY = Key("acme", "doc", "a")
MOST_COMMITS = 20_000  # one in 256 sweeps


def put(id: str, *, keep: bool = True) -> Commit:
    return Commit(id, (), (Put(KEY, encode(id)),), b"d", encode("an answer"), keep)


@pytest.fixture
def raw(postgres: str, connect: Callable[..., Any]) -> Iterator[psycopg.Connection[Any]]:
    """A plain connection to a store that exists, in its space."""
    connect(postgres).read([Get(KEY)])
    parsed = parse(postgres)
    with psycopg.connect(parsed.conninfo, autocommit=True) as con:
        con.execute(f"SET search_path = {parsed.schema}")
        con.execute("SET strongroom.space = 'acme'")
        yield con


@pytest.mark.parametrize(
    ("options", "keep", "days"),
    [({}, True, 30), ({"repeats": timedelta(days=90)}, True, 90), ({"repeats": "12h"}, True, 0.5), ({}, False, 1 / 24)],
)
def test_a_receipt_is_kept_as_long_as_it_should_be(
    connect: Callable[..., Any],
    postgres: str,
    raw: psycopg.Connection[Any],
    options: dict[str, Any],
    keep: bool,
    days: float,
) -> None:
    connect(postgres, **options).commit(put("one", keep=keep))
    row = raw.execute(
        "SELECT until - now() BETWEEN make_interval(secs => %s - 600) AND make_interval(secs => %s) FROM receipt",
        (days * 86400, days * 86400),
    ).fetchone()
    assert row == (True,)


@pytest.mark.parametrize("repeats", ["forever", timedelta.max])
def test_for_ever_is_for_ever(
    connect: Callable[..., Any], postgres: str, raw: psycopg.Connection[Any], repeats: Any
) -> None:
    connect(postgres, repeats=repeats).commit(put("one"))
    assert raw.execute("SELECT until = 'infinity' FROM receipt").fetchone() == (True,)


def test_what_is_due_is_swept_and_nothing_else(
    connect: Callable[..., Any], postgres: str, raw: psycopg.Connection[Any]
) -> None:
    store = connect(postgres)
    for id in ("due", "due soon"):
        store.commit(put(id))
    raw.execute("UPDATE receipt SET until = now() - interval '1 second' WHERE id = 'due'")
    raw.execute("UPDATE receipt SET until = now() + interval '1 day' WHERE id = 'due soon'")
    made = 0
    while made < MOST_COMMITS and raw.execute("SELECT id FROM receipt WHERE id = 'due'").fetchone():
        store.commit(put(new_id(), keep=False))
        made += 1
    assert made < MOST_COMMITS
    assert raw.execute("SELECT count(*) FROM receipt").fetchone() == (made + 1,)


def test_of_two_commits_with_one_id_about_different_keys_one_is_made(
    connect: Callable[..., Any], postgres: str, raw: psycopg.Connection[Any], postgres_server: PostgresServer
) -> None:
    store = connect(postgres)
    first = "INSERT INTO receipt (space, id, until, versions, digest) VALUES ('acme', 'x', now(), '{1}', 'other')"
    with ThreadPoolExecutor(1) as pool:
        with raw.transaction():
            raw.execute(first)  # about other keys, so nothing held up the second before it writes its own
            second = pool.submit(store.commit, put("x"))
            wait_for_a_lock(postgres_server)
        with pytest.raises(InvalidInput, match="'x' was used before with other content"):
            second.result(60)
    assert store.read([Get(KEY)]) == [None]
