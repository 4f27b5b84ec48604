"""CORS: no web page of another site, unless the operator names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from strongroom.errors import InvalidInput
from strongroom.server.settings import from_environment, parse_origins
from tests.server.conftest import client
from tests.server.serving import Served, served

APP, OTHER = "https://app.example", "https://evil.example"
PREFLIGHT = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization"}
CORS = "access-control-"


def cors(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith(CORS)}


@pytest.fixture(scope="module")
def naming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(str(tmp_path_factory.mktemp("cors") / "a.db"), allowed_origins=(APP, "http://localhost:3000")) as one:
        yield one


@pytest.fixture(scope="module")
def anybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(str(tmp_path_factory.mktemp("cors") / "a.db"), allowed_origins=("*",)) as one:
        yield one


def test_by_default_no_page_of_another_site_is_told_anything(shared: Served) -> None:
    with client(shared.url, shared.key()) as http:
        assert cors(http.get("/runs", headers={"Origin": APP})) == {}
        refused = http.options("/runs", headers={"Origin": APP, **PREFLIGHT})
        assert (refused.status_code, cors(refused)) == (405, {})


def test_a_page_that_is_named_may_read_the_answer(naming: Served) -> None:
    with client(naming.url) as http:
        answer = http.get("/runs", headers={"Origin": APP, "Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == APP
    assert "ETag" in answer.headers["access-control-expose-headers"]
    assert answer.headers["vary"] == "Origin"


def test_a_page_that_is_not_named_may_not(naming: Served) -> None:
    with client(naming.url) as http:
        answer = http.get("/runs", headers={"Origin": OTHER})
    assert answer.status_code == 401 and "access-control-allow-origin" not in answer.headers


def test_errors_can_be_read_too(naming: Served) -> None:
    with client(naming.url) as http:
        for path, status in (("/runs/none", 404), ("/nowhere", 404)):
            answer = http.get(path, headers={"Origin": APP})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, APP)


def test_a_preflight_is_answered_before_any_key_is_asked_for(naming: Served) -> None:
    with client(naming.url) as http:
        answer = http.options("/runs/x", headers={"Origin": APP, **PREFLIGHT})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == APP
    assert "PATCH" in answer.headers["access-control-allow-methods"]
    for name in ("Authorization", "Idempotency-Key", "If-Match"):
        assert name in answer.headers["access-control-allow-headers"]
    assert int(answer.headers["access-control-max-age"]) > 0


def test_a_preflight_of_another_page_is_not(naming: Served) -> None:
    with client(naming.url) as http:
        answer = http.options("/runs/x", headers={"Origin": OTHER, **PREFLIGHT})
    assert answer.status_code == 400 and "access-control-allow-origin" not in answer.headers


def test_credentials_are_never_asked_for(naming: Served, anybody: Served) -> None:
    for server in (naming, anybody):
        with client(server.url) as http:
            for answer in (
                http.get("/health", headers={"Origin": APP}),
                http.options("/runs", headers={"Origin": APP, **PREFLIGHT}),
            ):
                assert "access-control-allow-origin" in answer.headers
                assert "access-control-allow-credentials" not in answer.headers


def test_a_star_lets_nobody_in_without_a_key(anybody: Served) -> None:
    with client(anybody.url) as http:
        assert http.get("/runs", headers={"Origin": OTHER}).status_code == 401
    with client(anybody.url, anybody.key()) as http:
        answer = http.get("/runs", headers={"Origin": OTHER})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")


def test_the_setting_is_a_list_of_exact_origins() -> None:
    text = " https://app.example , http://localhost:3000,https://app.example"
    assert parse_origins(text) == (APP, "http://localhost:3000")
    assert from_environment({"STRONGROOM_ALLOWED_ORIGINS": text}).allowed_origins == (APP, "http://localhost:3000")
    assert from_environment({}).allowed_origins == ()
    assert parse_origins("*") == ("*",)


@pytest.mark.parametrize(
    "wrong",
    ["app.example", "https://app.example/", "https://app.example/x", "null", "https://*.example", f"*,{APP}", "ftp://x",
     "https://me@app.example", "https://app.example:x", "https://["],
)  # fmt: skip
def test_what_is_no_origin_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="STRONGROOM_ALLOWED_ORIGINS"):
        parse_origins(wrong)


def test_the_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    assert "STRONGROOM_ALLOWED_ORIGINS" in page
