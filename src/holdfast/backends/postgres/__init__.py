"""The store for more than one machine, in a Postgres database."""

from holdfast.backends.postgres.aio import AsyncPostgresStore
from holdfast.backends.postgres.store import PostgresStore

__all__ = ["AsyncPostgresStore", "PostgresStore"]
