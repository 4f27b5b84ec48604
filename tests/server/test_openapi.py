"""The description of the API is true: generated calls never break the server, and every answer is as described."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from strongroom.server.app import create_app
from strongroom.server.openapi import describe
from strongroom.server.request import Nothing
from strongroom.server.responses import JSON
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from strongroom.server.settings import Settings
from tests.server import packed
from tests.server.conftest import client
from tests.server.samples import MCR
from tests.server.serving import served
from tests.server.test_roles import name

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.response_schema_conformance,
    checks.content_type_conformance,
    checks.status_code_conformance,
]
packed.register()
CALLS = int(os.environ.get("STRONGROOM_CALLS", "500"))
STREAMS = [endpoint for endpoint in ENDPOINTS if endpoint.media == "text/event-stream"]
CALLED = [endpoint for endpoint in ENDPOINTS if endpoint not in STREAMS]
# Nothing can be wrong with a request that says nothing.
WRONGED = [endpoint for endpoint in CALLED if endpoint.body is not None or endpoint.query is not Nothing]
PAIRS = [
    *((endpoint, GenerationMode.POSITIVE) for endpoint in CALLED),
    *((endpoint, GenerationMode.NEGATIVE) for endpoint in WRONGED),
]
VARIED = [pair for pair in PAIRS if pair[0] in WRONGED or "{" in pair[0].path or pair[0].accepts != JSON]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("described")
    with (
        served(str(folder / "agent.db"), snapshots=str(folder / "s")) as server,
        client(server.url, server.key()) as made,
    ):
        made.post("/runs", json={"objective": "x", "run_id": "known"})
        made.post("/sessions/known/messages", json={"messages": [{"role": "user", "content": "Hello"}]})
        made.post("/threads/known/slots", json={"payload": 1, "from_id": "a"})
        made.post("/memories/propose", json={"requests": [{**MCR, "memory_id": "known"}], "batch_id": "known"})
        made.post("/memories/batches/known/commit", json={"reviewer": "ana"})
        yield made


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(describe(ENDPOINTS))


@pytest.mark.parametrize(
    ("endpoint", "mode"), PAIRS, ids=[f"{name(endpoint)}-{mode.value}" for endpoint, mode in PAIRS]
)
def test_no_generated_call_breaks_anything(
    endpoint: Endpoint, mode: GenerationMode, schema: Any, http: httpx.Client
) -> None:
    """Half of the calls are about something that exists."""
    operation = schema[endpoint.path][endpoint.method]

    @settings(
        max_examples=ceil(CALLS / len(VARIED)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def call(case: Any, known: bool) -> None:
        if known:
            case.path_parameters = dict.fromkeys(case.path_parameters or {}, "known")
        key = {"Authorization": http.headers["Authorization"]}
        answer = case.call(base_url=str(http.base_url), headers=key, timeout=60)
        assert answer.status_code < 500, answer.text
        case.validate_response(answer, checks=CHECKS)

    call()


def test_every_endpoint_is_described_once_and_served() -> None:
    described = describe(ENDPOINTS)["paths"]
    listed = [(path, method.upper()) for path, methods in described.items() for method in methods]
    assert sorted(listed) == sorted((endpoint.path, endpoint.method) for endpoint in ENDPOINTS)
    app = create_app(Settings(url="memory://"))
    served_paths = {(route.path, method) for route in app.routes for method in getattr(route, "methods", None) or ()}  # type: ignore[attr-defined]
    assert set(listed) <= served_paths


def test_the_description_is_served(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["info"]["title"] == "Strongroom" and http.get("/docs").status_code == 200
