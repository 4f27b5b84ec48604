"""A write under a condition is made only if the condition holds: what `If-Match` says is never passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from strongroom.server.routes import ENDPOINTS
from strongroom.server.versions import expected_by

Ask = tuple[str, str, dict[str, Any]]  # method, address, body
PATH = "/notes/a.md"
# Every write whose body can say which version it expects, where the version is told, and how the write is asked for.
TOLD = {"run": "/runs/r", "file": f"/files/text?path={PATH}", "session": "/sessions/s"}
WRITES: dict[str, tuple[str, Ask]] = {
    "PATCH /runs/{run_id}": ("run", ("PATCH", "/runs/r", {"patch": {"status": "BUSY"}})),
    "POST /runs/{run_id}/rollback": ("run", ("POST", "/runs/r/rollback", {"seq": 0})),
    "PUT /files": ("file", ("PUT", "/files", {"path": PATH, "text": "mine"})),
    "POST /files/restore": ("file", ("POST", "/files/restore", {"path": PATH, "version": 1})),
    "POST /files/rename": ("file", ("POST", "/files/rename", {"path": PATH, "to": "/b.md"})),
    "POST /files/delete": ("file", ("POST", "/files/delete", {"path": PATH})),
    "POST /sessions/{session_id}/messages": ("session", ("POST", "/sessions/s/messages", {"messages": []})),
    "PUT /sessions/{session_id}/messages": ("session", ("PUT", "/sessions/s/messages", {"messages": []})),
}
ELSE: dict[str, Callable[[httpx.Client], httpx.Response]] = {
    "run": lambda http: http.patch("/runs/r", json={"expected_seq": 1, "patch": {"status": "PAUSED"}}),
    "file": lambda http: http.put("/files", json={"path": PATH, "text": "somebody else's"}),
    "session": lambda http: http.post("/sessions/s/messages", json={"messages": [{"role": "user", "content": "x"}]}),
}


def test_no_write_with_a_version_is_missing() -> None:
    found = {f"{each.method} {each.path}" for each in ENDPOINTS if not each.reads and expected_by(each.body)}
    assert found == WRITES.keys()


@pytest.fixture
def http(alone: httpx.Client) -> httpx.Client:
    alone.post("/runs", json={"run_id": "r", "objective": "o"})
    alone.patch("/runs/r", json={"expected_seq": 0, "patch": {"status": "BUSY"}})
    alone.put("/files", json={"path": PATH, "text": "first"})
    alone.post("/sessions", json={"id": "s"})
    return alone


def state(http: httpx.Client) -> list[str]:
    everything = (*TOLD.values(), "/sessions/s/messages", "/files", f"/files/history?path={PATH}")
    return [http.get(path).text for path in everything]


@pytest.mark.parametrize("name", WRITES)
def test_a_write_whose_version_is_gone_is_refused_and_changes_nothing(http: httpx.Client, name: str) -> None:
    kind, (method, path, body) = WRITES[name]
    seen = http.get(TOLD[kind]).headers["ETag"]
    assert ELSE[kind](http).status_code == 200
    before = state(http)
    refused = http.request(method, path, json=body, headers={"If-Match": seen})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert state(http) == before


@pytest.mark.parametrize("name", WRITES)
def test_a_write_whose_version_is_still_there_is_made(http: httpx.Client, name: str) -> None:
    kind, (method, path, body) = WRITES[name]
    seen = http.get(TOLD[kind]).headers["ETag"]
    assert http.request(method, path, json=body, headers={"If-Match": seen}).status_code == 200


@pytest.mark.parametrize("header", ['"x"', "*", '"1", "2"', '"-1"', "", '""""1', '"1'])
def test_a_condition_that_cannot_be_read_is_refused(http: httpx.Client, header: str) -> None:
    before = state(http)
    refused = http.put("/files", json={"path": PATH, "text": "mine"}, headers={"If-Match": header})
    assert refused.status_code == 422
    assert "If-Match must be an ETag that was told" in refused.text and "nothing changed" in refused.text
    assert state(http) == before


def test_a_header_and_a_body_that_expect_different_versions_are_refused(http: httpx.Client) -> None:
    body = {"path": PATH, "text": "mine", "expected_version": 1}
    assert http.put("/files", json=body, headers={"If-Match": '"2"'}).status_code == 422
    assert http.put("/files", json=body, headers={"If-Match": '"1"'}).status_code == 200


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_a_write_that_knows_no_version_takes_no_condition(http: httpx.Client, header: str) -> None:
    before = state(http)
    refused = http.post("/files/erase", json={"path": PATH}, headers={header: '"1"'})
    assert refused.status_code == 422
    assert header in refused.text and "nothing changed" in refused.text
    assert state(http) == before


def test_what_is_written_tells_its_new_version(http: httpx.Client) -> None:
    first = http.put("/files", json={"path": PATH, "text": "a"}).headers["ETag"]
    second = http.put("/files", json={"path": PATH, "text": "b"}, headers={"If-Match": first})
    assert second.headers["ETag"] == http.get(TOLD["file"]).headers["ETag"] != first


def test_any_version_is_none_that_was_seen(http: httpx.Client) -> None:
    for method, path in (("PUT", "/sessions/s/messages"), ("PATCH", "/runs/r")):
        body: dict[str, Any] = {"messages": []} if method == "PUT" else {"patch": {"status": "BUSY"}}
        assert http.request(method, path, json=body, headers={"If-Match": "*"}).status_code == 422
