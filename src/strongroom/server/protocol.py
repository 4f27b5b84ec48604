"""HTTP as uvicorn speaks it, with a bound on everything that is read before a request is known.

The parser collects a request's line and headers, a body's chunk sizes and its trailers until they are complete, however
long they are, and waits for them for ever. Here what has come without being of any use is counted, and timed.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_UNUSED_BYTES = 256 * 1024  # one reading of a socket can be as long
HEADERS_SECONDS = 30.0

TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: 75\r\n\r\n"
    b'{"ok":false,"error":"the headers are too large","code":"headers_too_large"}'
)
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """A connection that hangs up on those who send headers for ever."""

    _unused = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unused += len(data)
        super().data_received(data)
        if self._unused > MOST_UNUSED_BYTES and not self.transport.is_closing():
            self.transport.write(TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait_for_headers()

    def on_headers_complete(self) -> None:
        self._unused = 0
        self._have_headers()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unused = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unused = 0
        super().on_message_complete()

    def _wait_for_headers(self) -> None:
        self._have_headers()
        self._patience = self.loop.call_later(HEADERS_SECONDS, self._give_up)

    def _have_headers(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(TOO_SLOW)
            self.transport.close()
