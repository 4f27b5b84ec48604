"""An endpoint as data: method, path, who may call it, what goes in and what comes out.

The application, its OpenAPI description, and the test of every route against every role are all made from the same
table, so none of them can forget one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import blake2b
from typing import Annotated, Any, Generic, TypeVar, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct

from strongroom.context import AsyncContext
from strongroom.errors import CommitUnknown, InvalidInput
from strongroom.operations import OURS, is_ours
from strongroom.server.asking import Asking
from strongroom.server.bounded import fewer
from strongroom.server.keys import Caller, Right
from strongroom.server.settings import Settings
from strongroom.store.retention import OUR_SECONDS

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")

LONGEST_KEY = 128
SKEW_SECONDS = 60.0  # by which a client's clock may be ahead
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

    async def fewer(self, limit: int, ask: Callable[[int], Awaitable[T]]) -> T:
        """Ask for a page that is bounded in bytes, too: see `bounded`."""
        return await fewer(limit, self.settings.max_answer_bytes, ask)

    @property
    def commit_id(self) -> str | None:
        """The caller's Idempotency-Key, made its own: it never meets another caller's.

        What it stands for (one operation, its target, its content) is bound to it below. An id that an unknown outcome
        named is taken as it is, as long as it can be one that this server made.
        """
        given = self.request.headers.get("idempotency-key")
        if given is None or is_recent(given):
            return given
        if not 0 < len(given) <= LONGEST_KEY or not given.isprintable():
            raise InvalidInput("an Idempotency-Key must be 1 to 128 printable characters; nothing changed")
        return own_id(self.caller, given)


def own_id(caller: Caller, given: str) -> str:
    """Make an id that a caller chose the caller's own: whatever another one chooses, it is another id.

    What a client's own code made up keeps its time, which stores order them by, and is remembered as shortly as ours.
    """
    name = caller.name
    if is_recent(given):
        mixed = blake2b(f"{len(name)}:{name}:{given}".encode(), digest_size=8).hexdigest()
        return given[: len(OURS) + 16] + mixed
    if len(given) > LONGEST_KEY:  # a client's commit id may be as long as a name
        return f"http#{blake2b(f'{len(name)}:{name}:{given}'.encode(), digest_size=32).hexdigest()}"
    return f"http:{len(name)}:{name}:{given}"


def is_recent(id: str) -> bool:
    """Tell whether an id is one of those that are made up for calls without one, and made not long ago.

    Ids of ours are told from older ones by their time, so nobody may bring one that is older or younger than it is.
    """
    if not is_ours(id):
        return False
    age = time.time() - int(id[len(OURS) : len(OURS) + 16], 16) / 1e9
    return -SKEW_SECONDS < age < OUR_SECONDS


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
    media: str = "application/json"
    accepts: str = "application/json"  # anything else, and the endpoint reads the body itself
    writes: bool = False  # although its right alone does not say so
    large: bool = False  # whether its body may be as large as a pack

    @property
    def reads(self) -> bool:
        """Whether nothing can change by it."""
        return self.right in (None, "read") and not self.writes

    @property
    def keyed(self) -> bool:
        """Whether it takes an Idempotency-Key: all that writes does, but for the port, whose commits have ids."""
        return self.method != "GET" and self.group != "store"


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


def named(problem: Exception, key: str | None) -> Exception:
    """Say the Idempotency-Key that a caller knows, where an operation named the id that was made of it."""
    if key is not None and isinstance(problem, CommitUnknown):
        problem.commit_id = key
    if key is not None and isinstance(problem, InvalidInput) and problem.path == "commit_id":
        return InvalidInput(
            f"the Idempotency-Key {key!r} was used before with other content; nothing changed (a key stands for one "
            "request: choose another)",
            path="Idempotency-Key",
        )
    return problem


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
