"""The table finds what a router would that tries every route in turn."""

from __future__ import annotations

import asyncio
import re
from itertools import product

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from strongroom.server.app import create_app
from strongroom.server.routes import ENDPOINTS
from strongroom.server.settings import Settings
from strongroom.server.table import Served, Table

WORDS = sorted({part for endpoint in ENDPOINTS for part in endpoint.path.split("/") if part and part[0] != "{"})
NAMES = ["r1", "{}", "{run_id}", "", ".", *WORDS]
SHAPES = sorted({re.sub(r"{\w+}", "{}", endpoint.path) for endpoint in ENDPOINTS})
PATHS = sorted({shape.replace("{}", name) + end for shape, name, end in product(SHAPES, NAMES, ("", "/", "/x"))})
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]


def test_every_path_leads_where_the_routes_say() -> None:
    pairs = [(endpoint, Served(endpoint)) for endpoint in ENDPOINTS]
    table = Table(pairs, Starlette())
    routes = [Route(endpoint.path, served, methods=[endpoint.method]) for endpoint, served in pairs]
    found = 0
    for path in PATHS:
        matching = [(route, match.groupdict()) for route in routes if (match := route.path_regex.match(path))]
        for method in METHODS:
            first = next(((route, names) for route, names in matching if method in (route.methods or ())), None)
            served, params = table._find(method, path)
            assert served is (first and first[0].endpoint), (method, path)
            assert first is None or params == first[1]
            found += first is not None
    assert found > len(ENDPOINTS)


def test_behind_a_prefix_the_routes_answer() -> None:
    """A proxy may serve us under a path of its own; then the application's own router takes the prefix off."""

    async def scene() -> int:
        app = create_app(Settings(url="memory://"))
        transport = httpx.ASGITransport(app, root_path="/api", client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
        ):
            return (await http.get("/api/runs")).status_code

    assert asyncio.run(scene()) == 200


@pytest.mark.parametrize("path", ["/runs/", "/health/"])
def test_a_slash_too_many_is_forgiven(alone: httpx.Client, path: str) -> None:
    assert alone.get(path, follow_redirects=True).status_code == 200
