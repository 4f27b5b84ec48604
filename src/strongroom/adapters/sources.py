"""What other programs keep in a SQLite file or a Postgres database, opened only to be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Generator, Iterator
from pathlib import Path
from typing import Any

from strongroom.errors import InvalidInput

PAGE = 200
PATIENCE = 10  # seconds for a server to answer at all
POSTGRES = ("postgresql://", "postgres://", "postgresql+")
SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
POSTGRES_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = ANY(current_schemas(false))"


class Source:
    """A database to read from. Questions mark their values with `?`, whatever it is."""

    def __init__(self, where: str | Path, needed: Collection[str], what: str) -> None:
        """Open one that has the tables that are needed, or say that it holds no such thing."""
        self._name = f"{_named(str(where))!r:.80}"
        self.is_postgres = str(where).startswith(POSTGRES)
        self._connection: Any = self._postgres(str(where)) if self.is_postgres else self._sqlite(where)
        tables = POSTGRES_TABLES if self.is_postgres else SQLITE_TABLES
        try:
            found = {name for (name,) in self.rows(tables)}
            if not set(needed) <= found:
                raise InvalidInput(f"{self._name} holds no {what}; nothing changed")
        except BaseException:
            self.close()
            raise

    def rows(self, question: str, *values: Any) -> Generator[tuple[Any, ...], None, None]:
        """Give one row after the other."""
        try:
            if not self.is_postgres:
                yield from self._connection.execute(question, values)
                return
            with self._connection.cursor() as cursor:
                cursor.execute(question.replace("?", "%s"), values)
                yield from cursor
        except self._problems as problem:
            raise self._unreadable(problem) from None

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        described = self._connection.execute(f"SELECT * FROM {table} WHERE 1 = 0").description
        return [column[0] for column in described]

    def pages(self, question: str) -> Iterator[tuple[Any, ...]]:
        """Give the rows of a whole table, of which no more is held than a few."""
        if not self.is_postgres:
            yield from self.rows(question)
            return
        try:
            with self._connection.cursor(name="strongroom") as cursor:
                cursor.itersize = PAGE
                cursor.execute(question)
                yield from cursor
        except self._problems as problem:
            raise self._unreadable(problem) from None

    def close(self) -> None:
        self._connection.close()

    def _sqlite(self, where: str | Path) -> Any:
        scheme, mark, rest = str(where).partition(":///")
        path = Path(rest if mark and scheme.startswith("sqlite") else where)
        self._problems: Any = sqlite3.Error
        try:
            return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        except sqlite3.Error as problem:
            raise self._unreadable(problem) from None

    def _postgres(self, where: str) -> Any:
        try:
            import psycopg
        except ImportError:
            raise InvalidInput("this needs psycopg: pip install 'strongroom[postgres]'; nothing changed") from None
        self._problems = psycopg.Error
        try:
            connection = psycopg.connect("postgresql://" + where.partition("://")[2], connect_timeout=PATIENCE)
        except psycopg.Error as problem:
            raise self._unreadable(problem) from None
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # one snapshot of all tables
        connection.read_only = True
        return connection

    def _unreadable(self, problem: Exception) -> InvalidInput:
        kind = "Postgres" if self.is_postgres else "SQLite"
        return InvalidInput(f"{self._name} cannot be read as {kind}: {problem}; nothing changed")


def loaded(value: Any) -> Any:
    """Return what a column of JSON holds: text in SQLite, a value already in Postgres."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def _named(where: str) -> str:
    """Return an address without its password."""
    scheme, mark, rest = where.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else where
