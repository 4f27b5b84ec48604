"""Memories and milestones of the HTTP API under its old paths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from strongroom.compat.aos_context.api import main
from tests.compat.aos_samples import event, mcr, old_folder
from tests.compat.aos_server import TestClient, events, propose, step


def test_proposing_says_how_many_were_staged(client: TestClient, run_id: str) -> None:
    body = {"mcrs": [mcr("one"), mcr("two")], "scope_filters": {}}
    answer = client.post(f"/runs/{run_id}/memory/propose", json=body).json()
    assert (answer["ok"], answer["staged_count"], answer["error"]) == (True, 2, None)
    assert answer["batch_id"] in main.MEMORY._batches


def test_a_malformed_request_is_said_so(client: TestClient, run_id: str) -> None:
    answer = client.post(f"/runs/{run_id}/memory/propose", json={"mcrs": [mcr(op="guess")]}).json()
    assert (answer["ok"], answer["staged_count"]) == (False, 0)
    assert answer["error"].startswith("mcr schema: ")
    assert client.post(f"/runs/{run_id}/memory/propose", json={"mcrs": []}).status_code == 422


def test_committing_without_a_token_is_refused(client: TestClient, run_id: str) -> None:
    answer = client.post(f"/runs/{run_id}/memory/commit", json={"batch_id": propose(client, run_id, mcr())})
    assert (answer.status_code, answer.json()["ok"]) == (200, False)
    assert "milestone_token" in answer.json()["error"]


def test_a_milestone_commits_the_batch_it_is_given_and_leaves_no_token(client: TestClient, run_id: str) -> None:
    batch_id = propose(client, run_id, mcr())
    answer = client.post(f"/runs/{run_id}/milestone", json={"memory_batch_id": batch_id}).json()
    assert answer["committed_memory_ids"] == list(main.MEMORY._mem)
    assert run_id not in main.MILESTONE_TOKENS
    assert batch_id not in main.MEMORY._batches
    episode = json.loads(Path(answer["episode_path"]).read_text())
    assert (episode["episode_id"], episode["memory_commits"]) == (answer["episode_id"], answer["committed_memory_ids"])


def test_a_milestone_names_the_memory_that_knew_it_already(client: TestClient, run_id: str) -> None:
    answers = []
    for _ in range(2):
        batch = propose(client, run_id, mcr("The sky is blue"))
        answers.append(client.post(f"/runs/{run_id}/milestone", json={"memory_batch_id": batch}).json())
    first, second = (answer["committed_memory_ids"] for answer in answers)
    assert first == second and len(first) == 1
    assert client.get(f"/runs/{run_id}/memory/search", params={"q": "sky"}).json()["count"] == 1


def test_a_milestones_token_commits_one_batch(client: TestClient, run_id: str) -> None:
    batch_id, other = propose(client, run_id, mcr("one")), propose(client, run_id, mcr("two"))
    token = client.post(f"/runs/{run_id}/milestone", json={}).json()["milestone_token"]
    body = {"batch_id": batch_id, "milestone_token": token}
    answer = client.post(f"/runs/{run_id}/memory/commit", json=body).json()
    assert answer["ok"] and answer["committed_ids"] == list(main.MEMORY._mem)
    assert not client.post(f"/runs/{run_id}/memory/commit", json={**body, "batch_id": other}).json()["ok"]


def test_a_milestone_with_an_unknown_batch_makes_none(client: TestClient, run_id: str) -> None:
    answer = client.post(f"/runs/{run_id}/milestone", json={"memory_batch_id": "batch_nope"})
    assert answer.status_code == 404
    assert events(run_id) == ["RUN_START"]


def test_a_batch_is_not_committed_through_another_run(client: TestClient, run_id: str) -> None:
    batch_id = propose(client, run_id, mcr())
    other = client.post("/runs/boot", json={"objective": "Another"}).json()["run_id"]
    token = client.post(f"/runs/{other}/milestone", json={}).json()["milestone_token"]
    body = {"batch_id": batch_id, "milestone_token": token}
    answer = client.post(f"/runs/{other}/memory/commit", json=body).json()
    assert not answer["ok"] and run_id in answer["error"]


def test_an_unknown_batch_with_a_good_token_is_unknown(client: TestClient, run_id: str) -> None:
    token = client.post(f"/runs/{run_id}/milestone", json={}).json()["milestone_token"]
    body = {"batch_id": "batch_nope", "milestone_token": token}
    assert client.post(f"/runs/{run_id}/memory/commit", json=body).json()["error"] == "unknown batch_id"


@pytest.mark.parametrize(("mode", "ok"), [(None, False), ("0", False), ("1", True), ("true", True)])
def test_committing_outside_a_milestone_needs_the_test_mode(
    client: TestClient, run_id: str, monkeypatch: pytest.MonkeyPatch, mode: str | None, ok: bool
) -> None:
    if mode is not None:
        monkeypatch.setenv("AOS_TEST_MODE", mode)
    body = {"batch_id": propose(client, run_id, mcr()), "allow_outside_milestone": True}
    assert client.post(f"/runs/{run_id}/memory/commit", json=body).json()["ok"] is ok


def test_tokens_are_valid_for_their_run_until_they_expire_or_are_cleared(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = main._generate_milestone_token("run_a")
    assert token.startswith("milestone_") and len(token) == len("milestone_") + 16
    assert main._validate_milestone_token("run_a", token)
    assert not main._validate_milestone_token("run_b", token)
    assert not main._validate_milestone_token("run_a", None)
    assert not main._validate_milestone_token("run_a", "milestone_guess")
    main._clear_milestone_token("run_a")
    assert not main._validate_milestone_token("run_a", token)
    token = main._generate_milestone_token("run_a")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + main.TOKEN_TTL_SECONDS + 1)
    assert not main._validate_milestone_token("run_a", token)
    assert "run_a" not in main.MILESTONE_TOKENS


def test_a_run_has_one_token_and_the_view_can_be_written(client: TestClient) -> None:
    first, second = main._generate_milestone_token("run_a"), main._generate_milestone_token("run_a")
    assert not main._validate_milestone_token("run_a", first)
    assert main._validate_milestone_token("run_a", second)
    main.MILESTONE_TOKENS["run_a"] = (second, time.time() - 1)
    assert not main._validate_milestone_token("run_a", second)
    main.MILESTONE_TOKENS.clear()
    assert len(main.MILESTONE_TOKENS) == 0


def test_memories_are_found_by_their_words_and_their_status(client: TestClient, run_id: str) -> None:
    client.post(f"/runs/{run_id}/milestone", json={"memory_batch_id": propose(client, run_id, mcr())})

    def search(**query: str) -> Any:
        return client.get(f"/runs/{run_id}/memory/search", params=query).json()

    assert (search(q="sky")["count"], search(q="zzz")["count"], search()["count"]) == (1, 0, 1)
    assert (search(q="sky", scope="user")["count"], search(q="sky", status="deprecated")["count"]) == (0, 0)
    assert client.get(f"/runs/{run_id}/memory/search", params={"scope": "nowhere", "q": "sky"}).status_code == 400


def test_batches_and_memories_are_known_to_another_process(client: TestClient, run_id: str) -> None:
    batch_id = propose(client, run_id, mcr())
    look = (
        "from strongroom.compat.aos_context.api import main\n"
        f"print(main.MEMORY.commit({batch_id!r}, run_id={run_id!r}).ok, len(main.MEMORY.search('sky', filters={{}})))"
    )
    environment = {**os.environ, "AOS_RUNS_ROOT": str(main.RUNS_ROOT)}
    done = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"]
    assert client.get(f"/runs/{run_id}/memory/search", params={"q": "sky"}).json()["count"] == 1


# ---- Qdrant ---------------------------------------------------------------------------------------------------------

COMMIT = """
from strongroom.compat.aos_context.api import main
from starlette.testclient import TestClient
from tests.compat.aos_samples import mcr

