"""The HTTP API under its old paths."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from strongroom.blocking.runs import Runs
from strongroom.compat.aos_context.api import main
from strongroom.compat.aos_context.ledger import FileLedger
from strongroom.compat.aos_context.ws_manager import WorkingSetManager
from strongroom.errors import Unavailable
from tests.compat.aos_samples import USUAL, event, mcr, old_folder, old_pack_folder, patch, sliding
from tests.compat.aos_server import TestClient, events, propose, step

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


def test_a_pack_of_the_old_system_loads_over_http(client: TestClient) -> None:
    pack = old_pack_folder(main.RUNS_ROOT / "pack_ab")
    archive = shutil.make_archive(str(main.RUNS_ROOT / "made"), "zip", root_dir=pack)
    loaded = client.post("/runs/resume/load", json={"pack_path": archive, "new_run_id": "run_2"})
    assert loaded.status_code == 200 and loaded.json()["ws"]["_update_seq"] == 7
    assert (main.RUNS_ROOT / "run_2" / "episodes" / "ep_0a.v2.1.json").is_file()
