"""The tables, their format version, and how a database gets or becomes the current one.

The `.sql` files are the truth. What is here decides; the stores run the statements.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib.resources import files
from typing import Any

from msgspec import Struct

from strongroom.backends.postgres.address import Address
from strongroom.errors import SchemaMismatch, Unavailable
from strongroom.store import Durability

FORMAT = 1
OLDEST_SERVER = 130000


def script(name: str) -> str:
    return (files("strongroom.backends.postgres") / name).read_text("utf-8")


# MIGRATIONS[n] turns format n into format n + 1, inside the transaction that sets the new number.
MIGRATIONS: dict[int, str] = {}

DURABLE = Durability("durable", True, True, "nothing")

# The catalogue's own tables are asked, not to_regclass(): that may answer from a session's memory of a moment ago.
_FACTS = """
SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
       current_setting('fsync'), current_setting('full_page_writes'),
       EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s),
       EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
               WHERE n.nspname = %s AND c.relname = 'format')"""
# Any two openers agree on this number, whatever the schema: creation is rare and short.
_LOCK = "SELECT pg_advisory_xact_lock(5218546081732487014)"

Statement = tuple[str, tuple[Any, ...] | None]
Rows = list[tuple[Any, ...]]


class Facts(Struct, frozen=True):
    durability: Durability


def opening(address: Address) -> Generator[Statement, Rows, Facts]:
    """Yield the statements that make the database ready, taking the rows of each; return what was learnt.

    Creating and migrating happen in one transaction under one lock, so any number of processes may start at once.
    """
    facts, has_schema, has_format = _judge((yield _facts(address)))
    if has_format and (yield from _version(address)) == FORMAT:
        return facts
    yield "BEGIN", None
    yield "SET LOCAL synchronous_commit = on", None
    yield _LOCK, None
    _, has_schema, has_format = _judge((yield _facts(address)))
    if not has_format:
        if not has_schema:
            yield address.sql("CREATE SCHEMA :schema"), None
        for name in ("schema.sql", "commit.sql", "read.sql", "search.sql", "export.sql"):
            yield address.sql(script(name)), None
        yield address.sql("INSERT INTO :schema.format (version) VALUES (%s)"), (FORMAT,)
    else:
        for step in range((yield from _version(address)), FORMAT):
            yield address.sql(MIGRATIONS[step]), None
        yield address.sql("UPDATE :schema.format SET version = %s"), (FORMAT,)
    yield "COMMIT", None
    return facts


def _facts(address: Address) -> Statement:
    return _FACTS, (address.schema, address.schema)


def _judge(rows: Rows) -> tuple[Facts, bool, bool]:
    number, encoding, fsync, full_pages, has_schema, has_format = rows[0]
    if number < OLDEST_SERVER:
        raise Unavailable("Postgres 13 or later is needed; nothing was changed", reason="server_version")
    if encoding != "UTF8":
        raise SchemaMismatch(f"the database is encoded in {encoding}, not UTF8; nothing was changed", reason="encoding")
    return Facts(durability(fsync, full_pages)), has_schema, has_format


def _version(address: Address) -> Generator[Statement, Rows, int]:
    rows = yield address.sql("SELECT version FROM :schema.format"), None
    if not rows:
        raise SchemaMismatch(
            f"the schema {address.schema} belongs to another program; nothing was changed", reason="foreign"
        )
    version = int(rows[0][0])
    if version > FORMAT:
        raise SchemaMismatch(
            f"this store has format {version}, and this Strongroom knows formats up to {FORMAT}; "
            "upgrade strongroom (nothing was changed)",
            reason="newer",
        )
    return version


def durability(fsync: str, full_page_writes: str) -> Durability:
    """Return what the server's settings are worth. `synchronous_commit` is not asked: every commit turns it on."""
    if fsync != "on":
        return Durability("relaxed", True, False, "any commit, or the whole database, at a power cut (fsync is off)")
    if full_page_writes != "on":
        return Durability(
            "relaxed", True, False, "pages half written at a power cut (full_page_writes is off), with all they hold"
        )
    return DURABLE
