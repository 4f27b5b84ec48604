"""Running the application by uvicorn: connections with a bound on everything that is read before a request is known, a
port of its own, and one log."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from strongroom.errors import InvalidInput
from strongroom.opening import open_whole_store
from strongroom.server.meaning import meaning_of
from strongroom.server.settings import Settings, from_environment
from strongroom.server.shutdown import GRACE_SECONDS

MOST_UNUSED_BYTES = 256 * 1024  # one reading of a socket can be as long
HEADERS_SECONDS = 30.0

TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: 75\r\n\r\n"
    b'{"ok":false,"error":"the headers are too large","code":"headers_too_large"}'
)
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(HttpToolsProtocol):
    """A connection that hangs up on those who send headers for ever.

    The parser collects a request's line and headers, a body's chunk sizes and its trailers until they are complete,
    however long they are, and waits for them for ever. Here what has come without being of any use is counted, and
    timed.
    """

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


APP = "strongroom.server:app"
# Requests are logged by us; nothing depends on which address a proxy says it speaks for.
OPTIONS: dict[str, Any] = {
    "access_log": False,
    "http": Connection,
    "proxy_headers": False,
    "server_header": False,
    "timeout_graceful_shutdown": round(GRACE_SECONDS) + 5,  # for whoever does not read what they are sent
}
BACKLOG = 2048


class Server(uvicorn.Server):
    """Told to stop, it finishes what it is doing. At a second Ctrl-C it ends at once: a store survives worse, and
    uvicorn would cancel every request and print where it was."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            os._exit(128 + sig)
        super().handle_exit(sig, frame)


def run(host: str, port: int, *, workers: int, log_level: str, announce: Callable[[str], None]) -> None:
    """Take a port (0: any that is free), announce where that is, and serve until told to stop."""
    options = {**OPTIONS, "log_config": _log(log_level)}
    with _listen(host, port) as listening:
        asyncio.run(_require_startable(from_environment()))  # else uvicorn would tell it, in a traceback
        host, port = listening.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        if workers == 1:
            announce(url)  # whoever connects from now on waits until we are ready
            server = Server(uvicorn.Config(APP, **options))
            try:
                server.run(sockets=[listening])
            except KeyboardInterrupt:
                pass  # it has stopped, and tells how it was told to
            if not server.started:
                sys.exit(1)
            return
    announce(url)
    uvicorn.run(APP, host=host, port=port, workers=workers, **options)  # they share a port that it takes itself


async def _require_startable(settings: Settings) -> None:
    """Raise what the application would fail to start with."""
    await meaning_of(settings)
    await (await open_whole_store(settings.url)).close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)  # `localhost` may be both
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as problem:
        why = str(problem.strerror).partition(" (")[0]
        hint = ""
        if problem.errno == errno.EADDRINUSE:
            hint = "; is another `strongroom serve` running? --port takes another one, 0 any that is free"
        raise InvalidInput(f"cannot listen on {host}, port {port}: {why}{hint}") from None
    except ValueError:  # what cannot be a name at all
        raise InvalidInput(f"cannot listen on {host!r:.80}: that is no address") from None


def _log(level: str) -> dict[str, Any]:
    """Describe the log: a line for each request of ours at level `info`, and of uvicorn only what is wrong."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {
            "strongroom": {"handlers": ["stderr"], "level": level.upper()},
            "uvicorn": {"handlers": ["stderr"], "level": "WARNING"},
        },
    }
