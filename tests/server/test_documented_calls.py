"""The documented calls, one after the other, against `uvicorn strongroom.server:app`, give the documented answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.conftest import client
from tests.server.samples import MCR
from tests.server.serving import process


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with process(tmp_path_factory.mktemp("documented") / "agent.db") as server, client(server.url) as made:
        yield made


@pytest.fixture(scope="module")
def run_id(http: httpx.Client) -> str:
    answer = http.post(
        "/runs",
        json={
            "objective": "Research the history of AI",
            "acceptance_criteria": ["Findings documented", "Sources cited"],
            "constraints": ["Use reliable sources"],
        },
    )
    body: dict[str, str] = answer.json()
    assert body.keys() == {"run_id", "status"} and body["status"] == "BOOT"
    assert body["run_id"].startswith("run_")
    return body["run_id"]


def test_the_whole_walk(http: httpx.Client, run_id: str) -> None:
    state = http.get(f"/runs/{run_id}")
    expected = {
        "_schema_version": "2.1",
        "_update_seq": 0,
        "run_id": run_id,
        "status": "BOOT",
        "objective": "Research the history of AI",
        "current_stage": "BOOT",
        "next_action": "",
    }
    assert state.json() | expected == state.json()
    patch = {"status": "BUSY", "next_action": "Start research", "current_stage": "RESEARCH"}
    done = http.patch(f"/runs/{run_id}", json={"patch": patch, "expected_seq": 0})
    assert done.status_code == 200 and done.json()["ok"] is True
    assert done.json()["ws"] | {**patch, "_update_seq": 1} == done.json()["ws"]
    lost = http.patch(f"/runs/{run_id}", json={"patch": patch, "expected_seq": 0})
    assert lost.status_code == 409
    promised = {"ok": False, "error": "Conflict: State has changed. Reload and retry."}
    assert lost.json() | promised == lost.json()
    proposed = http.post(f"/runs/{run_id}/memory/propose", json={"mcrs": [MCR], "scope_filters": {}}).json()
    assert proposed["ok"] is True and proposed["batch_id"].startswith("batch_")
    committed = http.post(f"/runs/{run_id}/memory/commit", json={"batch_id": proposed["batch_id"]}).json()
    assert committed["ok"] is True and committed["committed_ids"][0].startswith("mem_")
    kept = http.post(f"/runs/{run_id}/snapshot").json()
    name = Path(kept["pack_path"]).name
    assert kept["ok"] is True and name.startswith("task_") and "_resume_" in name and name.endswith(".zip")
    assert http.get("/health").json() == {"status": "ok", "service": "strongroom"}
    restored = http.post("/runs/resume/load", json={"pack_path": kept["pack_path"], "new_run_id": "again"}).json()
    assert restored["ok"] is True and restored["ws"]["run_id"] == "again"


def test_the_second_set_of_names(http: httpx.Client) -> None:
    booted = http.post("/runs/boot", json={"objective": "Write a letter"}).json()
    run = booted["run_id"]
    assert booted["ws"]["_update_seq"] == 0
    assert http.get(f"/runs/{run}/ws").json() == booted["ws"]
    patch = {"_schema_version": "2.1", "expected_seq": 0, "set": {"status": "BUSY"}}
    stepped = http.post(f"/runs/{run}/step/update", json={"patch": patch})
    assert stepped.json()["ws"]["_update_seq"] == 1 and "Write a letter" in stepped.json()["context_brief"]
    assert http.post(f"/runs/{run}/step/update", json={"patch": patch}).status_code == 409
    wanted = {**MCR, "content": "Letters end with a greeting", "confidence": 1.0}
    staged = http.post(f"/runs/{run}/memory/propose", json={"mcrs": [wanted]}).json()
    assert staged["staged_count"] == 1
    milestone = http.post(f"/runs/{run}/milestone", json={"memory_batch_id": staged["batch_id"]}).json()
    assert milestone["episode_id"].startswith("ep_") and len(milestone["committed_memory_ids"]) == 1
    found = http.get(f"/runs/{run}/memory/search", params={"q": "greeting letters"}).json()
    assert found["ok"] is True and found["count"] == 1
    assert http.post(f"/runs/{run}/resume/snapshot", json={}).json()["pack_id"].startswith("pack_")


@pytest.mark.parametrize("path", ["/runs/nobody", "/runs/nobody/ws", "/runs/nobody/events"])
def test_an_unknown_run_is_404_in_one_shape(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    body: dict[str, Any] = answer.json()
    assert answer.status_code == 404
    assert body["ok"] is False and body["code"] == "not_found" and body["id"] == answer.headers["x-request-id"]
    assert "detail" not in body and "Traceback" not in answer.text


def test_a_run_is_never_reset(http: httpx.Client) -> None:
    first = http.post("/runs", json={"objective": "One", "run_id": "mine"})
    again = http.post("/runs", json={"objective": "Two", "run_id": "mine"})
    assert (first.status_code, again.status_code) == (200, 409)
    assert http.get("/runs/mine").json()["objective"] == "One"


def test_if_match_says_which_state_was_seen(http: httpx.Client) -> None:
    run = http.post("/runs", json={"objective": "x"}).json()["run_id"]
    tag = http.get(f"/runs/{run}").headers["etag"]
    change = {"patch": {"status": "BUSY"}}
    done = http.patch(f"/runs/{run}", json=change, headers={"If-Match": tag})
    assert done.status_code == 200 and done.headers["etag"] == '"1"'
    assert http.patch(f"/runs/{run}", json=change, headers={"If-Match": tag}).status_code == 409
    assert http.patch(f"/runs/{run}", json=change).status_code == 428
    assert http.get(f"/runs/{run}", headers={"If-None-Match": '"1"'}).status_code == 304


def test_an_idempotency_key_makes_a_repeat_safe(http: httpx.Client) -> None:
    once = {"Idempotency-Key": "start-1"}
    run = http.post("/runs", json={"objective": "x"}, headers=once).json()["run_id"]
    assert http.post("/runs", json={"objective": "x"}, headers=once).json()["run_id"] == run
    change, key = {"patch": {"status": "BUSY"}, "expected_seq": 0}, {"Idempotency-Key": "change-1"}
    first = http.patch(f"/runs/{run}", json=change, headers=key)
    again = http.patch(f"/runs/{run}", json=change, headers=key)
    assert first.json() == again.json() and again.status_code == 200
    said = {"messages": [{"role": "user", "content": "Hello"}]}
    ids = [http.post("/sessions/s1/messages", json=said, headers={"Idempotency-Key": "m"}).json() for _ in range(2)]
    assert ids[0] == ids[1] and len(http.get("/sessions/s1/messages").json()["messages"]) == 1


def test_a_memory_that_is_committed_again_by_another_run_is_told_by_its_id(http: httpx.Client) -> None:
    told = []
    for _ in range(2):
        run = http.post("/runs", json={"objective": "x"}).json()["run_id"]
        batch = http.post(f"/runs/{run}/memory/propose", json={"mcrs": [MCR], "scope_filters": {}}).json()["batch_id"]
        told.append(http.post(f"/runs/{run}/memory/commit", json={"batch_id": batch}).json()["committed_ids"])
    assert told[0] == told[1] and len(told[0]) == 1


def test_a_pack_can_be_carried_over(http: httpx.Client) -> None:
    run = http.post("/runs", json={"objective": "Travel"}).json()["run_id"]
    pack = http.get(f"/runs/{run}/pack")
    assert pack.headers["content-type"] == "application/zip"
    back = http.post("/runs/restore?run_id=there", content=pack.content, headers={"Content-Type": "application/zip"})
    assert back.json()["ws"]["objective"] == "Travel"
    assert http.get("/runs/there/verify").json()["ok"] is True


def test_a_pack_is_carried_over_under_a_key_that_only_its_owner_has(http: httpx.Client) -> None:
    run = http.post("/runs", json={"objective": "Travel"}).json()["run_id"]
    key = {"Strongroom-Pack-Key": "0f" * 32}
    pack = http.get(f"/runs/{run}/pack", headers=key).content
    assert b"Travel" not in pack and not pack.startswith(b"PK")

    def restored(**headers: str) -> httpx.Response:
        sent = {"Content-Type": "application/zip", **headers}
        return http.post("/runs/restore?run_id=sealed", content=pack, headers=sent)

    for wrong in ({}, {"Strongroom-Pack-Key": "f0" * 32}, {"Strongroom-Pack-Key": "a passphrase"}):
        refused = restored(**wrong)
        assert refused.status_code == 422 and "nothing changed" in refused.text
        assert "f0" * 12 not in refused.text and "passphrase" not in refused.text
    assert http.get("/runs/sealed").status_code == 404
    assert restored(**key).json()["ws"]["objective"] == "Travel"


def test_looking_for_a_run_creates_nothing(http: httpx.Client) -> None:
    http.get("/runs/never-was")
    assert all(run["run_id"] != "never-was" for run in http.get("/runs?limit=1000").json()["runs"])
