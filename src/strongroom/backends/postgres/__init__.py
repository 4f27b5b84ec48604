"""The store for more than one machine, in a Postgres database."""

from strongroom.errors import InvalidInput

try:
    import psycopg as _driver  # noqa: F401
except ImportError:  # not there, or there without libpq, which the extra brings
    raise InvalidInput(
        "postgresql:// addresses need the extra 'postgres': pip install 'strongroom[postgres]'"
    ) from None

from strongroom.backends.postgres.store import AsyncPostgresStore, PostgresStore

__all__ = ["AsyncPostgresStore", "PostgresStore"]
