"""A request: read up to a limit before anything is parsed, then understood as typed values.

`Request` is Starlette's, with what the router adds: who asks, the context of their space, and what they said. `Body` is
the `receive` that it reads from: bounded in bytes and in time, and counted as held until the answer has left.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.types import Message, Receive, Scope

from strongroom.allowed import allowed
from strongroom.arguments import beyond
from strongroom.codec import parse, require_few_values
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.operations import refusing
from strongroom.retrieval import joined
from strongroom.server.bounded import fewer
from strongroom.server.ids import caller_id
from strongroom.server.keys import Caller
from strongroom.server.responses import JSON, Refusal
from strongroom.server.settings import Settings

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")


class Ranked(Protocol):
    """What a search returns."""

    @property
    def degraded(self) -> str | None: ...

    def __len__(self) -> int: ...


H = TypeVar("H", bound=Ranked)

LITTLE_BYTES = 64 * 1024
BODY_SECONDS = 30.0  # between two pieces of a body
SLOWEST_BYTES = 64 * 1024  # in a second, on average, after the first minute of a body
WHOLE_SECONDS = 60.0
MOST = 2**53  # what every database and every JSON parser can count to
Natural = Annotated[int, Meta(ge=0, le=MOST)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


def natural(text: str) -> int | None:
    """Return the number that a header says, None if it says none that could be meant."""
    # Looked at before it is parsed: Python refuses to read thousands of digits, in words of its own.
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else MOST + 1
    return number if number <= MOST else None


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


async def _nobody() -> None:
    """Nobody was let in yet."""


class Body:
    """What a request sends, as Starlette receives it.

    Whoever sends it is asked for once more when it is complete (`confirm`), so that nothing is done for somebody who
    may no longer come in. Everything that reads a body reads it here.
    """

    def __init__(self, scope: Scope, receive: Receive, limit: int, *, spooled: bool) -> None:
        self._receive = receive
        self._state = scope["app"].state
        self._limit = limit
        self._spooled = spooled  # goes to disk as it comes, and is not held
        self._seen = self._held = 0
        self._since = 0.0  # when it was first waited for
        self.confirm: Callable[[], Awaitable[None]] = _nobody  # asked once it is complete: may its sender still?
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not (declared.isdigit() and len(declared) < 18):
            raise self._too_large(0)
        if int(declared) > limit:  # refused before it arrives
            raise self._too_large(int(declared))

    async def __call__(self) -> Message:
        """Return the next piece; stop at the limit, whatever the headers claim, and do not wait for ever."""
        now = time.monotonic()
        self._since = self._since or now
        left = self._since + WHOLE_SECONDS + self._seen / SLOWEST_BYTES - now
        message: Message = await self._state.shutdown.unless_begun(self._receive, max(0.0, min(BODY_SECONDS, left)))
        size = len(message.get("body", b""))
        self._seen += size
        if self._seen > self._limit:
            raise self._too_large(self._seen)
        if not self._spooled:
            self._hold(size)
        if message["type"] == "http.request" and not message.get("more_body", False):
            await self.confirm()
        return message

    async def whole(self) -> bytes:
        """Return all of it, read once."""
        pieces: list[bytes] = []
        while True:
            message = await self()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def hold(self, size: int, *, at_all_costs: bool) -> None:
        """Count what is answered too, if it is much."""
        if size > LITTLE_BYTES:
            self._hold(size, at_all_costs)

    def _hold(self, size: int, at_all_costs: bool = False) -> None:
        self._state.held.take(size, at_all_costs=at_all_costs)
        self._held += size

    def release(self) -> None:
        """Say that the request is over."""
        self._state.held.give_back(self._held)
        self._held = 0

    def _too_large(self, needed: int) -> Refusal:
        return Refusal(
            413,
            "body_too_large",
            f"the body is over the limit of {self._limit} bytes; nothing changed",
            details={"limit": self._limit, "needed": needed},
        )


class Request(HttpRequest, Generic[B, Q]):
    """A request that was let in and understood. `content` is its body, `query` its parameters."""

    caller: Caller
    ctx: AsyncContext
    content: B
    query: Q

    def __init__(self, scope: Scope, body: Body) -> None:
        super().__init__(scope, body)
        self._all = body.whole
        self._hold = body.hold

    async def body(self) -> bytes:
        return await self._all()

    def hold(self, size: int) -> None:
        """Count what is held in memory of a body that goes to disk, and refuse it where that is too much."""
        self._hold(size, at_all_costs=False)

    @property
    def settings(self) -> Settings:
        settings: Settings = self.app.state.settings
        return settings

    @property
    def commit_id(self) -> str | None:
        """The caller's Idempotency-Key, made its own (see `ids`)."""
        return caller_id(self.caller, self.headers.get("idempotency-key"))

    async def fewer(self, limit: int, ask: Callable[[int], Awaitable[T]]) -> T:
        """Ask for a page that is bounded in bytes, too: see `bounded`."""
        return await fewer(limit, self.settings.max_answer_bytes, ask)

    async def best(self, k: int, ask: Callable[[int], Awaitable[H]]) -> tuple[H, str | None]:
        """Ask for the `k` best, or for as many as an answer holds; also return what is lacking, even if it is that."""

        async def asked(some: int) -> tuple[int, H]:
            return some, await ask(some)

        most, found = await self.fewer(k, asked)
        if most == k or len(found) < most:
            return found, found.degraded
        return found, joined(found.degraded, f"they are large: one answer holds the best {most}, not {k}")


async def json_body(request: HttpRequest) -> Any:
    """Return the JSON body of a request, parsed strictly."""
    raw = await request.body()
    if not raw:
        return {}
    kind = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise Refusal(415, "unsupported_media_type", f"send {JSON}, not {kind[:60]!r}; nothing changed")
    require_few_values(raw)
    with refusing:  # which of a request that only reads is not said: see `Tidy`
        return parse(raw)


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
        for name, value in QueryParams(query).multi_items():
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


def understand(kind: Any, value: Any, where: str, *, strict: bool) -> Any:
    """Turn plain data into a typed value, or say what is wrong with it."""
    try:
        return msgspec.convert(value, kind, strict=strict, str_keys=True)
    except msgspec.ValidationError as problem:
        told = beyond(kind, value) or problem
        raise InvalidInput(f"{told}{allowed(kind, str(problem))}; nothing changed", path=where) from None
