"""What an address says, and how to speak of it without giving a password away."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from strongroom.errors import InvalidInput

SCHEMA = "strongroom"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Address(Struct, frozen=True):
    """Where the database is. `shown` is all that may appear in a message; `conninfo` holds the secrets."""

    conninfo: str
    schema: str
    shown: str
    given: frozenset[str]

    def __repr__(self) -> str:
        return self.shown

    def sql(self, text: str) -> str:
        """Return SQL with the word :schema replaced by the schema's quoted name."""
        return text.replace(":schema", f'"{self.schema}"')

    def options(self, timeout_seconds: float) -> dict[str, Any]:
        """Return how to connect: no state may outlive a transaction, so that a pooler may stand in between."""
        options: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": None,
            "fallback_application_name": "strongroom",
        }
        if "connect_timeout" not in self.given:
            options["connect_timeout"] = max(2, min(10, round(timeout_seconds)))
        return options


def parse(url: str) -> Address:
    """Understand a postgresql:// address. `?schema=name` chooses the schema that holds the store."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in query if name == "schema"), SCHEMA)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidInput("the schema in a Postgres address must be a plain lower-case name, such as 'strongroom'")
    rest = urlencode([(name, value) for name, value in query if name != "schema"])
    conninfo = urlunsplit((parts.scheme, parts.netloc, parts.path, rest, ""))
    try:
        known = conninfo_to_dict(conninfo)
    except psycopg.Error:
        # libpq's own message would quote pieces of the address.
        raise InvalidInput(
            "this is not a valid Postgres address; expected postgresql://user@host:port/database"
        ) from None
    host = str(known.get("host") or "localhost")
    if "@" in host:
        raise InvalidInput("the password in a Postgres address must be percent-encoded: write @ as %40")
    shown = f"postgresql://{host}:{known.get('port') or 5432}/{known.get('dbname') or ''}"
    return Address(conninfo, schema, shown, frozenset(known))
