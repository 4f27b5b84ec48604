"""The application: the table of endpoints behind a gate.

From the outside in: a correlation id with security headers and one log line, errors turned into answers, and then the
endpoint that the table finds, with its limits and the gate (who are you, may you, not so fast). What the table does not
know is FastAPI's: the pages of the documentation, and saying that something is not there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import strongroom
from strongroom.opening import open_async_store
from strongroom.server.around import Around, WithoutQuery
from strongroom.server.bounded import BoundedStore
from strongroom.server.gate import Gate
from strongroom.server.handles import Handles
from strongroom.server.leaving import Guests, end, on_exit
from strongroom.server.limits import Room, Streams
from strongroom.server.metrics import Metrics
from strongroom.server.openapi import describe
from strongroom.server.origins import Origins
from strongroom.server.pages import add_pages
from strongroom.server.routes import ENDPOINTS
from strongroom.server.settings import Settings, folders, from_environment
from strongroom.server.table import Served, Table
from strongroom.server.tuning import tuned
from strongroom.server.wire import Answer, Refusal, Tidy, problem
from strongroom.store import AsyncStore


class App(FastAPI):
    """FastAPI, asked only for what the table does not know."""

    def __init__(self, settings: Settings, **options: Any) -> None:
        super().__init__(**options)
        self.state = SimpleNamespace()  # type: ignore[assignment]  # Starlette's takes a call for each attribute
        served = [(endpoint, Served(endpoint)) for endpoint in ENDPOINTS]
        for endpoint, app in served:
            self.router.routes.append(Route(endpoint.path, app, methods=[endpoint.method], name=endpoint.summary))
        self.state.metrics = Metrics()
        self.state.guests = Guests()
        self._front = Around(
            Table(served, super().__call__),
            self.state.metrics,
            Origins(settings.allowed_origins),
            Tidy(folders(settings)),
            self.state.guests,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["app"] = self
            await self._front(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make an application. The store is opened when it starts, not before, and closed when it stops."""
    chosen = settings or from_environment()
    logging.getLogger("uvicorn.access").addFilter(WithoutQuery())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        furnish(app, await open_async_store(chosen.url))
        app.state.closing = closing = asyncio.Event()
        try:
            with tuned(), on_exit(closing):
                seen_off = asyncio.create_task(app.state.guests.see_off(closing))
                try:
                    yield
                finally:
                    await end(seen_off)
        finally:
            await app.state.store.close()  # finishes what is queued: an acknowledged commit is never cut short

    app = App(
        chosen,
        title="Strongroom",
        version=strongroom.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    add_pages(app)
    app.state.settings = chosen
    description = describe(ENDPOINTS)
    app.openapi = lambda: description  # type: ignore[method-assign]
    app.add_exception_handler(HTTPException, _http_problem)  # type: ignore[arg-type]
    return app


def furnish(app: FastAPI, store: AsyncStore) -> None:
    """Give an application its store, and what is known about nobody yet."""
    settings: Settings = app.state.settings
    app.state.store = store
    app.state.bounded = BoundedStore(store, settings.max_answer_bytes)
    app.state.contexts = {}
    app.state.handles = Handles()
    app.state.gate = Gate(store, settings)
    app.state.streams = Streams(settings.max_streams)
    app.state.room = Room(max(settings.max_bodies_bytes, settings.max_body_bytes))


async def _http_problem(request: Request, error: HTTPException) -> Answer:
    """Give the framework's own refusals (no such path, no such method) our shape."""
    words = {
        404: ("no_such_path", "there is nothing at this path"),
        405: ("method_not_allowed", "not with this method"),
    }
    code, message = words.get(error.status_code, ("refused", str(error.detail)))
    headers = dict(error.headers or {})
    return problem(Refusal(error.status_code, code, message, headers=headers), request.scope["correlation"])
