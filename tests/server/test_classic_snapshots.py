"""What the body of a classic snapshot says is done, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest

from tests.server.conftest import client
from tests.server.serving import served


@pytest.fixture
def http(tmp_path: Path) -> Iterator[httpx.Client]:
    with served(str(tmp_path / "agent.db"), snapshots=str(tmp_path / "s")) as server, client(server.url) as made:
        yield made


def test_a_classic_snapshot_has_the_pointers_that_were_sent_in_its_manifest(http: httpx.Client, tmp_path: Path) -> None:
    run = http.post("/runs/boot", json={"objective": "Write a letter"}).json()["run_id"]
    kept = http.post(f"/runs/{run}/resume/snapshot", json={"pointers": {"ticket": {"id": "T-1"}}}).json()
    [pack] = tmp_path.rglob(kept["pack_zip"])
    with ZipFile(pack) as read:
        assert json.loads(read.read("manifest.json"))["pointers"] == {"artifacts": [], "ticket": {"id": "T-1"}}
    assert http.post("/runs/resume/load", json={"pack_path": kept["pack_zip"], "new_run_id": "again"}).json()["ok"]


@pytest.mark.parametrize(
    ("body", "path"), [({"zip_pack": False}, "zip_pack"), ({"pointers": {"artifacts": []}}, "pointers")]
)
def test_what_a_classic_snapshot_cannot_do_is_refused_and_not_ignored(
    http: httpx.Client, tmp_path: Path, body: dict[str, Any], path: str
) -> None:
    run = http.post("/runs/boot", json={"objective": "Write a letter"}).json()["run_id"]
    answer = http.post(f"/runs/{run}/resume/snapshot", json=body)
    assert (answer.status_code, answer.json()["details"]) == (422, {"path": path})
    assert not [*tmp_path.rglob("*.zip")]
