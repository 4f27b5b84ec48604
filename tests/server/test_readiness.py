"""Ready means that a request would be answered; and one bad document is one bad document."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.codec import encode
from strongroom.services.runs.state import KIND
from strongroom.store import Commit, Key, Put, new_id
from tests.server.conftest import client
from tests.server.serving import served


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_suffix(".other")
    strongroom.open(other).close()
    other.rename(path)


@pytest.mark.parametrize("harm", [delete, replace])
def test_a_server_whose_file_was_taken_away_is_not_ready(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = tmp_path / "a.db"
    with served(str(path)) as started, client(started.url) as http:
        assert http.get("/ready").status_code == 200
        harm(path)
        answer = http.get("/ready")
        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert str(tmp_path) not in answer.text


BAD = {
    KIND: ("/runs", "runs", {"status": "IDLE"}),
    "session": ("/sessions", "sessions", {}),
    "thread_info": ("/threads", "threads", {"state": "live"}),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_document_does_not_hide_the_others(alone: httpx.Client, kind: str) -> None:
    path, name, tags = BAD[kind]
    with strongroom.connect(str(alone.base_url)) as ctx:

        def fill(number: int) -> None:
            ctx.runs.create(objective="x", run_id=f"good{number}")
            ctx.sessions.open(f"good{number}")
            ctx.threads.append(f"good{number}", 1, from_id="a")

        fill(1)
        ctx.store.commit(Commit(new_id(), (), (Put(Key("default", kind, "bad"), encode({"not": "one"}), tags),)))
        fill(2)
        services: dict[str, Any] = {"/runs": ctx.runs, "/sessions": ctx.sessions, "/threads": ctx.threads}
        assert services[path].list().damaged == ("bad",)
    page = alone.get(path).json()
    assert page["damaged"] == ["bad"] and len(page[name]) == 2
    first = alone.get(path, params={"limit": 1}).json()
    assert [len(first[name]), first["damaged"]] == [1, []]
    second = alone.get(path, params={"limit": 1, "after": first["next"]}).json()
    assert [second[name], second["damaged"]] == [[], ["bad"]]


def test_a_row_that_is_damaged_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with strongroom.open(path) as ctx:
        for number in range(4):
            ctx.runs.create(objective="x", run_id=f"r{number}")
    with closing(sqlite3.connect(path)) as raw, raw:
        harm = "UPDATE head SET value = CAST(replace(value, 'objective', 'objectivf') AS BLOB) WHERE id = 'r1'"
        assert raw.execute(f"{harm} AND kind = ?", (KIND,)).rowcount == 1
    with strongroom.open(path) as ctx:
        found = ctx.runs.list()
        assert ([run.id for run in found], found.damaged, found.next) == (["r0", "r2", "r3"], ("r1",), None)
        page = ctx.runs.list(limit=2)
        assert ([run.id for run in page], page.damaged) == (["r0"], ("r1",))
        assert [run.id for run in ctx.runs.list(after=page.next)] == ["r2", "r3"]
    with served(str(path)) as started, client(started.url) as http, strongroom.connect(started.url) as remote:
        assert http.get("/runs").json()["damaged"] == ["r1"]
        assert remote.runs.list().damaged == ("r1",)


@pytest.mark.parametrize("space", ["x" * 127, "x" * 128, "é" * 128])
def test_a_space_with_a_long_name_keeps_snapshots_too(space: str, admin: httpx.Client) -> None:
    key = admin.post("/keys", json={"space": space, "role": "writer"}).json()["key"]
    mine = {"Authorization": f"Bearer {key}"}
    run = admin.post("/runs", json={"objective": "x"}, headers=mine).json()["run_id"]
    kept = admin.post(f"/runs/{run}/snapshot", headers=mine).json()["pack_path"]
    loaded = admin.post("/runs/resume/load", json={"pack_path": kept, "new_run_id": "again"}, headers=mine)
    assert (loaded.status_code, loaded.json()["run_id"]) == (200, "again")


def test_a_snapshot_names_no_folder(alone: httpx.Client, tmp_path: Path) -> None:
    run = alone.post("/runs", json={"objective": "x"}).json()["run_id"]
    answers = [alone.post(f"/runs/{run}/snapshot"), alone.post(f"/runs/{run}/resume/snapshot", json={})]
    assert all(answer.status_code == 200 and str(tmp_path) not in answer.text for answer in answers)
    loaded = alone.post("/runs/resume/load", json={"pack_path": answers[0].json()["pack_path"], "new_run_id": "again"})
    assert loaded.json()["run_id"] == "again"
