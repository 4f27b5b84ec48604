"""The application: the table of endpoints behind a gate.

What surrounds every request, from the outside in: the body limit, a correlation id with security headers and one log
line, errors turned into answers, the gate (who are you, may you, not so fast), and then the endpoint.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdfast
from holdfast.context import AsyncContext
from holdfast.opening import open_async_store
from holdfast.scope import Scope as StoreScope
from holdfast.server import tracing
from holdfast.server.endpoint import Call, Endpoint, query_of, understand
from holdfast.server.gate import Gate
from holdfast.server.leaving import on_exit
from holdfast.server.limits import BodyLimit, Streams
from holdfast.server.metrics import Metrics
from holdfast.server.openapi import describe
from holdfast.server.routes import ENDPOINTS
from holdfast.server.settings import Settings, from_environment
from holdfast.server.wire import Refusal, body, correlation_id, problem, reply
from holdfast.store import AsyncStore

log = logging.getLogger("holdfast.server")


class WithoutQuery(logging.Filter):
    """Keeps what people search for out of the web server's own log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(part.split("?")[0] if isinstance(part, str) else part for part in record.args)
        return True


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make an application. The store is opened when it starts, not before, and closed when it stops."""
    chosen = settings or from_environment()
    logging.getLogger("uvicorn.access").addFilter(WithoutQuery())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        furnish(app, await open_async_store(chosen.url))
        app.state.closing = closing = asyncio.Event()
        try:
            with on_exit(closing):
                yield
        finally:
            await app.state.store.close()  # finishes what is queued: an acknowledged commit is never cut short

    app = FastAPI(title="Holdfast", version=holdfast.__version__, lifespan=lifespan, redoc_url="/redoc")
    app.state.settings = chosen
    app.state.metrics = Metrics()
    for endpoint in ENDPOINTS:
        app.router.routes.append(
            Route(endpoint.path, _view(endpoint), methods=[endpoint.method], name=endpoint.summary)
        )
    description = describe(ENDPOINTS)
    app.openapi = lambda: description  # type: ignore[method-assign]
    app.add_exception_handler(HTTPException, _http_problem)  # type: ignore[arg-type]
    app.add_middleware(BodyLimit, settings=chosen)
    app.add_middleware(Around, metrics=app.state.metrics)
    return app


def furnish(app: FastAPI, store: AsyncStore) -> None:
    """Give an application its store, and what is known about nobody yet."""
    settings: Settings = app.state.settings
    app.state.store = store
    app.state.contexts = {}
    app.state.gate = Gate(store, settings)
    app.state.streams = Streams(settings.max_streams)


def context_of(app: Any, space: str) -> AsyncContext:
    """Return the context of a space, made once."""
    contexts: dict[str, AsyncContext] = app.state.contexts
    found = contexts.get(space)
    if found is None:
        if len(contexts) > 10_000:
            contexts.clear()
        found = contexts[space] = AsyncContext(StoreScope(app.state.store, space))
    return found


def _view(endpoint: Endpoint) -> Callable[[Request], Any]:
    async def view(request: Request) -> Response:
        app = request.app
        request.scope["endpoint_path"] = endpoint.path
        caller = await app.state.gate.admit(request, endpoint.right)
        query = query_of(endpoint.query, request)
        content = None
        if endpoint.body is not None:
            content = understand(endpoint.body, await body(request), "body", strict=True)
        context = context_of(app, caller.space)
        result = await endpoint.call(Call(request, caller, context, app.state.settings, content, query))
        return result if isinstance(result, Response) else reply(result, endpoint.status)

    return view


async def _http_problem(request: Request, error: HTTPException) -> Response:
    """Give the framework's own refusals (no such path, no such method) our shape."""
    words = {
        404: ("no_such_path", "there is nothing at this path"),
        405: ("method_not_allowed", "not with this method"),
    }
    code, message = words.get(error.status_code, ("refused", str(error.detail)))
    headers = dict(error.headers or {})
    return problem(Refusal(error.status_code, code, message, headers=headers), request.scope.get("correlation", "-"))


class Around:
    """Correlation id, security headers, metrics, one log line, and errors as answers. Contents are never logged."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with tracing.span() as current:
            await self._answer(scope, receive, send, current)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, current: Any) -> None:
        correlation = scope["correlation"] = correlation_id(Request(scope))
        start = time.perf_counter()
        status = 0

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                extra = [pair for pair in HEADERS if pair[0] not in given]
                message["headers"] = [*message["headers"], *extra, (b"x-request-id", correlation.encode())]
            await send(message)

        try:
            await self._app(scope, receive, dressed)
        except Exception as error:
            if status:
                raise  # the answer has begun: all that is left is to break it off
            answer = problem(error, correlation)
            if answer.status_code == 500:
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
