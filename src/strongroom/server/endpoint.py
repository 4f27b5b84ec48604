"""An endpoint as data: method, path, who may call it, what goes in and what comes out.

The application, its OpenAPI description, and the test of every route against every role are all made from the same
table, so none of them can forget one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, Generic, TypeVar, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct

from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.server.asking import Asking
from strongroom.server.keys import Caller, Right
from strongroom.server.settings import Settings

B = TypeVar("B")
Q = TypeVar("Q")

MOST = 2**53  # what every database and every JSON parser can count to
Natural = Annotated[int, Meta(ge=0, le=MOST)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class Call(Generic[B, Q]):
    """One request, understood: who asks, of which space, and what."""

    __slots__ = ("body", "caller", "ctx", "path", "query", "request", "settings", "state")

    def __init__(
        self, request: Asking, caller: Caller, ctx: AsyncContext, settings: Settings, body: B, query: Q
    ) -> None:
        self.request = request
        self.caller = caller
        self.ctx = ctx
        self.settings = settings
        self.path = request.path
        self.body = body
        self.query = query
        self.state = request.state

    @property
    def commit_id(self) -> str | None:
        """The caller's Idempotency-Key, made its own: it never meets another caller's, nor one for something else."""
        given = self.request.headers.get("idempotency-key")
        if given is None:
            return None
        if not 0 < len(given) <= 128 or not given.isprintable():
            raise InvalidInput("an Idempotency-Key must be 1 to 128 printable characters; nothing changed")
        what = sha256(f"{self.request.method} {self.request.whole_path}".encode()).hexdigest()[:16]
        return f"http:{self.caller.name}:{what}:{given}"


class Endpoint(Struct, frozen=True, kw_only=True):
    """A row of the table. `body` and `query` are msgspec types; `answer` describes what comes back, for the docs."""

    method: str
    path: str
    call: Callable[[Call[Any, Any]], Awaitable[Any]]
    right: Right | None  # None: anybody may, even without a key
    summary: str
    group: str
    body: Any = None
    query: Any = Nothing
    answer: Any = None
    status: int = 200
    keyed: bool = False  # whether a repeat with the same Idempotency-Key does nothing more than the first did
    media: str = "application/json"
    accepts: str = "application/json"  # anything else, and the endpoint reads the body itself


def understand(kind: Any, value: Any, where: str, *, strict: bool) -> Any:
    """Turn plain data into a typed value, or say what is wrong with it."""
    try:
        return msgspec.convert(value, kind, strict=strict, str_keys=True)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"{problem}{_allowed(kind)}; nothing changed", path=where) from None


@cache
def _allowed(kind: Any) -> str:
    """Name the fields of a type, and what may stand in each that has names of its own."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return ""
    hints = get_type_hints(kind, include_extras=True)
    named = []
    for field in msgspec.structs.fields(kind):
        known = [meta.extra["fields"] for meta in getattr(hints[field.name], "__metadata__", ()) if meta.extra]
        named.append(f"{field.encode_name} (of {', '.join(known[0])})" if known else field.encode_name)
    return f"; allowed: {', '.join(named) or 'nothing'}"


class Query:
    """Reads query strings into a type. A parameter that nobody knows is an error, never ignored."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        fields = msgspec.structs.fields(kind)
        self._lists = {field.encode_name: "tuple" in str(field.type) for field in fields}
        self._plain = None if any(field.required for field in fields) else kind()

    def read(self, query: bytes) -> Any:
        if not query and self._plain is not None:
            return self._plain
        given: dict[str, Any] = {}
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in self._lists:
                expected = ", ".join(sorted(self._lists)) or "none"
                raise InvalidInput(f"unknown query parameter {name!r:.60} (known: {expected}); nothing changed")
            if self._lists[name]:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise InvalidInput(f"query parameter {name!r} was given twice; nothing changed")
            else:
                given[name] = value
        return understand(self._kind, given, "query", strict=False)
