"""The application: Starlette with our endpoints as its routes.

From the outside in: CORS for the origins that were named, an id with headers and one log line, errors turned into
answers, and then the endpoint, with its bounds and the gate (who are you, may you, not so fast).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from strongroom.opening import open_whole_store
from strongroom.server import assistants
from strongroom.server.bounded import BoundedStore
from strongroom.server.changes import Changes
from strongroom.server.console import console
from strongroom.server.gate import Gate
from strongroom.server.limits import HeldBytes, Streams
from strongroom.server.meaning import meaning_of
from strongroom.server.middleware import RequestMiddleware, WithoutQuery
from strongroom.server.openapi import documentation
from strongroom.server.responses import Refusal, Tidy, problem
from strongroom.server.router import routes
from strongroom.server.routes import ENDPOINTS
from strongroom.server.settings import Settings, folders, from_environment
from strongroom.server.shutdown import Shutdown, end
from strongroom.server.telemetry import Metrics
from strongroom.server.upkeep import Upkeep
from strongroom.store import AsyncStore

# A page of another site sends its key itself: credentials are never allowed, so no browser adds anything of its own.
CORS: dict[str, Any] = {
    "allow_methods": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": [
        "Authorization",
        "Content-Type",
        "Idempotency-Key",
        "If-Match",
        "If-None-Match",
        "Last-Event-ID",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "Mcp-Name",
        "Mcp-Session-Id",
        "Strongroom-Pack-Key",
        "X-Request-Id",
    ],
    "expose_headers": ["ETag", "Mcp-Session-Id", "Retry-After", "WWW-Authenticate", "X-Request-Id"],
    "max_age": 600,
}


def create_app(settings: Settings | None = None) -> Starlette:
    """Make an application. The store is opened when it starts, not before, and closed when it stops."""
    chosen = settings or from_environment()
    logging.getLogger("uvicorn.access").addFilter(WithoutQuery())
    middleware = [Middleware(RequestMiddleware, tidy=Tidy(folders(chosen)))]
    if chosen.allowed_origins:
        middleware.insert(0, Middleware(CORSMiddleware, allow_origins=chosen.allowed_origins, **CORS))
    app = Starlette(
        routes=[*routes(ENDPOINTS), *documentation(ENDPOINTS), *assistants.routes(), *console()],
        middleware=middleware,
        exception_handlers={HTTPException: _http_problem},  # type: ignore[dict-item]
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False  # see `paths`
    app.state.settings = chosen
    app.state.metrics = Metrics()
    app.state.shutdown = Shutdown()
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    meaning = await meaning_of(app.state.settings)
    use_store(app, await open_whole_store(app.state.settings.url))
    app.state.meaning = meaning
    shutdown = app.state.shutdown = Shutdown()
    try:
        with shutdown.on_signal():
            ending = asyncio.create_task(shutdown.see_through())
            try:
                async with assistants.running(app):
                    yield
            finally:
                await end(ending)
    finally:
        await app.state.changes.close()
        await app.state.upkeep.close()
        await app.state.store.close()  # finishes what is queued: an acknowledged commit is never cut short


def use_store(app: Starlette, store: AsyncStore) -> None:
    """Give an application its store, and what is known about nobody yet."""
    settings: Settings = app.state.settings
    app.state.store = store
    app.state.bounded = BoundedStore(store, settings.max_answer_bytes)
    app.state.contexts = {}
    app.state.meaning = None
    app.state.changes = Changes(app.state.bounded, settings.max_answer_bytes)
    app.state.upkeep = Upkeep(store, settings)
    app.state.gate = Gate(store, settings)
    app.state.streams = Streams(settings.max_streams)
    app.state.held = HeldBytes(max(settings.max_bodies_bytes, settings.max_body_bytes))


async def _http_problem(request: Request, error: HTTPException) -> Response:
    """Give the framework's own refusals (no such path, no such method) our shape."""
    words = {
        404: ("no_such_path", "there is nothing at this path"),
        405: ("method_not_allowed", "not with this method"),
    }
    code, message = words.get(error.status_code, ("refused", str(error.detail)))
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return problem(Refusal(error.status_code, code, message, headers=headers), request.scope["request_id"])


def _methods(request: Request) -> list[str]:
    """Return what a path can be asked with: routes may share one, and Starlette names the first's."""
    fits = [
        each for each in request.app.routes if isinstance(each, Route) and each.matches(request.scope)[0] != Match.NONE
    ]
    return sorted({method for each in fits for method in each.methods or ()})
