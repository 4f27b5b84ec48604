"""Running the application by uvicorn: a port of its own, and one log."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from strongroom.errors import InvalidInput
from strongroom.server.leaving import GRACE_SECONDS
from strongroom.server.protocol import Protocol

APP = "strongroom.server:app"
# Requests are logged by us; nothing depends on which address a proxy says it speaks for.
OPTIONS: dict[str, Any] = {
    "access_log": False,
    "http": Protocol,
    "proxy_headers": False,
    "server_header": False,
    "timeout_graceful_shutdown": round(GRACE_SECONDS) + 5,  # for whoever does not read what he is sent
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
        raise InvalidInput(f"can not listen on {host}, port {port}: {why}{hint}") from None
    except ValueError:  # what can not be a name at all
        raise InvalidInput(f"can not listen on {host!r:.80}: that is no address") from None


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
