"""Two commits at once, where row locks alone would not be enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from strongroom.backends.postgres.address import parse
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.store import Append, Commit, Entry, Expect, Get, Key, Put, Range, Write, new_id
from strongroom.testing import race

ROUNDS = 15


def put(key: Key) -> Put:
    return Put(key, encode(1))


def append(key: Key) -> Append:
    return Append(key, (Entry("note", encode(1)),))


def attempt(store: Any, commit: Commit) -> Callable[[], bool]:
    def run() -> bool:
        try:
            store.commit(commit)
        except Conflict:
            return False
        return True

    return run


def test_two_commits_that_exclude_each_other_do_not_both_happen(connect: Callable[..., Any], postgres: str) -> None:
    store = connect(postgres)
    for turn in range(ROUNDS):
        one, other = Key("acme", "doc", f"{turn}-a"), Key("acme", "doc", f"{turn}-b")
        outcomes = race(
            attempt(store, Commit(new_id(), (Expect(other, 0),), (put(one),))),
            attempt(store, Commit(new_id(), (Expect(one, 0),), (put(other),))),
        )
        assert sorted(outcomes) == [False, True]


def test_commits_that_name_their_keys_in_opposite_orders_do_not_block_each_other(
    connect: Callable[..., Any], postgres: str
) -> None:
    store = connect(postgres)
    keys = [Key("acme", "log", str(place)) for place in range(6)]
    for turn in range(ROUNDS):
        forwards: tuple[Write, ...] = tuple(append(key) for key in keys)
        race(
            attempt(store, Commit(new_id(), (), forwards)),
            attempt(store, Commit(new_id(), (), forwards[::-1])),
        )
        assert [found.length for found in store.read([Range(key) for key in keys])] == [2 * turn + 2] * len(keys)
    with psycopg.connect(parse(postgres).conninfo) as con:
        row = con.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row == (0,)


def test_one_id_used_for_two_commits_at_once_happens_once(connect: Callable[..., Any], postgres: str) -> None:
    store = connect(postgres)
    for turn in range(ROUNDS):
        id = new_id()
        one, other = Key("acme", "doc", f"{turn}-a"), Key("acme", "doc", f"{turn}-b")
        race(
            attempt(store, Commit(id, (), (put(one),))),
            attempt(store, Commit(id, (), (put(other),))),
        )
        assert [found is None for found in store.read([Get(one), Get(other)])].count(True) == 1


def test_a_refused_commit_leaves_no_row_behind(connect: Callable[..., Any], postgres: str) -> None:
    store = connect(postgres)
    gate, new = Key("acme", "doc", "gate"), Key("acme", "doc", "new")
    assert not attempt(store, Commit(new_id(), (Expect(gate, 1),), (put(new),)))()
    store.commit(Commit(new_id(), (Expect(new, 0),), ()))
    parsed = parse(postgres)
    with psycopg.connect(parsed.conninfo) as con:
        con.execute("SELECT set_config('strongroom.space', 'acme', true)")
        assert con.execute(f"SELECT count(*) FROM {parsed.schema}.head").fetchone() == (0,)
