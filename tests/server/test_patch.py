"""A PATCH is about the run as it is now, whoever changed it meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom import retry
from strongroom.services.runs.run import AsyncRun
from tests.server.conftest import client
from tests.server.serving import served


def patch(http: httpx.Client, run: str, seq: int, **fields: Any) -> httpx.Response:
    return http.patch(f"/runs/{run}", json={"patch": fields or {"next_action": str(seq)}, "expected_seq": seq})


def test_what_somebody_else_did_meanwhile_is_seen(tmp_path: Path) -> None:
    with (
        served(str(tmp_path / "agent.db")) as server,
        client(server.url) as http,
        strongroom.open(tmp_path / "agent.db") as ctx,
    ):
        run = http.post("/runs", json={"objective": "x"}).json()["run_id"]
        assert [patch(http, run, seq).status_code for seq in (0, 1, 2)] == [200, 200, 200]
        ctx.runs.get(run).update(expected_seq=3, blockers=["429s"])
        lost = patch(http, run, 3)
        assert lost.status_code == 409 and lost.headers["etag"] == '"4"'
        done = patch(http, run, 4).json()["ws"]
        assert done["_update_seq"] == 5 and done["blockers"] == ["429s"]
        assert ctx.runs.get(run).verify().ok


@pytest.mark.parametrize("body", [{"expected_seq": 0}, {"patch": {}, "append": {"blockers": []}, "expected_seq": 0}])
def test_a_patch_without_a_change_writes_nothing(alone: httpx.Client, body: dict[str, Any]) -> None:
    run = alone.post("/runs", json={"objective": "x"}).json()["run_id"]
    done = alone.patch(f"/runs/{run}", json=body)
    assert (done.status_code, done.headers["etag"], done.json()["ws"]["_update_seq"]) == (200, '"0"', 0)
    assert len(alone.get(f"/runs/{run}/events").json()["events"]) == 1
    assert patch(alone, run, 0).json()["ws"]["_update_seq"] == 1


def test_a_step_that_sets_nothing_counts_as_it_always_did(alone: httpx.Client) -> None:
    run = alone.post("/runs", json={"objective": "x"}).json()["run_id"]
    step = {"_schema_version": "2.1", "expected_seq": 0, "set": {}}
    assert alone.post(f"/runs/{run}/step/update", json={"patch": step}).json()["ws"]["_update_seq"] == 1


def test_a_run_that_was_erased_meanwhile_is_not_brought_back(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server, client(server.url) as http:
        run = http.post("/runs", json={"objective": "secret"}).json()["run_id"]
        assert patch(http, run, 0).status_code == 200
        http.post(f"/runs/{run}/erase", json={"reason": "asked to"})
        patch(http, run, 1)
        assert "secret" not in http.get(f"/runs/{run}").text


def test_a_refusal_is_recorded_under_the_name_of_whoever_was_refused(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server:
        with client(server.url, server.key()) as one, client(server.url, other := server.key()) as two:
            run = one.post("/runs", json={"objective": "x"}).json()["run_id"]
            patch(one, run, 0)
            assert patch(two, run, 0).status_code == 409
            events = one.get(f"/runs/{run}/events").json()["events"]
        assert (events[-1]["type"], events[-1]["actor"]) == (
            "WS_UPDATE_REJECTED",
            other.removeprefix("srk_").split(".")[0],
        )


@pytest.mark.parametrize("tag", ['"' + "9" * 5000 + '"', '"9007199254740993"', "*", '"-1"', 'W/"x"'])
def test_an_if_match_that_is_no_tag_of_a_run_is_refused(alone: httpx.Client, tag: str) -> None:
    run = alone.post("/runs", json={"objective": "x"}).json()["run_id"]
    refused = alone.patch(f"/runs/{run}", json={"patch": {"status": "BUSY"}}, headers={"If-Match": tag})
    assert refused.status_code == 422 and "nothing changed" in refused.json()["error"]
    assert alone.get(f"/runs/{run}").json()["_update_seq"] == 0


def test_who_gave_up_is_told_no_tag(alone: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def give_up(self: AsyncRun, **given: Any) -> None:
        for _ in retry.attempts(f"run {self.id!r}"):
            pass

    monkeypatch.setattr(retry, "SECONDS", 0)
    monkeypatch.setattr(AsyncRun, "update", give_up)
    run = alone.post("/runs", json={"objective": "x"}).json()["run_id"]
    lost = patch(alone, run, 0)
    assert lost.status_code == 409 and "etag" not in lost.headers
