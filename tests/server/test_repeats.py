"""A request sent again under the same Idempotency-Key does nothing more; where that can not be, it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from docs.recording import STORY, USUAL, resolved

from strongroom.server.routes import ENDPOINTS
from tests.server.conftest import client
from tests.server.serving import served
from tests.server.test_roles import name

KEYED = {name(endpoint) for endpoint in ENDPOINTS if endpoint.keyed}
UNKEYED = {name(endpoint) for endpoint in ENDPOINTS if endpoint.method in ("POST", "PATCH")} - KEYED


@pytest.fixture
def http(tmp_path: Path) -> Iterator[httpx.Client]:
    with served(str(tmp_path / "agent.db"), snapshots=str(tmp_path / "s")) as server, client(server.url) as made:
        yield made


def played(http: httpx.Client) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Play the recorded story; tell of each request, before it is sent, its name, path and content."""
    known: dict[str, Any] = {}
    for asked, given in STORY:
        method, path = asked.split()
        whole = path.format(**resolved({**USUAL, **given.get("path", {})}, known))
        content = {"json": resolved(given["body"], known)} if "body" in given else {}
        yield asked, whole, content
        answer = http.request(method, whole, params=given.get("query"), headers=key_for(asked), **content)
        assert answer.status_code == 200, answer.text
        known |= answer.json() if isinstance(answer.json(), dict) else {}


def key_for(asked: str) -> dict[str, str]:
    return {"Idempotency-Key": f"once: {asked}"} if asked in KEYED else {}


def test_every_request_of_the_story_is_answered_as_before_if_it_takes_a_key(http: httpx.Client) -> None:
    different, seen = [], set()
    for asked, path, content in played(http):
        if asked in KEYED and asked not in seen:
            first, second = (http.request(asked.split()[0], path, headers=key_for(asked), **content) for _ in range(2))
            seen.add(asked)
            if (first.status_code, first.content) != (second.status_code, second.content):
                different.append((asked, first.text, second.text))
    assert different == []
    assert seen == KEYED


def test_a_request_that_takes_no_key_is_refused_with_one(http: httpx.Client) -> None:
    refused = set()
    for asked, path, content in played(http):
        if asked in UNKEYED:
            answer = http.request(asked.split()[0], path, headers={"Idempotency-Key": "once"}, **content)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
            refused.add(asked)
    assert {each for each in UNKEYED - refused if "/store/" not in each} == {"POST /runs/restore"}


def test_a_repeat_is_answered_as_the_first_whatever_happened_since(http: httpx.Client) -> None:
    def ask(path: str, body: dict[str, Any], *, method: str = "POST") -> bytes:
        return http.request(method, path, json=body, headers={"Idempotency-Key": f"{method} {path}"}).content

    asked: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("/runs", {"objective": "o", "run_id": "r"}, "POST"),
        ("/runs/r", {"patch": {"status": "BUSY"}, "expected_seq": 0}, "PATCH"),
        ("/runs/r/fork", {}, "POST"),
        ("/runs/r/milestone", {"reason": "first"}, "POST"),
        ("/runs/r/rollback", {"seq": 0, "expected_seq": 1}, "POST"),
        ("/runs/r/events", {"type": "TOOL_CALL", "payload": {"tool_name": "t", "arguments": {}}}, "POST"),
        ("/threads/t/slots", {"payload": 1, "from_id": "a"}, "POST"),
        ("/sessions/s/messages", {"messages": [{"role": "user", "content": "Hello"}]}, "POST"),
    )
    first = [ask(path, body, method=method) for path, body, method in asked]
    http.patch("/runs/r", json={"patch": {"status": "DONE"}, "expected_seq": 2})
    http.post("/threads/t/slots", json={"payload": 2, "from_id": "a"})
    http.post("/runs/r/milestone", json={"reason": "second"})
    assert [ask(path, body, method=method) for path, body, method in asked] == first


def test_one_session_is_opened_however_often_it_is_asked_for(http: httpx.Client) -> None:
    ids = {http.post("/sessions", json={}, headers={"Idempotency-Key": "k"}).json()["id"] for _ in range(2)}
    assert len(ids) == len(http.get("/sessions").json()["sessions"]) == 1


def test_a_key_for_one_thing_says_nothing_about_another(http: httpx.Client) -> None:
    keyed = {"Idempotency-Key": "k"}
    runs = [http.post("/runs", json={"objective": "o", "run_id": each}).json()["run_id"] for each in "ab"]
    made = [http.post(f"/runs/{run}/milestone", json={"reason": run}, headers=keyed).json() for run in runs]
    assert [each["episode"]["reason"] for each in made] == runs
    patch = {"patch": {"status": "BUSY"}, "expected_seq": 0}
    done = [http.patch(f"/runs/{run}", json=patch, headers=keyed).json() for run in runs]
    assert [each["ws"]["run_id"] for each in done] == runs
