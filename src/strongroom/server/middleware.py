"""What surrounds every request: an id, headers for browsers, figures, one log line, errors as answers."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strongroom.server import telemetry
from strongroom.server.responses import Refusal, Tidy, problem
from strongroom.store import new_id

log = logging.getLogger("strongroom.server")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
MOST_HEADERS = 100
MOST_HEADER_BYTES = 64 * 1024
# Of two of these, one part of a chain could believe the first and another the last.
SINGLE = frozenset(
    {
        b"host",
        b"origin",
        b"authorization",
        b"cookie",
        b"sec-fetch-site",
        b"idempotency-key",
        b"if-match",
        b"strongroom-pack-key",
    }
)


class WithoutQuery(logging.Filter):
    """Keeps what people search for out of the web server's own log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(part.split("?")[0] if isinstance(part, str) else part for part in record.args)
        return True


class RequestMiddleware:
    """Wraps an application. Contents are never logged."""

    def __init__(self, app: ASGIApp, tidy: Tidy) -> None:
        self._app = app
        self._tidy = tidy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not telemetry.listening():
            await self._answer(scope, receive, send, None)
            return
        with telemetry.span() as span:
            await self._answer(scope, receive, send, span)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, span: Any) -> None:
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        id = scope["request_id"] = request_id(given.decode("latin-1"))
        state, start, status = scope["app"].state, time.perf_counter(), 0
        task, requests = asyncio.current_task(), state.shutdown.requests
        requests.add(task)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS, (b"x-request-id", id.encode())]
            await send(message)

        try:
            check(scope)
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if status:
                raise  # the answer has begun: all that is left is to break it off
            called = scope.get("endpoint")
            reads = getattr(called, "reads", scope["method"] in ("GET", "HEAD"))
            answer = problem(error, id, tidy=self._tidy, reads=reads)
            if answer.status_code == 500:
                # Where, not what: an error's message may quote what somebody stored.
                where = "".join(traceback.format_tb(error.__traceback__))
                log.error("request %s failed with %s\n%s", id, type(error).__name__, where)
            await answer(scope, receive, send_with_headers)
        finally:
            requests.discard(task)
            took = time.perf_counter() - start
            called = scope.get("endpoint")
            route = getattr(called, "path", "other")
            method = scope["method"] if scope["method"] in METHODS else "other"
            state.metrics.count(method, route, status, took)
            telemetry.finish(span, method, route, status, id)
            log.info("%s %s %s %d %.1fms", id, method, route, status, took * 1000)


def request_id(given: str) -> str:
    """Return the id that joins an answer to the log: the caller's own if it is sensible, else a new one."""
    sensible = 0 < len(given) <= 64 and given.isascii() and given.replace("-", "").isalnum()
    return given if sensible else new_id()[16:]  # its random half


def check(scope: Scope) -> None:
    """Refuse headers that are too many, too large, or two of those that decide who somebody is and what is meant; and
    an address that is not UTF-8: whatever it was made of, another one could be made of the same letters."""
    given: list[tuple[bytes, bytes]] = scope["headers"]
    if len(given) > MOST_HEADERS or sum([len(name) + len(value) for name, value in given]) > MOST_HEADER_BYTES:
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
    try:
        for part in (scope.get("raw_path") or b"", scope["query_string"]):
            if b"%" in part or not part.isascii():
                unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refusal(400, "not_utf8", "the path or the query is not UTF-8; nothing changed") from None
