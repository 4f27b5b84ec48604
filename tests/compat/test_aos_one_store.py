"""What the old classes, the HTTP API and the command line of AoS make is in one store, and each sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import strongroom
from strongroom.compat.aos_context.api import main
from strongroom.compat.aos_context.ledger import FileLedger
from strongroom.compat.aos_context.ws_manager import WorkingSetManager
from strongroom.compat.importing_aos import import_runs
from tests.compat.aos_samples import INITIAL, USUAL, event, old_folder, patch
from tests.compat.aos_server import TestClient, step


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
