"""Opening: any number of processes at once, honest about what is found, silent about passwords."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from strongroom.backends.postgres import PostgresStore, schema
from strongroom.backends.postgres.address import parse
from strongroom.codec import encode
from strongroom.errors import Damaged, InvalidInput, SchemaMismatch, StrongroomError, Unavailable
from strongroom.store import Append, Commit, Durability, Entry, Get, Key, Put, Range, ask, new_id
from tests.servers.postgres import PASSWORD, PostgresServer, free_port

Connect = Callable[..., Any]
STARTERS = 8

STARTER = """
import sys
from strongroom.backends.postgres import PostgresStore
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Key, new_id
sys.stdin.readline()
with PostgresStore(sys.argv[1]) as store:
    store.commit(Commit(new_id(), (), (Append(Key("acme", "log", "a"), (Entry("started", encode(None)),)),)))
"""


def test_many_processes_can_start_on_an_empty_database_at_once(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    starters = [
        subprocess.Popen([sys.executable, "-c", STARTER, url], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(STARTERS)
    ]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    assert [starter.communicate(timeout=60)[1] for starter in starters] == [""] * STARTERS
    with PostgresStore(url) as store:
        assert ask(store, Range(Key("acme", "log", "a"))).length == STARTERS


def test_a_starter_that_waited_for_another_sees_what_it_made(connect: Connect, postgres: str) -> None:
    address = parse(postgres)
    with psycopg.connect(address.conninfo, autocommit=True) as first, ThreadPoolExecutor() as pool:
        steps = schema.opening(address)
        statement = next(steps)
        while statement[0] != "COMMIT":
            done = first.execute(*statement)
            statement = steps.send(done.fetchall() if done.description else [])
        second = pool.submit(connect, postgres)
        while not first.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").rowcount:
            time.sleep(0.01)
        first.execute("COMMIT")
        assert second.result(timeout=60).read([Get(Key("acme", "doc", "a"))]) == [None]


def test_an_older_format_is_migrated_when_it_is_opened(
    connect: Connect, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(postgres)
    monkeypatch.setitem(schema.MIGRATIONS, schema.FORMAT, "CREATE TABLE :schema.colour (name text)")
    monkeypatch.setattr(schema, "FORMAT", schema.FORMAT + 1)
    connect(postgres)
    change(postgres, "INSERT INTO {}.colour VALUES ('red')")


def test_a_newer_format_is_refused(connect: Connect, postgres: str) -> None:
    connect(postgres)
    change(postgres, "UPDATE {}.format SET version = version + 1")
    with pytest.raises(SchemaMismatch) as refused:
        connect(postgres)
    assert refused.value.reason == "newer"


def test_tables_of_another_program_are_left_alone(connect: Connect, postgres: str) -> None:
    change(postgres, "CREATE SCHEMA {}")
    change(postgres, "CREATE TABLE {}.head (mine integer)")
    with pytest.raises(SchemaMismatch) as refused:
        connect(postgres)
    assert refused.value.reason == "foreign"
    change(postgres, "SELECT mine FROM {}.head")


def test_two_schemas_are_two_stores(connect: Connect, postgres: str) -> None:
    key = Key("acme", "doc", "a")
    connect(postgres).commit(Commit(new_id(), (), (Put(key, encode(1)),)))
    other = f"{postgres}_other"
    try:
        assert connect(other).read([Get(key)]) == [None]
    finally:
        change(other, "DROP SCHEMA {} CASCADE")


def test_tables_that_disappear_are_noticed(connect: Connect, postgres: str) -> None:
    store = connect(postgres)
    change(postgres, "DROP SCHEMA {} CASCADE")
    with pytest.raises(Damaged) as damage:
        store.commit(Commit(new_id(), (), (Append(Key("acme", "log", "a"), (Entry("note", encode(1)),)),)))
    assert damage.value.reason == "replaced"


def test_a_database_that_does_not_exist_is_missing(connect: Connect, postgres_server: PostgresServer) -> None:
    with pytest.raises(Unavailable) as missing:
        connect(postgres_server.address("nowhere"))
    assert missing.value.reason == "missing"


def test_a_role_that_is_not_let_in_is_told_so(connect: Connect, postgres_server: PostgresServer) -> None:
    with pytest.raises(Unavailable) as refused:
        connect(postgres_server.address().replace("agent:", "stranger:", 1))
    assert refused.value.reason == "permission"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://agent:{password}@127.0.0.1:{port}/agent",  # nobody listens there
        "postgresql://agent:{password}@127.0.0.1:{port}/agent?nonsense=1",
        "postgresql://agent:{password}@127.0.0.1:{port}/agent?schema=Not-A-Name",
        "postgresql://agent:p@{password}@127.0.0.1:{port}/agent",  # an @ that should have been encoded
        "postgresql://agent:{password}@host.invalid/agent",
    ],
)
def test_no_error_shows_the_password(connect: Connect, address: str) -> None:
    with pytest.raises(StrongroomError) as failure:
        connect(address.format(password=PASSWORD, port=free_port()))
    assert PASSWORD not in "".join(traceback.format_exception(failure.value)) + repr(failure.value)


def test_a_store_does_not_show_its_password(connect: Connect, postgres: str) -> None:
    store = connect(postgres)
    shown: Any = getattr(store, "_store", store)
    assert PASSWORD in postgres
    assert PASSWORD not in repr(shown) + repr(shown.address) + str(vars(shown))


def test_a_schema_may_be_named_in_the_address() -> None:
    address = parse("postgresql://me@db.example:6432/agents?sslmode=require&schema=team_a")
    assert (address.schema, address.shown) == ("team_a", "postgresql://db.example:6432/agents")
    assert address.conninfo == "postgresql://me@db.example:6432/agents?sslmode=require"


VERIFIED = {"sslmode": "verify-full", "sslrootcert": "system"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me@db.example/agents", VERIFIED),
        ("postgresql://me@127.0.0.1,db.example/agents", VERIFIED),
        ("postgresql://me@db.example/agents?sslmode=disable", {"sslmode": "disable"}),
        ("postgresql://me@db.example/agents?sslrootcert=own.pem", {"sslrootcert": "own.pem"}),
        ("postgresql://me@localhost/agents", {}),
        ("postgresql://me@127.0.0.1,[::1]/agents", {}),
        ("postgresql:///agents", {}),
        ("postgresql:///agents?host=/run/postgresql", {}),
    ],
)
def test_tls_is_verified_beyond_this_machine_unless_the_address_says_otherwise(
    url: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGSSLMODE", "PGSSLROOTCERT", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    known = conninfo_to_dict(parse(url).conninfo)
    assert {name: value for name, value in known.items() if name.startswith("ssl")} == expected


def test_what_the_environment_says_of_tls_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "disable")
    assert "sslmode" not in parse("postgresql://me@db.example/agents").conninfo


def test_a_server_without_tls_is_told_from_one_that_is_away(connect: Connect, postgres: str) -> None:
    separator = "&" if "?" in postgres else "?"
    with pytest.raises(Unavailable, match=r"no TLS that can be verified; .*\?sslmode=disable") as failure:
        connect(f"{postgres}{separator}sslmode=verify-full&sslrootcert=system")
    assert failure.value.reason == "tls"


def test_a_schema_name_cannot_smuggle_sql() -> None:
    with pytest.raises(InvalidInput):
        parse("postgresql://localhost/agents?schema=a%22;drop table x")


@pytest.mark.parametrize(
    ("fsync", "full_pages", "expected"), [("on", "on", True), ("off", "on", False), ("on", "off", False)]
)
def test_durability_says_what_the_settings_are_worth(fsync: str, full_pages: str, expected: bool) -> None:
    found = schema.durability(fsync, full_pages)
    assert isinstance(found, Durability)
    assert (found.survives_power_cut, found.name == "durable") == (expected, expected)


def test_a_server_that_does_not_sync_is_not_called_durable(connect: Connect, postgres: str) -> None:
    assert connect(postgres).durability.name == "relaxed"


def change(address: str, sql: str) -> None:
    """Run a statement as somebody who goes around Strongroom."""
    parsed = parse(address)
    with psycopg.connect(parsed.conninfo, autocommit=True) as con:
        con.execute("SET client_min_messages = warning")
        con.execute(sql.format(parsed.schema))