with TestClient(main.app) as client:
    run = client.post("/runs", json={"objective": "x"}).json()["run_id"]
    batch = client.post(f"/runs/{run}/memory/propose", json={"mcrs": [mcr("cats sleep"), mcr("dogs bark")]}).json()
    print(client.post(f"/runs/{run}/memory/commit", json={"batch_id": batch["batch_id"]}).json()["ok"])
    print(main.MEMORY._index._client.collection_exists("mine"), main.MEMORY._index._client.count("mine").count)
    found = client.get(f"/runs/{run}/memory/search", params={"q": "cat", "top_k": 1}).json()["items"]
    print([item["content"] for item in found])
"""


def test_the_app_uses_the_qdrant_that_two_variables_name(tmp_path: Path) -> None:
    names = {"AOS_RUNS_ROOT": str(tmp_path), "QDRANT_URL": ":memory:", "QDRANT_COLLECTION": "mine"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMIT], env={**os.environ, **names}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["True", "True 3", "['cats sleep']"], done.stderr


def test_the_app_does_not_start_with_a_qdrant_it_cannot_use(tmp_path: Path) -> None:
    names = {"AOS_RUNS_ROOT": str(tmp_path), "QDRANT_URL": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMIT], env={**os.environ, **names}, capture_output=True, text=True
    )
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "Unavailable" in done.stderr and "Qdrant" in done.stderr


def test_the_brief_of_an_update_holds_what_is_remembered_of_its_objective(client: TestClient) -> None:
    run_id = client.post("/runs", json={"objective": "Scrape example.com politely"}).json()["run_id"]
    batch = propose(client, run_id, mcr("example.com: politely, one request a second", confidence=0.95))
    assert client.post(f"/runs/{run_id}/memory/commit", json={"batch_id": batch}).json()["ok"]
    assert "one request a second" in step(client, run_id, 0, status="BUSY").json()["context_brief"]


def test_the_brief_of_a_very_long_objective_is_rendered_too(client: TestClient) -> None:
    run_id = client.post("/runs", json={"objective": "word " * 1000}).json()["run_id"]
    assert step(client, run_id, 0, status="BUSY").status_code == 200


@pytest.mark.parametrize("made_by_server", [True, False])
def test_an_old_run_commits_memories_as_the_server_that_made_it_did(client: TestClient, made_by_server: bool) -> None:
    # One server kept a ledger and asked for a milestone, the other did neither.
    lines = () if made_by_server else (json.dumps(event("old", run_id="run_old")) + "\n",)
    old_folder(main.RUNS_ROOT / "run_old", lines=lines, run_id="run_old")
    batch = propose(client, "run_old", mcr())
    assert client.post("/runs/run_old/memory/commit", json={"batch_id": batch}).json()["ok"] is made_by_server
