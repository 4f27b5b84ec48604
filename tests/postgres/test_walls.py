"""Row-level security, the second wall between spaces: it holds even for a statement that forgot to name one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from strongroom.backends.postgres.address import parse
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Key, Put, Range, new_id

TABLES = ("head", "tag", "record", "receipt")


@pytest.fixture
def raw(postgres: str, connect: Callable[..., Any]) -> Iterator[psycopg.Connection[Any]]:
    """A plain connection of the tables' owner, to a store where `acme` has one row in every table."""
    parsed = parse(postgres)
    writes = (
        Put(Key("acme", "doc", "a"), encode("secret"), {"colour": "red"}),
        Append(Key("acme", "log", "a"), (Entry("note", encode("secret")),)),
    )
    connect(postgres).commit(Commit(new_id(), (), writes))
    with psycopg.connect(parsed.conninfo, autocommit=True) as con:
        con.execute(f"SET search_path = {parsed.schema}")
        yield con


def count(con: psycopg.Connection[Any], table: str) -> int:
    row = con.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("table", TABLES)
def test_who_names_no_space_sees_nothing(raw: psycopg.Connection[Any], table: str) -> None:
    assert count(raw, table) == 0


@pytest.mark.parametrize("table", TABLES)
def test_another_space_sees_nothing(raw: psycopg.Connection[Any], table: str) -> None:
    raw.execute("SET strongroom.space = 'zeta'")
    assert count(raw, table) == 0


@pytest.mark.parametrize("table", TABLES)
def test_the_space_itself_sees_its_rows(raw: psycopg.Connection[Any], table: str) -> None:
    raw.execute("SET strongroom.space = 'acme'")
    assert count(raw, table) > 0


@pytest.mark.parametrize("table", TABLES)
def test_another_space_changes_nothing(raw: psycopg.Connection[Any], table: str) -> None:
    raw.execute("SET strongroom.space = 'zeta'")
    assert raw.execute(f"DELETE FROM {table}").rowcount == 0


def test_nobody_can_write_into_another_space(raw: psycopg.Connection[Any]) -> None:
    raw.execute("SET strongroom.space = 'zeta'")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        raw.execute("INSERT INTO tag (space, kind, label, ref) VALUES ('acme', 'doc', 'x', 1)")


def test_a_call_leaves_no_space_behind_on_its_connection(raw: psycopg.Connection[Any]) -> None:
    raw.execute("SELECT watch('acme', 'log', 'a', 1)")
    assert [count(raw, table) for table in TABLES] == [0] * len(TABLES)


def test_one_read_may_ask_about_two_spaces(connect: Callable[..., Any], postgres: str) -> None:
    store = connect(postgres)
    for space in ("acme", "zeta"):
        store.commit(Commit(new_id(), (), (Append(Key(space, "log", "a"), (Entry("note", encode(space)),)),)))
    found = store.read([Range(Key(space, "log", "a")) for space in ("zeta", "acme", "nobody")])
    assert [[record.body.load() for record in slice.records] for slice in found] == [["zeta"], ["acme"], []]


@pytest.mark.parametrize("setting", ["strongroom.space = 'acme'", "strongroom.operator = 'on'"])
def test_it_is_a_seat_belt_and_no_lock(raw: psycopg.Connection[Any], setting: str) -> None:
    """Whoever may connect may say which space is meant: docs/security.md says so, and this is why it must."""
    raw.execute(f"SET {setting}")
    assert count(raw, "record") == 1
