"""The HTTP API under its old paths."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.blocking.runs import Runs
from strongroom.compat.aos_context.api import main
from strongroom.compat.aos_context.ledger import FileLedger
from strongroom.compat.aos_context.ws_manager import WorkingSetManager
from strongroom.compat.importing_aos import import_runs
from strongroom.errors import Unavailable
from tests.compat.aos_samples import INITIAL, USUAL, event, lines_of, mcr, old_folder, old_pack_folder, patch, sliding

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # which HTTP client the test client should prefer is not our business
    from starlette.testclient import TestClient


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(main, "RUNS_ROOT", tmp_path / "runs")
    monkeypatch.delenv("AOS_TEST_MODE", raising=False)
    with TestClient(main.app) as client:
        yield client


@pytest.fixture
def run_id(client: TestClient) -> str:
    booted = client.post("/runs/boot", json={"objective": "Research AI", "constraints": ["Be kind"]})
    assert booted.status_code == 200
    found: str = booted.json()["run_id"]
    return found


def step(client: TestClient, run_id: str, expected_seq: int, **fields: Any) -> Any:
    return client.post(f"/runs/{run_id}/step/update", json={"patch": patch(expected_seq, **fields)})


def propose(client: TestClient, run_id: str, *mcrs: dict[str, Any]) -> str:
    answer = client.post(f"/runs/{run_id}/memory/propose", json={"mcrs": list(mcrs), "scope_filters": {}}).json()
    assert answer["ok"], answer
    found: str = answer["batch_id"]
    return found


def events(run_id: str) -> list[str]:
    return [line["event_type"] for line in lines_of(main.RUNS_ROOT / run_id / "ledger" / "run.v2.1.jsonl")]


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_health_says_the_version(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": "2.1.0", "service": "aos-context-server"}


def test_the_root_leads_to_the_documentation(client: TestClient) -> None:
    answer = client.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/docs")


def test_a_booted_run_is_at_zero_and_has_its_files(client: TestClient, run_id: str) -> None:
    ws = client.get(f"/runs/{run_id}/ws").json()
    assert (ws["_update_seq"], ws["status"], ws["constraints"]) == (0, "BOOT", ["Be kind"])
    assert json.loads((main.RUNS_ROOT / run_id / USUAL).read_text()) == ws


def test_an_unknown_run_is_not_found_and_creates_nothing(client: TestClient, tmp_path: Path) -> None:
    for answer in (
        client.get("/runs/nobody/ws"),
        step(client, "nobody", 0),
        client.post("/runs/nobody/milestone", json={}),
        client.get("/runs/nobody/memory/search"),
        client.post("/runs/nobody/resume/snapshot", json={}),
    ):
        assert (answer.status_code, answer.json()["ok"]) == (404, False)
        assert answer.json()["detail"] == answer.json()["error"]
    assert list(tmp_path.iterdir()) == []


def test_the_right_sequence_number_updates(client: TestClient, run_id: str) -> None:
    answer = step(client, run_id, 0, status="BUSY").json()
    assert (answer["ws"]["_update_seq"], answer["ws"]["status"]) == (1, "BUSY")
    assert "Research AI" in answer["context_brief"]


def test_a_stale_sequence_number_conflicts_in_both_promised_shapes(client: TestClient, run_id: str) -> None:
    step(client, run_id, 0, status="BUSY")
    answer = step(client, run_id, 0, status="IDLE")
    assert answer.status_code == 409
    assert answer.json() == {
        "ok": False,
        "error": "Conflict: State has changed. Reload and retry.",
        "detail": "LOCK_ERROR expected_seq=0 current_seq=1",
    }


@pytest.mark.parametrize("fields", [{"colour": "red"}, {"objective": "x"}, {"next_action": "x" * 20_000}])
def test_other_refusals_are_bad_requests(client: TestClient, run_id: str, fields: dict[str, Any]) -> None:
    answer = step(client, run_id, 0, **fields)
    assert answer.status_code == 400
    assert answer.json()["ok"] is False and answer.json()["error"] == answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"objective": ""}, 400), ({"objective": "x" * 20_000}, 400), ({}, 422), ({"objective": 7}, 422)],
)
def test_a_bad_boot_is_the_callers_fault(client: TestClient, body: dict[str, Any], status: int) -> None:
    answer = client.post("/runs/boot", json=body)
    assert (answer.status_code, answer.json()["ok"], bool(answer.json()["error"])) == (status, False, True)


def test_a_run_whose_files_were_removed_is_still_served(client: TestClient, run_id: str) -> None:
    shutil.rmtree(main.RUNS_ROOT / run_id)
    assert client.get(f"/runs/{run_id}/ws").status_code == 200


def test_a_root_that_was_removed_holds_no_runs(client: TestClient, run_id: str) -> None:
    shutil.rmtree(main.RUNS_ROOT)
    assert client.get(f"/runs/{run_id}/ws").status_code == 404


def test_a_store_that_fails_is_the_servers_fault(
    client: TestClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise Unavailable("the disk does not answer", reason="io")

    monkeypatch.setattr(Runs, "get", gone)
    answer = client.get(f"/runs/{run_id}/ws")
    assert (answer.status_code, answer.json()["ok"]) == (503, False)


def test_what_nobody_foresaw_is_told_without_its_insides(
    run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(Runs, "get", broken)
    answer = TestClient(main.app, raise_server_exceptions=False).get(f"/runs/{run_id}/ws")
    assert (answer.status_code, answer.json()["ok"], "secret" in answer.text) == (500, False, False)


def test_one_process_with_many_threads_acknowledges_each_number_once(client: TestClient, run_id: str) -> None:
    def write(name: int) -> list[int]:
        seqs = []
        for number in range(10):
            seq = client.get(f"/runs/{run_id}/ws").json()["_update_seq"]
            answer = step(client, run_id, seq, next_action=f"{name}:{number}" * (number + 1))
            if answer.status_code == 200:
                seqs.append(answer.json()["ws"]["_update_seq"])
        return seqs

    with ThreadPoolExecutor(4) as pool:
        acknowledged = [seq for seqs in pool.map(write, range(4)) for seq in seqs]
    assert sorted(acknowledged) == list(range(1, len(acknowledged) + 1))
    ws = client.get(f"/runs/{run_id}/ws").json()
    assert ws["_update_seq"] == len(acknowledged)
    assert json.loads((main.RUNS_ROOT / run_id / USUAL).read_text()) == ws


def test_a_folder_of_the_old_system_is_taken_in(client: TestClient) -> None:
    old_folder(main.RUNS_ROOT / "run_old", seq=41, lines=(json.dumps(event("old")) + "\n",), run_id="run_old")
    assert client.get("/runs/run_old/ws").json()["_update_seq"] == 41
    assert step(client, "run_old", 41, status="BUSY").status_code == 200


def test_a_manager_of_a_served_run_sees_the_same_run(client: TestClient, run_id: str) -> None:
    manager = WorkingSetManager(main.RUNS_ROOT / run_id / USUAL)
    assert manager.apply_patch(patch(0, status="BUSY")).ok
    assert client.get(f"/runs/{run_id}/ws").json() == manager.load()
    assert not (main.RUNS_ROOT / run_id / "state" / "strongroom.db").exists()


def test_the_ledger_file_of_a_served_run_is_the_runs_own_ledger(client: TestClient, run_id: str) -> None:
    result = FileLedger(main.RUNS_ROOT / run_id / "ledger" / "run.v2.1.jsonl").append(event(run_id=run_id))
    assert result.sequence_id == 2
    step(client, run_id, 0, status="BUSY")
    assert events(run_id) == ["RUN_START", "TOOL_CALL", "WS_UPDATE_APPLIED"]
    assert not main._ledger(run_id).append(event(run_id="another")).ok


# ---- the audit trail ------------------------------------------------------------------------------------------------


def test_everything_that_happens_is_in_the_ledger_and_no_key_is(client: TestClient, run_id: str) -> None:
    step(client, run_id, 0, sliding_context=[sliding("a")])
    step(client, run_id, 0, status="BUSY")
    step(client, run_id, 1, colour="red")
    propose(client, run_id, mcr("one"))
    client.post(f"/runs/{run_id}/milestone", json={"memory_batch_id": propose(client, run_id, mcr("two"))})
    client.post(f"/runs/{run_id}/resume/snapshot", json={})
    assert events(run_id) == [
        "RUN_START",
        "WS_UPDATE_APPLIED",
        "WS_UPDATE_REJECTED",
        "WS_UPDATE_REJECTED",
        "MEMORY_PROPOSED",
        "MEMORY_PROPOSED",
        "MEMORY_COMMITTED",
        "MILESTONE",
        "SNAPSHOT",
    ]
    assert "api_key" not in (main.RUNS_ROOT / run_id / "ledger" / "run.v2.1.jsonl").read_text()


def test_a_loaded_run_says_where_it_came_from(client: TestClient, run_id: str) -> None:
    made = client.post(f"/runs/{run_id}/resume/snapshot", json={}).json()
    client.post("/runs/resume/load", json={"pack_path": made["pack_zip"], "new_run_id": "copy"})
    assert events("copy") == ["RUN_START", "RESTORED"]


# ---- memory and milestones ------------------------------------------------------------------------------------------


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


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_snapshot_says_where_it_is(client: TestClient, run_id: str) -> None:
    made = client.post(f"/runs/{run_id}/resume/snapshot", json={"pointers": {"note": 1}}).json()
    assert made["ok"] and made["pack_id"].startswith("pack_")
    assert all(Path(made[name]).exists() for name in ("pack_dir", "pack_zip", "manifest_path"))


def test_a_snapshot_is_loaded_under_a_new_id(client: TestClient, run_id: str) -> None:
    made = client.post(f"/runs/{run_id}/resume/snapshot", json={}).json()
    loaded = client.post("/runs/resume/load", json={"pack_path": made["pack_zip"], "new_run_id": "copy"}).json()
    assert (loaded["ok"], loaded["run_id"], loaded["ws"]["run_id"]) == (True, "copy", "copy")
    assert step(client, "copy", 0, status="BUSY").status_code == 200
    assert client.get(f"/runs/{run_id}/ws").json()["_update_seq"] == 0


@pytest.mark.parametrize("task_id", ["task_123", "123"])
def test_the_pack_of_a_snapshot_is_called_as_documented(client: TestClient, task_id: str) -> None:
    run_id = client.post("/runs", json={"objective": "Research AI", "task_id": task_id}).json()["run_id"]
    answer = client.post(f"/runs/{run_id}/snapshot").json()
    assert answer["ok"] and re.fullmatch(r"task_123_resume_\d{8}_\d{6}_[0-9a-f]+\.zip", Path(answer["pack_path"]).name)
    assert Path(answer["pack_path"]).is_file()


def test_without_an_id_a_snapshot_becomes_a_new_run(client: TestClient, run_id: str) -> None:
    made = client.post(f"/runs/{run_id}/resume/snapshot", json={}).json()
    step(client, run_id, 0, status="BUSY")
    loaded = client.post("/runs/resume/load", json={"pack_path": made["pack_zip"]}).json()
    assert loaded["ok"] and loaded["run_id"] != run_id and re.fullmatch("run_[0-9a-f]{32}", loaded["run_id"])
    assert client.get(f"/runs/{loaded['run_id']}/ws").json() == loaded["ws"]
    assert (loaded["ws"]["status"], client.get(f"/runs/{run_id}/ws").json()["status"]) == ("BOOT", "BUSY")


def test_a_run_that_is_there_is_not_loaded_over(client: TestClient, run_id: str) -> None:
    made = client.post(f"/runs/{run_id}/resume/snapshot", json={}).json()
    step(client, run_id, 0, status="BUSY")
    answer = client.post("/runs/resume/load", json={"pack_path": made["pack_zip"], "new_run_id": run_id})
    assert (answer.status_code, answer.json()["ok"]) == (409, False)
    assert client.get(f"/runs/{run_id}/ws").json()["_update_seq"] == 1


@pytest.mark.parametrize("new_run_id", ["../../x", "/tmp/x", "..", ".hidden", "a/b", "a\\b", ""])
def test_a_run_id_cannot_lead_out_of_the_root(client: TestClient, run_id: str, tmp_path: Path, new_run_id: str) -> None:
    made = client.post(f"/runs/{run_id}/resume/snapshot", json={}).json()
    before = sorted(path for path in tmp_path.rglob("*") if "strongroom.db" not in path.name)
    body = {"pack_path": made["pack_zip"], "new_run_id": new_run_id}
    assert client.post("/runs/resume/load", json=body).status_code in (400, 409)
    assert sorted(path for path in tmp_path.rglob("*") if "strongroom.db" not in path.name) == before


def test_a_pack_outside_the_root_is_not_read(client: TestClient, run_id: str, tmp_path: Path) -> None:
    made = client.post(f"/runs/{run_id}/resume/snapshot", json={}).json()
    shutil.copy(made["pack_zip"], tmp_path / "outside.zip")
    for path in (str(tmp_path / "outside.zip"), str(main.RUNS_ROOT / ".." / "outside.zip")):
        answer = client.post("/runs/resume/load", json={"pack_path": path, "new_run_id": "copy"})
        assert answer.status_code == 400


def test_a_missing_pack_is_not_found(client: TestClient, run_id: str) -> None:
    answer = client.post("/runs/resume/load", json={"pack_path": str(main.RUNS_ROOT / "none.zip")})
    assert answer.status_code == 404


def test_a_damaged_pack_is_refused_and_leaves_nothing(client: TestClient, run_id: str) -> None:
    bad = main.RUNS_ROOT / "bad.zip"
    bad.write_bytes(b"not a zip")
    answer = client.post("/runs/resume/load", json={"pack_path": str(bad), "new_run_id": "copy"})
    assert (answer.status_code, answer.json()["ok"]) == (400, False)
    assert not (main.RUNS_ROOT / "copy").exists()


# ---- importing ------------------------------------------------------------------------------------------------------


def test_importing_everything_creates_no_folder_and_the_root_is_what_the_environment_says(tmp_path: Path) -> None:
    names = ["ws_manager", "ledger", "episode", "memory", "memory_qdrant", "resume_pack", "context_brief"]
    names += ["token_estimator", "validation", "config", "llm_adapter", "cli", "api.main"]
    look = "".join(f"import strongroom.compat.aos_context.{name}\n" for name in names)
    look += "print(strongroom.compat.aos_context.api.main.RUNS_ROOT)"
    environment = {**os.environ, "AOS_RUNS_ROOT": str(tmp_path / "elsewhere")}
    done = subprocess.run(
        [sys.executable, "-c", look], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / "elsewhere")
    assert list(tmp_path.iterdir()) == []


# ---- the documented server ------------------------------------------------------------------------------------------


@pytest.fixture
def documented(client: TestClient) -> str:
    body = {
        "objective": "Research the history of AI",
        "acceptance_criteria": ["Findings documented", "Sources cited"],
        "constraints": ["Use reliable sources"],
    }
    answer = client.post("/runs", json=body)
    assert (answer.status_code, answer.json()["status"]) == (200, "BOOT")
    found: str = answer.json()["run_id"]
    return found


def test_the_documented_state_is_the_working_set(client: TestClient, documented: str) -> None:
    ws = client.get(f"/runs/{documented}").json()
    assert (ws["_update_seq"], ws["status"], ws["objective"]) == (0, "BOOT", "Research the history of AI")
    assert ws == client.get(f"/runs/{documented}/ws").json()
    assert client.get("/runs/nobody").status_code == 404


def test_the_documented_update_locks_optimistically(client: TestClient, documented: str) -> None:
    body = {
        "patch": {"status": "BUSY", "next_action": "Start research", "current_stage": "RESEARCH"},
        "expected_seq": 0,
    }
    answer = client.patch(f"/runs/{documented}", json=body).json()
    assert (answer["ok"], answer["ws"]["_update_seq"], answer["ws"]["status"]) == (True, 1, "BUSY")
    stale = client.patch(f"/runs/{documented}", json=body)
    told = "Conflict: State has changed. Reload and retry."
    assert (stale.status_code, stale.json()) == (409, {"ok": False, "error": told, "detail": told})


def test_other_refusals_of_the_documented_update_are_told_in_its_answer(client: TestClient, documented: str) -> None:
    answer = client.patch(f"/runs/{documented}", json={"patch": {"colour": "red"}, "expected_seq": 0})
    assert (answer.status_code, answer.json()["ok"], answer.json()["ws"]) == (200, False, None)
    assert "colour" in answer.json()["error"]


def test_an_expectation_that_is_no_sequence_number_is_told_in_the_answer_too(
    client: TestClient, documented: str
) -> None:
    answer = client.patch(f"/runs/{documented}", json={"patch": {"status": "BUSY"}, "expected_seq": -1})
    assert (answer.status_code, answer.json()["ok"]) == (200, False)
    assert answer.json()["error"].startswith("patch schema: ")


def test_memories_of_a_documented_run_are_committed_freely(client: TestClient, documented: str) -> None:
    batch_id = propose(client, documented, mcr("AI was first proposed in 1956"))
    answer = client.post(f"/runs/{documented}/memory/commit", json={"batch_id": batch_id}).json()
    assert (answer["ok"], len(answer["committed_ids"])) == (True, 1)
    assert client.get(f"/runs/{documented}/memory/search", params={"q": "proposed"}).json()["count"] == 1


def test_a_documented_snapshot_is_a_pack_under_the_root(client: TestClient, documented: str) -> None:
    answer = client.post(f"/runs/{documented}/snapshot").json()
    assert answer["ok"] and Path(answer["pack_path"]).is_file()
    assert Path(answer["pack_path"]).parent == main.RUNS_ROOT / "snapshots"


def test_a_documented_run_may_name_its_ids_but_not_leave_the_root(client: TestClient) -> None:
    named = {"objective": "x", "run_id": "mine", "task_id": "task_123", "thread_id": "thread_4"}
    assert client.post("/runs", json=named).json() == {"run_id": "mine", "status": "BOOT"}
    assert client.get("/runs/mine").json()["task_id"] == "task_123"
    assert Path(client.post("/runs/mine/snapshot").json()["pack_path"]).name.startswith("task_123_resume_")
    assert client.post("/runs", json=named).status_code == 409
    assert client.post("/runs", json={"objective": "x", "run_id": "../../x"}).status_code == 400


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_the_documentation_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200


# ---- one store for all ----------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "not" / "there"
    monkeypatch.setenv("AOS_RUNS_ROOT", str(folder))
    monkeypatch.delenv("STRONGROOM_URL", raising=False)
    monkeypatch.setattr(main, "RUNS_ROOT", folder)
    return folder


def test_what_a_class_made_the_server_and_the_command_line_see(root: Path) -> None:
    manager = WorkingSetManager(root / "my_task" / USUAL)
    manager.create_initial(**INITIAL)
    manager.apply_patch(patch(0, status="BUSY"))
    with TestClient(main.app) as client:
        assert client.get(f"/runs/{INITIAL['run_id']}").json() == manager.load()
    with strongroom.open(root / "strongroom.db") as ctx:
        assert ctx.runs.get(INITIAL["run_id"]).seq == 1
    assert [path.name for path in root.rglob("strongroom.db")] == ["strongroom.db"]
    listed = subprocess.run(
        [sys.executable, "-m", "strongroom", "runs", "list"], env={**os.environ}, capture_output=True, text=True
    )
    assert INITIAL["run_id"] in listed.stdout, listed.stderr


def test_what_the_server_made_a_class_sees_and_changes(root: Path) -> None:
    with TestClient(main.app) as client:
        run_id = client.post("/runs", json={"objective": "x"}).json()["run_id"]
        manager = WorkingSetManager(root / run_id / USUAL)
        assert manager.apply_patch(patch(0, status="BUSY")).ok
        assert FileLedger(root / run_id / "ledger" / "run.v2.1.jsonl").append(event(run_id=run_id)).ok
        assert client.get(f"/runs/{run_id}").json()["status"] == "BUSY"


OLD_LINE = json.dumps(event("old", sequence_id=1, run_id="run_old")) + "\n"


@pytest.mark.parametrize("first", ["class", "app"])
def test_whoever_comes_first_takes_a_whole_run_folder_in(root: Path, first: str) -> None:
    folder = old_folder(root / "run_old", lines=(OLD_LINE,), run_id="run_old")
    manager = WorkingSetManager(folder / USUAL)
    with TestClient(main.app) as client:
        if first == "class":
            assert manager.apply_patch(patch(41, status="BUSY")).ok
        else:
            assert step(client, "run_old", 41, status="BUSY").status_code == 200
        assert client.get("/runs/run_old").json() == manager.load()
    assert manager.load()["_update_seq"] == 42
    with strongroom.open(root / "strongroom.db") as ctx:
        told = [each.type for each in ctx.runs.get("run_old").events()]
    assert told == ["TOOL_CALL", "RESTORED", "WS_UPDATE_APPLIED"]
    assert [path.name for path in root.rglob("*.db")] == ["strongroom.db"]


@pytest.mark.parametrize("first", ["class", "app", "command"])
def test_a_run_that_had_a_store_of_its_own_comes_into_that_of_the_root(
    root: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    with monkeypatch.context() as without:
        without.delenv("AOS_RUNS_ROOT")
        manager = WorkingSetManager(root / "my_task" / USUAL)
        manager.create_initial(**INITIAL)
        manager.apply_patch(patch(0, status="BUSY"))
        assert FileLedger(root / "my_task" / "ledger" / "run.v2.1.jsonl").append(event()).ok
    assert (root / "my_task" / "state" / "strongroom.db").exists()
    with TestClient(main.app) as client:
        if first == "class":
            assert manager.apply_patch(patch(1, status="DONE")).ok
        elif first == "app":
            assert step(client, "my_task", 1, status="DONE").status_code == 200
        else:
            assert import_runs(root, root / "strongroom.db").ok
            assert step(client, INITIAL["run_id"], 1, status="DONE").status_code == 200
        told = [client.get(f"/runs/{name}").json() for name in ("my_task", INITIAL["run_id"])]
    assert told == [manager.load()] * 2 and manager.load()["status"] == "DONE"
    with strongroom.open(root / "strongroom.db") as ctx:
        run = ctx.runs.get(INITIAL["run_id"])
        assert (run.at(1).status, run.verify().ok) == ("BUSY", True)
        assert "TOOL_CALL" in [each.type for each in run.events()]


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


def test_a_pack_of_the_old_system_loads_over_http(client: TestClient) -> None:
    pack = old_pack_folder(main.RUNS_ROOT / "pack_ab")
    archive = shutil.make_archive(str(main.RUNS_ROOT / "made"), "zip", root_dir=pack)
    loaded = client.post("/runs/resume/load", json={"pack_path": archive, "new_run_id": "run_2"})
    assert loaded.status_code == 200 and loaded.json()["ws"]["_update_seq"] == 7
    assert (main.RUNS_ROOT / "run_2" / "episodes" / "ep_0a.v2.1.json").is_file()
