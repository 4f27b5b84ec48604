"""The store for more than one machine, in a Postgres database."""

from strongroom.backends.postgres.store import AsyncPostgresStore, PostgresStore

__all__ = ["AsyncPostgresStore", "PostgresStore"]
