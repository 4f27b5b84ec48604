"""One request as it comes in: its headers by name, and a body that is read up to a limit, before anything is parsed."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import AsyncIterator, Generator
from typing import Any

from starlette.types import Message, Receive, Scope

from strongroom.server.leaving import end
from strongroom.server.wire import Refusal

LITTLE_BYTES = 64 * 1024
MOST_HEADERS = 100
MOST_HEADER_BYTES = 64 * 1024
# Of two of these, one part of a chain could believe the first and another the last.
SINGLE = frozenset({b"host", b"origin", b"authorization", b"sec-fetch-site", b"idempotency-key", b"if-match"})
BODY_SECONDS = 30.0  # between two pieces of a body
SLOWEST_BYTES = 64 * 1024  # in a second, on average, after the first minute of a body
WHOLE_SECONDS = 60.0


class Asking:
    """What somebody asks. Starlette's own request reads each header by going through all of them, which adds up."""

    __slots__ = (
        "_held",
        "_limit",
        "_receive",
        "_seen",
        "_since",
        "headers",
        "host",
        "method",
        "path",
        "query",
        "state",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.headers: dict[str, str] = scope["strongroom.headers"]
        self.method: str = scope["method"]
        self.path: dict[str, str] = scope["path_params"]
        self.query: bytes = scope["query_string"]
        self.host: str = scope["client"][0] if scope.get("client") else ""
        self.state: Any = scope["app"].state
        self._receive = receive
        self._limit = self._seen = self._held = 0
        self._since = 0.0  # when the body was first waited for

    def allow(self, limit: int) -> None:
        """Say how large the body may be. One that announces more is refused before it arrives."""
        self._limit = limit
        declared = self.headers.get("content-length", "0")
        if not (declared.isascii() and declared.isdigit() and len(declared) < 18):
            raise self._too_large(0)
        if int(declared) > limit:
            raise self._too_large(int(declared))

    async def read(self) -> bytes:
        """Return the whole body. It counts as held until `release`."""
        pieces, more = [], True
        while more:
            piece, more = await self._piece()
            self.state.room.take(len(piece))
            self._held += len(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def hold(self, size: int) -> None:
        """Count what is answered too, if it is much."""
        if size > LITTLE_BYTES:
            self.state.room.take(size)
            self._held += size

    def release(self) -> None:
        """Say that the request is over."""
        self.state.room.give_back(self._held)
        self._held = 0

    async def pieces(self) -> AsyncIterator[bytes]:
        """Give the body piece by piece, for whoever has no need of it all at once."""
        more = True
        while more:
            piece, more = await self._piece()
            yield piece

    async def _piece(self) -> tuple[bytes, bool]:
        """Return what came, and whether there is more; stop at the limit, whatever the headers claim."""
        coming = self._receive().__await__()
        try:
            waits_for = next(coming)
        except StopIteration as come:  # as a rule: a time limit is set only if there is anything to wait for
            message = come.value
        else:
            message = await self._in_time(coming, waits_for)
        if message["type"] == "http.disconnect":
            raise Refusal(400, "body_incomplete", "the body ended before it was complete; nothing changed")
        piece: bytes = message.get("body", b"")
        self._seen += len(piece)
        if self._seen > self._limit:
            raise self._too_large(self._seen)
        return piece, message.get("more_body", False)

    async def _in_time(self, coming: Generator[Any, Any, Message], waits_for: Any) -> Message:
        """Wait for the next piece, not for ever: neither for it nor for all of them, nor while the server leaves."""
        now = time.monotonic()
        self._since = self._since or now
        left = self._since + WHOLE_SECONDS + self._seen / SLOWEST_BYTES - now
        piece = asyncio.ensure_future(_rest(coming, waits_for))
        leaving = asyncio.ensure_future(self.state.closing.wait())
        try:
            timeout = max(0.0, min(BODY_SECONDS, left))
            await asyncio.wait({piece, leaving}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if piece.done():
                return piece.result()
            if leaving.done():
                raise Refusal(503, "closed", "the server is stopping; nothing changed", headers={"Retry-After": "1"})
            raise Refusal(408, "body_too_slow", "the body came too slowly; nothing changed")
        finally:
            await end(piece, leaving)

    def _too_large(self, needed: int) -> Refusal:
        return Refusal(
            413,
            "body_too_large",
            f"the body is over the limit of {self._limit} bytes; nothing changed",
            details={"limit": self._limit, "needed": needed},
        )


async def _rest(coming: Generator[Any, Any, Message], waits_for: Any) -> Message:
    """Go on with what has been started and waits."""
    return await _going_on(coming, waits_for)


@types.coroutine
def _going_on(coming: Generator[Any, Any, Message], waits_for: Any) -> Generator[Any, Any, Message]:
    try:
        while True:
            try:
                told = yield waits_for
            except BaseException as error:
                waits_for = coming.throw(error)
            else:
                waits_for = coming.send(told)
    except StopIteration as come:
        message: Message = come.value
        return message


def check_headers(scope: Scope) -> None:
    """Refuse headers that are too many, too large, or two of those that decide who somebody is and what is meant."""
    given: list[tuple[bytes, bytes]] = scope["headers"]
    if len(given) > MOST_HEADERS or sum(len(name) + len(value) for name, value in given) > MOST_HEADER_BYTES:
        raise Refusal(
            431,
            "headers_too_large",
            f"at most {MOST_HEADERS} headers of {MOST_HEADER_BYTES} bytes together; nothing changed",
            headers={"Connection": "close"},
        )
    names = [name for name, _ in given if name in SINGLE]
    if len(names) > len(set(names)):
        twice = next(name for name in names if names.count(name) > 1).decode()
        raise Refusal(400, "header_twice", f"the header {twice} was given twice; nothing changed")


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers by their names, which a web server has made lower case."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
