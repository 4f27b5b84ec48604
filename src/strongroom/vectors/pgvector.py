"""Vectors in Postgres, by its `vector` extension (extra `postgres`): shared by all processes, beside the store or not.

There is a table for each dimension, with an HNSW index, and one that says how much of each space's log is in. A change
and the place it came from are one transaction. Every search filters by space and owner inside Postgres.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from strongroom.embedders import Fingerprint
from strongroom.errors import InvalidInput, StrongroomError, Unavailable
from strongroom.vectors import Row, Vector

SCHEMA = "strongroom"
LARGEST_INDEXED = 2_000
LOCK = 0x486C6476  # "Hldv"


class PgvectorMemories:
    """A vector index in the Postgres database at `url`, in tables whose names begin with `table`.

    The address may be the store's own, with its `?schema=`: the tables then stand beside the store's.
    """

    kind = "pgvector"

    def __init__(self, url: str, *, table: str = "strongroom_vectors", timeout_seconds: float = 10.0) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,39}", table):
            raise InvalidInput(f"a table name is up to 40 of a-z, 0-9 and _, not {table!r:.60}")
        conninfo, self._schema = _split(url)
        self._name = table
        self._table = f'"{self._schema}".{table}'
        self._ready: set[int] = set()
        self._fingerprints: dict[str, Fingerprint] = {}
        self._pool = _pool(conninfo, timeout_seconds)

    def open(self, space: str, fingerprint: Fingerprint) -> int:
        self._prepare(fingerprint.dimension)
        with self._connection() as con:
            self._fingerprints[space] = fingerprint
            found = con.execute(
                f"SELECT position, name, revision, dimension FROM {self._table}_position WHERE space = %s", [space]
            ).fetchone()
        if found is None:
            return 0
        position, *theirs = found
        if Fingerprint(*theirs) != fingerprint:
            raise InvalidInput(
                f"the Postgres vectors of space {space!r} were made by {Fingerprint(*theirs)}, not by {fingerprint}; "
                "use another table, or make them anew with memories.reembed(embedder)"
            )
        return int(position)

    def apply(self, space: str, start: int, stop: int, rows: Sequence[Row], removed: Sequence[str]) -> None:
        mark = self._fingerprints[space]
        with self._connection() as con:
            con.execute(
                f"INSERT INTO {self._table}_position VALUES (%s, 0, %s, %s, %s) ON CONFLICT DO NOTHING",
                [space, mark.name, mark.revision, mark.dimension],
            )
            found = con.execute(
                f"SELECT position FROM {self._table}_position WHERE space = %s FOR UPDATE", [space]
            ).fetchone()
            if found[0] != start:
                return
            with con.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO {self._vectors(mark)} VALUES (%s, %s, %s, %s::vector) "
                    "ON CONFLICT (space, memory_id) DO NOTHING",
                    [(space, row.id, row.owner, _text(row.vector)) for row in rows],
                )
            con.execute(
                f"DELETE FROM {self._vectors(mark)} WHERE space = %s AND memory_id = ANY(%s)", [space, list(removed)]
            )
            con.execute(f"UPDATE {self._table}_position SET position = %s WHERE space = %s", [stop, space])

    def search(self, space: str, vector: Vector, limit: int, owners: Sequence[str]) -> list[tuple[str, float]]:
        mark = self._fingerprints[space]
        with self._connection() as con:
            # Neighbours of other spaces and owners are passed over until enough of ours were met.
            con.execute("SET LOCAL hnsw.iterative_scan = 'strict_order'")
            con.execute(f"SET LOCAL hnsw.ef_search = {min(1_000, max(100, 2 * limit))}")
            found = con.execute(
                f"SELECT memory_id, -(embedding <#> %s::vector) FROM {self._vectors(mark)} "
                "WHERE space = %s AND owner = ANY(%s) ORDER BY embedding <#> %s::vector LIMIT %s",
                [_text(vector), space, list(owners), _text(vector), limit],
            ).fetchall()
        return sorted(((id, float(score)) for id, score in found), key=lambda pair: (-round(pair[1], 6), pair[0]))

    def rebuild(self, space: str, fingerprint: Fingerprint) -> None:
        self._prepare(fingerprint.dimension)
        with self._connection() as con:
            found = con.execute(
                f"DELETE FROM {self._table}_position WHERE space = %s RETURNING name, revision, dimension", [space]
            ).fetchone()
            if found is not None:
                con.execute(f"DELETE FROM {self._vectors(Fingerprint(*found))} WHERE space = %s", [space])
            self._fingerprints[space] = fingerprint

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.close()

    def _vectors(self, fingerprint: Fingerprint) -> str:
        return f"{self._table}_{fingerprint.dimension}"

    def _prepare(self, dimension: int) -> None:
        if dimension in self._ready:
            return
        with self._connection() as con:
            con.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])  # IF NOT EXISTS alone does not keep two apart
            if con.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
                con.execute("CREATE EXTENSION vector")  # an administrator may have to do this once
            con.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
            con.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table}_position (space text PRIMARY KEY, position bigint NOT NULL, "
                "name text NOT NULL, revision text NOT NULL, dimension integer NOT NULL)"
            )
            name, table = f"{self._name}_{dimension}", f"{self._table}_{dimension}"
            con.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (space text NOT NULL, memory_id text NOT NULL, "
                f"owner text NOT NULL, embedding vector({dimension}) NOT NULL, PRIMARY KEY (space, memory_id))"
            )
            con.execute(f"CREATE INDEX IF NOT EXISTS {name}_owner ON {table} (space, owner)")
            if dimension <= LARGEST_INDEXED:
                con.execute(f"CREATE INDEX IF NOT EXISTS {name}_near ON {table} USING hnsw (embedding vector_ip_ops)")
        self._ready.add(dimension)  # not before it is committed

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Lend a connection for one transaction. Whatever goes wrong, the index is only unavailable."""
        try:
            with self._pool.connection() as con:
                yield con
        except StrongroomError:
            raise
        except Exception as problem:
            said = str(problem) or type(problem).__name__
            raise Unavailable(f"pgvector cannot be used now: {said:.300}", reason="unreachable") from problem


def _split(url: str) -> tuple[str, str]:
    """Return what libpq understands of an address, and the schema it names."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in query if name == "schema"), SCHEMA)
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise InvalidInput("the schema in a Postgres address must be a plain lower-case name, such as 'strongroom'")
    rest = urlencode([(name, value) for name, value in query if name != "schema"])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, rest, "")), schema


def _pool(url: str, timeout_seconds: float) -> Any:
    try:
        from psycopg_pool import ConnectionPool
    except ImportError:
        raise Unavailable("psycopg is not installed; pip install 'strongroom[postgres]'", reason="missing") from None
    options = {"connect_timeout": max(2, int(timeout_seconds))}
    return ConnectionPool(url, kwargs=options, min_size=0, max_size=8, timeout=timeout_seconds, open=True)


def _text(vector: Vector) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"
