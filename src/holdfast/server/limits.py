"""What is refused before anything is parsed: bodies too large, callers too fast, too many streams at once."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server.settings import Settings
from holdfast.server.wire import Refusal, problem

BURST_SECONDS = 10.0
MOST_CALLERS = 100_000
BODY_SECONDS = 30.0  # between two pieces of a body


class TooLarge(Exception):
    """The body grew past its limit while it was being read."""


class TooSlow(Exception):
    """The body stopped coming."""


class BodyLimit:
    """Stops reading a body at its limit, whatever its headers claim. Packs may be larger than other bodies."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        correlation = scope.get("correlation", "-")
        is_pack = scope["path"].rstrip("/").endswith("/restore") and scope["method"] == "POST"
        limit = self._settings.max_pack_bytes if is_pack else self._settings.max_body_bytes
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        started = complete = False
        seen = 0

        async def counted() -> Message:
            nonlocal seen, complete
            try:
                # Only the body is in a hurry: once it is here, waiting means waiting for the caller to hang up.
                async with asyncio.timeout(None if complete else BODY_SECONDS):
                    message = await receive()
            except TimeoutError:
                raise TooSlow from None
            complete = not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > limit:
                raise TooLarge
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            if not declared.isdigit() or int(declared) > limit:
                raise TooLarge
            await self._app(scope, counted, watched)
        except TooLarge:
            if not started:
                refusal = Refusal(
                    413,
                    "body_too_large",
                    f"the body is over the limit of {limit} bytes; nothing changed",
                    details={"limit": limit, "needed": max(seen, int(declared) if declared.isdigit() else 0)},
                )
                await problem(refusal, correlation)(scope, receive, send)
        except TooSlow:
            if not started:
                late = Refusal(408, "body_too_slow", "the body stopped coming; nothing changed")
                await problem(late, correlation)(scope, receive, send)


class Rates:
    """A token bucket for each caller. Forgets the least recent ones, so that its own memory is bounded."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._room = per_second * BURST_SECONDS
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Let a request pass, or refuse it with the time to wait."""
        now = time.monotonic()
        left, since = self._buckets.pop(caller, (self._room, now))
        left = min(self._room, left + (now - since) * self._rate)
        self._buckets[caller] = (max(left - 1, 0), now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = str(max(1, round((1 - left) / self._rate)))
            raise Refusal(429, "too_many_requests", "too many requests; nothing changed", headers={"Retry-After": wait})


class Streams:
    """Counts the streams each caller holds open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, int] = {}

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Hold one of the caller's streams for the time of a block."""
        if self._open.get(caller, 0) >= self._most:
            raise Refusal(
                429, "too_many_streams", f"at most {self._most} streams at once", headers={"Retry-After": "5"}
            )
        self._open[caller] = self._open.get(caller, 0) + 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
