"""Several processes, several clients, one run: every acknowledged change is there, once, in one order."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx

import strongroom
from tests.server.conftest import client
from tests.server.serving import PATIENCE_SECONDS, process
from tests.server.test_changes import tab

SECONDS = float(os.environ.get("STRONGROOM_SECONDS", "2"))
CLIENTS = 4


def test_two_workers_and_four_clients_patch_one_run(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    trouble: list[str] = []
    with process(tmp_path / "agent.db", workers=2) as server:
        with client(server.url) as http:
            run = http.post("/runs", json={"objective": "x"}).json()["run_id"]

        def work(number: int) -> None:
            end = time.monotonic() + SECONDS
            with client(server.url) as http:
                while time.monotonic() < end:
                    seq = http.get(f"/runs/{run}").json()["_update_seq"]
                    patch = {"patch": {"next_action": f"{number} after {seq}"}, "expected_seq": seq}
                    answer = http.patch(f"/runs/{run}", json=patch)
                    if answer.status_code == 200:
                        acknowledged.append(answer.json()["ws"]["_update_seq"])
                    elif answer.status_code != 409:
                        trouble.append(answer.text)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with client(server.url) as http:
            final = http.get(f"/runs/{run}").json()["_update_seq"]
            verified = http.get(f"/runs/{run}/verify").json()
    assert trouble == []
    assert sorted(acknowledged) == list(range(1, len(acknowledged) + 1))
    assert final == len(acknowledged) > 0
    assert verified["ok"] is True


def test_news_of_one_worker_reach_whoever_follows_another(tmp_path: Path) -> None:
    with process(tmp_path / "agent.db", workers=2) as server, ExitStack() as opened:
        one, other = one_of_each_worker(server.url)
        for each in (one, other):
            opened.callback(each.close)
        with tab(one) as seen:
            assert seen.next() == {"topic": "start"}
            for number in range(3):
                assert other.post("/runs", json={"objective": "x", "run_id": f"r{number}"}).status_code == 200
                assert seen.until(topic="runs")["id"] == f"r{number}"


def one_of_each_worker(url: str) -> list[httpx.Client]:
    """Clients whose connections are kept by different workers: each tells when it started."""
    found: dict[str, httpx.Client] = {}

    def ask(http: httpx.Client) -> str:
        return str(http.get("/keys").json()["since"])

    end = time.monotonic() + PATIENCE_SECONDS
    while len(found) < 2 and time.monotonic() < end:
        clients = [client(url) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            for http, since in zip(clients, pool.map(ask, clients), strict=True):
                if found.setdefault(since, http) is not http:
                    http.close()
    assert len(found) == 2, "only one worker answers"
    return list(found.values())


def test_what_was_acknowledged_before_a_stop_is_there_after_it(tmp_path: Path) -> None:
    """Clients write without pause while the server is told to stop; it finishes what it has begun."""
    done: list[int] = []
    with process(tmp_path / "agent.db") as server:

        def work() -> None:
            with client(server.url) as http:
                try:
                    while True:
                        answer = http.post("/threads/t/slots", json={"payload": len(done), "from_id": "a"})
                        if answer.status_code == 200:
                            done.append(answer.json()["index"])
                except Exception:
                    return  # the server is gone

        threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while len(done) < 50 and any(thread.is_alive() for thread in threads):
            time.sleep(0.01)
        assert len(done) >= 50
        assert server.stop() in (0, -15)
        for thread in threads:
            thread.join()
    with strongroom.open(tmp_path / "agent.db") as ctx:
        kept = [slot.index for slot in ctx.threads.get("t")]
    assert set(done) <= set(kept) and len(set(done)) == len(done)
    assert kept == list(range(len(kept)))
