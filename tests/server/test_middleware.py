"""What surrounds every request: headers, one line of log without contents, figures, spans, and time limits."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect

import strongroom
from strongroom.errors import InvalidInput
from strongroom.payloads import ModelAction
from strongroom.server import request, telemetry
from strongroom.server.limits import HeldBytes
from strongroom.server.middleware import WithoutQuery
from strongroom.server.shutdown import Shutdown
from strongroom.server.telemetry import MOST_IN_ALL, Metrics
from strongroom.services.runs.usage import MOST_MODELS, OTHERS
from tests.server.conftest import client
from tests.server.serving import PATIENCE_SECONDS, Served, process, served

SECRET = "xylophone"


@pytest.mark.parametrize("path", ["/health", "/runs", "/runs/nobody", "/no/such/path", "/docs", "/metrics"])
def test_every_answer_carries_security_headers(admin: httpx.Client, path: str) -> None:
    headers = admin.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_a_refused_body_carries_them_too(tmp_path: Path) -> None:
    with served(max_body_bytes=10) as started, client(started.url) as http:
        answer = http.post("/runs", json={"objective": "long"})
        assert answer.status_code == 413 and answer.headers["x-frame-options"] == "DENY"
        assert answer.json()["id"] == answer.headers["x-request-id"]


def test_no_other_site_may_read(admin: httpx.Client) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    answer = admin.options("/runs", headers=asked)
    assert answer.status_code == 405 and "access-control-allow-origin" not in answer.headers


def test_a_sensible_request_id_is_kept_and_another_is_not(admin: httpx.Client) -> None:
    assert admin.get("/health", headers={"X-Request-Id": "abc-123"}).headers["x-request-id"] == "abc-123"
    forged = admin.get("/health", headers={"X-Request-Id": "a b<script>"}).headers["x-request-id"]
    assert "script" not in forged and len(forged) == 16


def test_a_method_or_path_that_is_not_there_has_the_usual_shape(admin: httpx.Client) -> None:
    for answer, status in ((admin.put("/runs"), 405), (admin.get("/nowhere"), 404)):
        assert answer.status_code == status and answer.json()["ok"] is False and "code" in answer.json()


def test_a_body_that_is_not_json_is_said_to_be_none(admin: httpx.Client) -> None:
    answer = admin.post("/runs", content=b"<a/>", headers={"Content-Type": "application/xml"})
    assert answer.status_code == 415


def test_nothing_anybody_says_is_logged(tmp_path: Path) -> None:
    """Whatever is stored, searched for or sent as a key, in a path or wrongly: the log does not hold it."""
    with process(tmp_path / "agent.db") as server, client(server.url) as http:
        run = http.post("/runs", json={"objective": SECRET}).json()["run_id"]
        http.patch(f"/runs/{run}", json={"patch": {"next_action": SECRET}, "expected_seq": 0})
        http.post("/runs", json={"objective": {SECRET: SECRET}})
        http.get("/memories/search", params={"q": SECRET})
        http.get("/sessions/search", params={"q": SECRET, "surprise": SECRET})
        http.get("/runs", headers={"Authorization": f"Bearer srk_a.{SECRET}"})
        server.stop()
        logged = server.log.read_text()
    assert "POST /runs" in logged and SECRET not in logged


def test_an_unexpected_error_is_an_answer_and_its_message_stays_out_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with served() as started, client(started.url) as http:

        async def broken(*_: Any) -> Any:
            raise RuntimeError(SECRET)

        monkeypatch.setattr(started.app.state.store, "read", broken)
        with caplog.at_level(logging.INFO, "strongroom.server"):
            answer = http.get("/runs/a")
    assert answer.status_code == 500 and answer.json()["code"] == "internal"
    assert SECRET not in answer.text and "Traceback" not in answer.text
    assert answer.json()["id"] in caplog.text and "RuntimeError" in caplog.text and SECRET not in caplog.text


def test_the_web_servers_own_log_loses_its_queries() -> None:
    record = logging.LogRecord("uvicorn.access", 20, "", 0, "%s %s", ("GET", f"/a?q={SECRET}"), None)
    assert WithoutQuery().filter(record) and record.getMessage() == "GET /a"


def test_metrics_tell_what_models_came_to(shared: Served, admin: httpx.Client) -> None:
    action: ModelAction = {"action": "answer", "model": 'm-1 "beta"', "tokens_in": 100, "tokens_out": 20, "cost": 0.25}
    with strongroom.connect(shared.url, key=shared.key(role="writer")) as ctx:
        run = ctx.runs.create(objective="o")
        run.record("MODEL_ACTION", action)
        with ctx.turn() as turn:
            turn.record(run, "MODEL_ACTION", action)
            turn.record(run, "TOOL_CALL", {"tool_name": "t"})
        admin.post(f"/runs/{run.id}/events", json={"type": "MODEL_ACTION", "payload": action})
        assert run.usage().total.tokens_in == 300
    text = admin.get("/metrics").text
    assert 'strongroom_model_tokens_in_total{model="m-1 \\"beta\\""} 300\n' in text
    assert 'strongroom_model_cost_total{model="m-1 \\"beta\\""} 0.75\n' in text


def test_metrics_count_a_repeat_once(shared: Served, admin: httpx.Client) -> None:
    action: ModelAction = {"action": "answer", "model": "repeated", "tokens_in": 100}
    admin.post("/runs", json={"objective": "o", "run_id": "repeats"})
    body = {"type": "MODEL_ACTION", "payload": action}
    for _ in range(3):
        admin.post("/runs/repeats/events", json=body, headers={"Idempotency-Key": "k"})
    with strongroom.connect(shared.url, key=shared.key(role="writer")) as ctx:
        run = ctx.runs.get("repeats")
        for _ in range(3):
            run.record("MODEL_ACTION", action, commit_id="c")
    assert 'strongroom_model_tokens_in_total{model="repeated"} 200\n' in admin.get("/metrics").text


def test_metrics_name_so_many_models_and_no_more() -> None:
    with served() as started, strongroom.connect(started.url, key=started.key()) as ctx:
        run = ctx.runs.create(objective="o")
        for first in (0, 75):
            with ctx.turn() as turn:
                for n in range(first, first + 75):
                    turn.record(run, "MODEL_ACTION", {"action": "a", "model": f"{n:0200}", "tokens_in": 1})
        with pytest.raises(InvalidInput):
            run.record("MODEL_ACTION", {"action": "a", "model": "m" * 201})
        with client(started.url, started.key()) as admin:
            lines = [line for line in admin.get("/metrics").text.splitlines() if "model_tokens_in_total{" in line]
    assert len(lines) == MOST_MODELS + 1 and any(f'model="{OTHERS}"' in line for line in lines)
    assert max(map(len, lines)) < 300


def _models(metrics: Metrics) -> list[str]:
    return [line for line in metrics.text().splitlines() if line.startswith("strongroom_model_calls_total{")]


def test_one_space_takes_no_names_of_models_from_another() -> None:
    metrics = Metrics()
    for n in range(3 * MOST_MODELS):
        metrics.record("greedy", "MODEL_ACTION", {"action": "a", "model": f"m{n}"})
    metrics.record("other", "MODEL_ACTION", {"action": "a", "model": "its own"})
    lines = _models(metrics)
    assert len(lines) == MOST_MODELS + 2
    assert 'strongroom_model_calls_total{model="its own"} 1' in lines
    assert f'strongroom_model_calls_total{{model="{OTHERS}"}} {2 * MOST_MODELS}' in lines


def test_a_model_is_summed_up_over_all_spaces() -> None:
    metrics = Metrics()
    for space in ("a", "b"):
        metrics.record(space, "MODEL_ACTION", {"action": "a", "model": "m"})
    assert _models(metrics) == ['strongroom_model_calls_total{model="m"} 2']


def test_all_spaces_together_bring_so_many_names_and_no_more() -> None:
    metrics = Metrics()
    for n in range(MOST_IN_ALL + 50):
        metrics.record(f"s{n}", "MODEL_ACTION", {"action": "a", "model": f"m{n}"})
    assert len(_models(metrics)) == MOST_IN_ALL + 1


def test_figures_count_routes_and_not_ids(admin: httpx.Client) -> None:
    admin.get("/runs/nobody")
    admin.request("BREW", "/runs")
    text = admin.get("/metrics").text
    assert 'route="/runs/{run_id}",status="404"' in text and "nobody" not in text and "BREW" not in text
    assert "strongroom_request_seconds_bucket" in text


def test_a_span_tells_the_route_and_the_outcome(admin: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Queue[tuple[Any, ...]] = Queue()
    monkeypatch.setattr(telemetry, "finish", lambda _, *told: seen.put(told))
    answer = admin.get("/runs/nobody", headers={"X-Request-Id": "the-one-asked"})
    # A span ends after its answer has left, so an earlier request's may come first.
    while (told := seen.get(timeout=PATIENCE_SECONDS))[-1] != "the-one-asked":
        pass
    assert answer.status_code == 404 and told == ("GET", "/runs/{run_id}", 404, "the-one-asked")


def test_a_body_that_stops_coming_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "BODY_SECONDS", 0.05)
    with served() as started:
        host, port = started.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as raw:
            raw.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            assert raw.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_body_that_comes_in_pieces_is_one_body(admin: httpx.Client) -> None:
    pieces = iter([b'{"objective": ', b'"in pie', b'ces"}'])
    started = admin.post("/runs", content=pieces, headers={"Content-Type": "application/json"})
    assert admin.get(f"/runs/{started.json()['run_id']}").json()["objective"] == "in pieces"


async def test_whoever_hangs_up_in_the_middle_of_a_body_has_sent_none() -> None:
    async def receive() -> dict[str, Any]:
        return left.pop(0)

    left: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    state = SimpleNamespace(shutdown=Shutdown(), held=HeldBytes(100))
    scope = {"app": SimpleNamespace(state=state), "headers": []}
    with pytest.raises(ClientDisconnect):
        await request.Body(scope, receive, 100, spooled=False).whole()


def test_readiness_is_about_the_store(shared: Served, admin: httpx.Client) -> None:
    assert admin.get("/ready").json() == {"status": "ready"}
    assert admin.get("/durability").json()["name"] == "durable"


def test_a_server_whose_store_fails_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as started, client(started.url) as http:

        async def broken(*_: Any) -> Any:
            raise OSError

        monkeypatch.setattr(started.app.state.store, "read", broken)
        assert (http.get("/health").status_code, http.get("/ready").status_code) == (200, 503)


def test_how_the_server_is_doing_is_told_to_its_own_admins_alone(
    shared: Served, roles: dict[str, httpx.Client]
) -> None:
    assert {role: http.get("/metrics").status_code for role, http in roles.items()} == {
        "reader": 403, "writer": 403, "reviewer": 403, "admin": 200,
    }  # fmt: skip
    with client(shared.url, shared.key("a-tenant", "admin")) as tenant:
        assert tenant.get("/metrics").status_code == 403


def test_what_callers_make_up_is_no_label(admin: httpx.Client) -> None:
    before = len(admin.get("/metrics").text.splitlines())
    for number in range(20):
        admin.request(f"MADE{number}", "/runs")
        admin.get(f"/made/up/{number}")
        admin.get(f"/runs/made-up-{number}")
    assert len(admin.get("/metrics").text.splitlines()) - before < 80


@pytest.mark.parametrize("path", ["/runs/%FF", "/runs/%C3", "/sessions/%ED%A0%80/messages", "/runs?after=%FF"])
def test_an_address_that_is_not_utf8_is_refused(admin: httpx.Client, path: str) -> None:
    admin.post("/runs", json={"objective": "x", "run_id": "\ufffd"})  # what a lossy reading would make of it
    answer = admin.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "not_utf8")
