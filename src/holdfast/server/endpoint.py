"""An endpoint as data: method, path, who may call it, what goes in and what comes out.

The application, its OpenAPI description, and the test of every route against every role are all made from the same
table, so none of them can forget one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from holdfast.context import AsyncContext
from holdfast.errors import InvalidInput
from holdfast.server.keys import Caller, Right
from holdfast.server.settings import Settings

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
        self, request: Request, caller: Caller, ctx: AsyncContext, settings: Settings, body: B, query: Q
    ) -> None:
        self.request = request
        self.caller = caller
        self.ctx = ctx
        self.settings = settings
        self.path: dict[str, str] = request.path_params
        self.body = body
        self.query = query
        self.state: Any = request.app.state

    @property
    def commit_id(self) -> str | None:
        """The caller's Idempotency-Key, made its own: one caller's key never meets another's."""
        given = self.request.headers.get("idempotency-key")
        if given is None:
            return None
        if not 0 < len(given) <= 128 or not given.isprintable():
            raise InvalidInput("an Idempotency-Key must be 1 to 128 printable characters; nothing changed")
        return f"http:{self.caller.name}:{given}"


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
    conflict: Any = None  # what a lost race answers, where clients were promised something else than an error
    example: Any = None
    media: str = "application/json"
    accepts: str = "application/json"  # anything else, and the endpoint reads the body itself


def understand(kind: Any, value: Any, where: str, *, strict: bool) -> Any:
    """Turn plain data into a typed value, or say what is wrong with it."""
    try:
        return msgspec.convert(value, kind, strict=strict, str_keys=True)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"{problem}; nothing changed", path=where) from None


def query_of(kind: Any, request: Request) -> Any:
    """Read the query string into its type. A parameter that nobody knows is an error, never ignored."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            expected = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"unknown query parameter {name!r:.60} (known: {expected}); nothing changed")
        if name in given:
            given[name] = [*given[name], value] if isinstance(given[name], list) else [given[name], value]
        else:
            given[name] = value
    for name, field in known.items():
        if name in given and "tuple" in str(field.type) and not isinstance(given[name], list):
            given[name] = [given[name]]
    return understand(kind, given, "query", strict=False)
