"""What an address says, and how to speak of it without giving a password away."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from strongroom.errors import InvalidInput

SCHEMA = "strongroom"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_TLS = ("sslmode", "sslrootcert", "service")
_SYSTEM_ROOTS = 160000  # the version of libpq that knows the authorities of its system


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
    """Understand a postgresql:// address. `?schema=name` chooses the schema that holds the store.

    Beyond this machine TLS is asked for and verified, unless the address or the environment says what to do.
    """
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in query if name == "schema"), SCHEMA)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidInput("the schema in a Postgres address must be a plain lower-case name, such as 'strongroom'")
    rest = urlencode([(name, value) for name, value in query if name != "schema"])
    conninfo = f"{parts.scheme}://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}"
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
    if not _is_here(host) and not any(name in known or f"PG{name.upper()}" in os.environ for name in _TLS):
        conninfo = make_conninfo(conninfo, **_verified())
    return Address(conninfo, schema, shown, frozenset(known))


def _is_here(hosts: str) -> bool:
    """Tell whether what is sent to a server stays on this machine."""
    return all(host in ("localhost", "::1") or host.startswith(("127.", "/", "@")) for host in hosts.split(","))


def _verified() -> dict[str, str]:
    """Return how to have TLS with whoever the address names. By itself libpq takes what it gets, and checks nothing."""
    roots = {"sslrootcert": "system"} if psycopg.pq.version() >= _SYSTEM_ROOTS else {}
    return {"sslmode": "verify-full", **roots}
