"""Server-Sent Events: a stream as it grows, resumable from the last event seen.

An event's id is its place in the stream, so a browser that reconnects says in `Last-Event-ID` exactly where it was, and
no event is missed or doubled, even across a restart of the server.

Whoever was let in is asked for again before each event, and now and then: a stream ends with the key that opened it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from strongroom.errors import InvalidInput
from strongroom.server.gate import REMEMBER_SECONDS
from strongroom.server.request import Request, natural
from strongroom.server.shutdown import end

HEARTBEAT_SECONDS = REMEMBER_SECONDS  # as often a stream that is silent asks whether its caller may stay
SLOTS = 20  # of a beat, in which streams ask together: waking up for each of a thousand costs more than the question
BEATS = 3  # of these until it says that it is there, which costs more than to ask
LOOK_SECONDS = 60.0  # that a stream waits for news, before it looks whether what it shows is still there
Shown = AsyncIterator[tuple[int | str, str, Any]]  # id, name, data


class Stream(StreamingResponse):
    """An answer that lasts. Each counts against its caller's limit for exactly as long as it is sent."""

    def __init__(self, request: Request[Any, Any], shown: Shown) -> None:
        state = request.app.state
        self._slot = state.streams.one(request.caller.name)
        self._lines = _lines(shown, state.shutdown.begun, partial(state.gate.still_admits, request, request.caller))
        super().__init__(self._lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slot:
            try:
                await super().__call__(scope, receive, send)
            finally:
                await self._lines.aclose()  # whoever went away in the middle leaves nothing running


def last_seen(request: Request[Any, Any], after: int | None) -> int | None:
    """Return the id of the last event the caller has, from Last-Event-ID or from the query."""
    header = request.headers.get("last-event-id")
    if header is None:
        return after
    seen = natural(header)
    if seen is None:
        raise InvalidInput("Last-Event-ID must be the id of an event of this stream")
    return seen


async def _lines(
    shown: Shown, begun: asyncio.Event, admitted: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    stopping = asyncio.ensure_future(begun.wait())
    coming: asyncio.Future[Any] = asyncio.ensure_future(_next(shown))
    silent = 0
    try:
        yield b"retry: 1000\n\n"
        while not stopping.done():
            await asyncio.wait(
                {coming, stopping}, timeout=_until_beat(loop.time()), return_when=asyncio.FIRST_COMPLETED
            )
            if not await admitted():
                return
            if not coming.done():
                silent += 1
                if silent % BEATS == 0:
                    yield b": still here\n\n"
                continue
            if (one := coming.result()) is None:
                return
            coming = asyncio.ensure_future(_next(shown))
            id, name, data = one
            # A name is a line of its own: nothing in it may end the line.
            line = "".join(letter for letter in name if letter.isprintable()).encode("utf-8", "replace")
            yield b"id: %s\nevent: %s\ndata: %s\n\n" % (str(id).encode(), line, msgspec.json.encode(data))
    finally:
        await end(coming, stopping)


def _until_beat(now: float) -> float:
    """Return the seconds until a silent stream asks again: a beat at most, and at the same instant as others."""
    return HEARTBEAT_SECONDS - now % (HEARTBEAT_SECONDS / SLOTS)


async def _next(shown: Shown) -> Any:
    return await anext(shown, None)
