"""Every path leads to the endpoint that was written for it."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from starlette.routing import Match, Route

from strongroom.server.app import create_app
from strongroom.server.router import Endpoint, routes
from strongroom.server.routes import ENDPOINTS
from strongroom.server.settings import Settings
from tests.server.test_roles import name

ROUTES = routes(ENDPOINTS)


def found(method: str, path: str) -> str | None:
    """Return the template that Starlette's router would take."""

    def fits(route: Route) -> bool:
        return route.matches({"type": "http", "method": method, "path": path})[0] is Match.FULL

    return next((route.path for route in ROUTES if fits(route)), None)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=name)
def test_no_endpoint_stands_before_another(endpoint: Endpoint) -> None:
    for id in ("r1", "{run_id}", "."):
        assert found(endpoint.method, re.sub(r"{\w+}", id, endpoint.path)) == endpoint.path


def test_a_name_is_one_part_of_a_path_and_never_empty() -> None:
    assert [found("GET", path) for path in ("/runs//events", "/runs/a/b", "/sessions//window")] == [None] * 3


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


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/runs", "GET, HEAD, POST"),
        ("PUT", "/runs/scraper", "GET, HEAD, PATCH"),
        ("PUT", "/keys", "GET, HEAD, POST"),
        ("PUT", "/health", "GET, HEAD"),
        ("PATCH", "/mcp", "DELETE, GET, HEAD, POST"),
    ],
)
def test_a_wrong_method_is_answered_with_all_right_ones(
    alone: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = alone.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
