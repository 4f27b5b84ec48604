"""What surrounds every request: a correlation id, headers for browsers, figures, one log line, errors as answers."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strongroom.server import tracing
from strongroom.server.asking import check_headers, headers_of
from strongroom.server.leaving import Guests
from strongroom.server.metrics import Metrics
from strongroom.server.origins import Origins
from strongroom.server.wire import Tidy, problem
from strongroom.store import new_id

log = logging.getLogger("strongroom.server")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class WithoutQuery(logging.Filter):
    """Keeps what people search for out of the web server's own log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(part.split("?")[0] if isinstance(part, str) else part for part in record.args)
        return True


class Around:
    """Wraps an application. Contents are never logged."""

    def __init__(self, app: ASGIApp, metrics: Metrics, origins: Origins, tidy: Tidy, guests: Guests) -> None:
        self._app = app
        self._guests = guests
        self._metrics = metrics
        self._origins = origins
        self._tidy = tidy

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        begun = tracing.span()
        return self._answer(scope, receive, send) if begun is None else self._traced(scope, receive, send, begun)

    async def _traced(self, scope: Scope, receive: Receive, send: Send, begun: AbstractContextManager[Any]) -> None:
        with begun as current:
            await self._answer(scope, receive, send, current)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, current: Any = None) -> None:
        headers = scope["strongroom.headers"] = headers_of(scope)
        correlation = scope["correlation"] = correlation_id(headers.get("x-request-id", ""))
        told = self._origins.headers(headers)
        start = time.perf_counter()
        status = 0

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS, *told, (b"x-request-id", correlation.encode())]
            await send(message)

        try:
            check_headers(scope)
            if (allowed := self._origins.preflight(scope["method"], headers)) is not None:
                await dressed({"type": "http.response.start", "status": 204, "headers": allowed})
                await dressed({"type": "http.response.body", "body": b""})
                return
            with self._guests.one():
                await self._app(scope, receive, dressed)
        except Exception as error:
            if status:
                raise  # the answer has begun: all that is left is to break it off
            answer = problem(error, correlation, tidy=self._tidy, reads=scope.get("strongroom.reads", False))
            if answer.status == 500:
                # Where, not what: an error's message may quote what somebody stored.
                where = "".join(traceback.format_tb(error.__traceback__))
                log.error("request %s failed with %s\n%s", correlation, type(error).__name__, where)
            await answer(scope, receive, dressed)
        finally:
            took = time.perf_counter() - start
            route = scope.get("endpoint_path", "other")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.count(method, route, status, took)
            tracing.finish(current, method, route, status, correlation)
            log.info("%s %s %s %d %.1fms", correlation, method, route, status, took * 1000)


def correlation_id(given: str) -> str:
    """Return the id that joins an answer to the log: the caller's own if it is sensible, else a new one."""
    sensible = 0 < len(given) <= 64 and given.isascii() and given.replace("-", "").isalnum()
    return given if sensible else new_id()[16:]  # its random half
