"""For operators: checks and backups beside everything else, and which requests are slow."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

import strongroom
from strongroom.backends.sqlite.stray import is_whole
from strongroom.opening import open_store
from strongroom.server import upkeep
from strongroom.server.settings import Settings
from strongroom.server.telemetry import Figures, Metrics
from strongroom.server.upkeep import Known, LastCheck, Size, Upkeep, with_check
from tests.conftest import STORES
from tests.server.conftest import client
from tests.server.serving import Served, served


def done(server: Served, http: httpx.Client, work: str) -> dict[str, Any]:
    """Begin, and return what is known when it is over."""
    assert http.post(f"/upkeep/{work}").json() == {"running": work}
    server.do(server.app.state.upkeep.close())
    told: dict[str, Any] = http.get("/upkeep").json()
    return told


def test_a_check_is_made_and_remembered_across_a_restart(tmp_path: Path) -> None:
    address = str(tmp_path / "agent.db")
    with served(address) as server, client(server.url) as http:
        assert http.get("/upkeep").json()["check"] is None
        http.post("/runs", json={"objective": "x"})
        told = done(server, http, "check")["check"]
        assert told["ok"] is True and told["runs"] == 1 and told["problems"] == []
    with served(address) as server, client(server.url) as http:
        assert http.get("/upkeep").json()["check"] == told


@pytest.mark.parametrize("address", [kind for kind in STORES if kind != "memory"], indirect=True)
def test_a_check_counts_what_each_space_holds(address: str) -> None:
    with served(address) as server, client(server.url) as http:
        http.post("/runs", json={"objective": "x", "run_id": "r"})
        http.post("/sessions/s/messages", json={"messages": [{"role": "user", "content": "x" * 10_000}]})
        http.post("/memories", json={"content": "likes tea"})
        with client(server.url, server.key("tenant", "admin")) as tenant:
            tenant.post("/runs", json={"objective": "x"})
        with client(server.url, server.key()) as admin:
            told = done(server, admin, "check")["check"]
    large, small = told["spaces"]
    assert (large["space"], large["runs"], large["sessions"], large["memories"]) == ("default", 1, 1, 1)
    assert (small["space"], small["runs"], small["sessions"], small["memories"]) == ("tenant", 1, 0, 0)
    assert large["bytes"] > 10_000 > small["bytes"] > 0 and told["more_spaces"] == 0


def test_how_each_space_grew_is_kept_for_as_many_checks_as_a_line_shows(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server, client(server.url) as http:
        for number in range(2):
            http.post("/runs", json={"objective": "x" * 1_000, "run_id": f"r{number}"})
            told = done(server, http, "check")
        first, second = (one["spaces"]["default"] for one in told["sizes"])
        assert second > first > 1_000 and told["check"]["spaces"][0]["bytes"] == second
    known = Known(sizes=tuple(Size(datetime(2026, 1, day, tzinfo=UTC), {}) for day in range(1, 31)))
    after = with_check(known, LastCheck(datetime(2026, 2, 1, tzinfo=UTC), 1.0, ok=True))
    assert [one.at.day for one in after.sizes] == [*range(2, 31), 1]


def test_a_backup_is_a_store_that_opens(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db"), backups=str(tmp_path / "copies")) as server, client(server.url) as http:
        http.post("/runs", json={"objective": "x", "run_id": "r"})
        [backup] = done(server, http, "backup")["backups"]
        assert backup["ok"] is True and backup["bytes"] > 0
    assert is_whole(tmp_path / "copies" / backup["name"])  # checking it has not made a store in use of it
    with served(str(tmp_path / "copies" / backup["name"])) as server, client(server.url) as http:
        assert http.get("/runs/r").status_code == 200
    open_store(str(tmp_path / "copies" / backup["name"])).close()


def test_the_sqlite_that_is_told_is_the_one_that_has_the_file(tmp_path: Path) -> None:
    """Python brings along one of its own, of another version."""
    with served(str(tmp_path / "agent.db")) as server, client(server.url) as http:
        assert http.get("/upkeep").json()["place"]["kind"] == f"SQLite {apsw.sqlite_lib_version()}"


def test_one_thing_at_a_time(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server, client(server.url) as http:
        server.app.state.upkeep.running = "check"
        answer = http.post("/upkeep/backup")
        assert (answer.status_code, answer.json()["code"]) == (409, "busy")


def test_work_that_ends_while_it_is_asked_about_is_never_told_as_neither_running_nor_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(str(tmp_path / "agent.db")) as server, client(server.url) as http:
        known = Upkeep.known

        async def ends_meanwhile(self: Upkeep) -> Known:
            found = await known(self)
            await self.close()
            return found

        monkeypatch.setattr(Upkeep, "known", ends_meanwhile)
        http.post("/upkeep/check")
        told = http.get("/upkeep").json()
        assert told["running"] == "check" or told["check"] is not None


def test_work_that_ends_in_an_error_nobody_thought_of_is_told_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(upkeep, "_check", broken)
    with served(str(tmp_path / "agent.db")) as server, client(server.url) as http:
        told = done(server, http, "check")
        assert (told["running"], told["failed"]["error"]) == (None, "ZeroDivisionError")


def test_what_is_in_memory_is_not_checked() -> None:
    with served() as server, client(server.url) as http:
        assert http.post("/upkeep/check").status_code == 422
        assert http.get("/upkeep").json()["running"] is None


def test_a_store_that_is_no_file_is_not_backed_up_and_says_so(postgres: str) -> None:
    with served(postgres) as server, client(server.url) as http:
        refused = http.post("/upkeep/backup")
        assert refused.status_code == 422 and "its server's own tools" in refused.json()["error"]
        assert http.get("/upkeep").json()["running"] is None


def test_what_could_not_be_made_is_told_without_a_folder_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "copies").write_text("a file where a folder should be")
    with served(str(tmp_path / "agent.db"), backups=str(tmp_path / "copies")) as server, client(server.url) as http:
        http.post("/runs", json={"objective": "x"})
        failed = done(server, http, "backup")["failed"]
        assert (failed["work"], failed["error"]) == ("backup", "FileExistsError")
        (tmp_path / "copies").unlink()
        assert done(server, http, "backup")["failed"] is None


def test_upkeep_and_calls_are_for_the_servers_own_admins() -> None:
    with served() as server, client(server.url, server.key("a-tenant", "admin")) as http:
        statuses = [http.get(path).status_code for path in ("/calls", "/upkeep")]
        statuses += [http.post(path).status_code for path in ("/upkeep/check", "/upkeep/backup")]
        assert statuses == [403] * 4


def test_slow_calls_are_told_by_their_templates(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server, client(server.url) as http:
        for _ in range(3):
            http.get("/runs/nobody")
        calls = {f"{each['method']} {each['route']}": each for each in http.get("/calls").json()["calls"]}
        told = calls["GET /runs/{run_id}"]
        assert told["count"] == 3 and 0 < told["p50"] <= told["p95"] <= told["longest"]


def test_quantiles_are_the_bounds_of_a_histogram() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.002, 0.004, 20.0):
        metrics.count("GET", "/", 200, seconds)
    [(_, _, figures)] = metrics.slowest()
    assert [figures.quantile(share) for share in (0.25, 0.5, 0.75, 1.0)] == [0.001, 0.0025, 0.005, 20.0]
    assert Figures().quantile(0.5) == 0.0


async def test_a_backup_is_kept_though_another_workers_check_takes_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, made = str(tmp_path / "agent.db"), threading.Event()
    settings = Settings(url=address, backups=str(tmp_path / "backups"))
    checked = upkeep._check

    def slow(url: str) -> LastCheck:
        assert made.wait(60)
        return checked(url)

    monkeypatch.setattr(upkeep, "_check", slow)
    async with strongroom.aopen(address) as ctx:
        one, two = Upkeep(ctx.store, settings), Upkeep(ctx.store, settings)
        one.start("check")
        two.start("backup")
        await two.close()
        made.set()
        await one.close()
        known = await one.known()
    assert known.check is not None and len(known.backups) == 1
