"""What a GET does to the store: nothing. And what no answer shows: where on its disk the server keeps things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from tests.server.conftest import client
from tests.server.samples import MCR, request
from tests.server.serving import Served, served

READS = [endpoint for endpoint in ENDPOINTS if endpoint.method == "GET"]


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def full(folder: Path) -> Iterator[Served]:
    with served(str(folder / "agent.db"), snapshots=str(folder / "snapshots")) as started:
        yield started


@pytest.fixture(scope="module")
def ids(full: Served) -> dict[str, str]:
    """Fill a space with some of everything; return what there is to ask for."""
    key = full.key("default", "admin")
    with client(full.url, key) as http:
        run = http.post("/runs", json={"objective": "Look around"}).json()["run_id"]
        batch = http.post(f"/runs/{run}/memory/propose", json={"mcrs": [MCR]}).json()["batch_id"]
        memory = http.post(f"/runs/{run}/memory/commit", json={"batch_id": batch}).json()["committed_ids"][0]
        http.post(f"/runs/{run}/milestone", json={"reason": "r"})
        said = {"messages": [{"role": "user", "content": "anything"}]}
        http.post("/sessions/talk/messages", json=said)
        http.put("/files", json={"path": "/notes/nothing.md", "text": "anything"})
        http.post("/threads/wire/slots", json={"payload": "hi", "from_id": "a"})
        waiting = http.post("/memories/propose", json={"requests": [{**MCR, "content": "c"}]}).json()["id"]
    with strongroom.connect(full.url, key=key) as ctx:
        artifact = ctx.runs.get(run).attach(b"content", type="note", path="a.txt").id
    return {
        "run_id": run, "batch_id": waiting, "memory_id": memory, "session_id": "talk", "thread_id": "wire",
        "artifact_id": artifact,
    }  # fmt: skip


@pytest.fixture(scope="module")
def reader(full: Served, ids: dict[str, str]) -> Iterator[httpx.Client]:
    with client(full.url, full.key("default", "reader")) as http:
        yield http


async def everything(store: Any) -> list[Any]:
    found, after = [], None
    while True:
        exported = await store.unload(after, 1000)
        found += exported.items
        after = exported.next
        if after is None:
            return found


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("endpoint", READS, ids=name)
def test_reading_changes_nothing(
    endpoint: Endpoint, method: str, full: Served, ids: dict[str, str], reader: httpx.Client
) -> None:
    before = full.do(everything(full.app.state.store))
    if method == "HEAD" and endpoint.media != "text/event-stream":
        path = endpoint.path
        for hole, id in ids.items():
            path = path.replace(f"{{{hole}}}", id)
        assert reader.head(path).status_code < 500
    else:
        status, _ = request(reader, endpoint, ids=ids)
        assert status in (200, 403)
    assert full.do(everything(full.app.state.store)) == before


def test_a_reader_gets_a_pack_and_leaves_no_trace(reader: httpx.Client, ids: dict[str, str]) -> None:
    run = ids["run_id"]
    before = reader.get(f"/runs/{run}/events").json()
    assert reader.get(f"/runs/{run}/pack").content.startswith(b"PK")
    assert reader.get(f"/runs/{run}/events").json() == before
    assert reader.post(f"/runs/{run}/snapshot").status_code == 403


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=name)
def test_no_answer_shows_a_folder_of_the_server(
    endpoint: Endpoint, full: Served, ids: dict[str, str], folder: Path
) -> None:
    with client(full.url, full.key("default", "admin")) as http:
        status, content = request(http, endpoint, ids={**ids, "run_id": _run(http)})
    assert status < 500 and str(folder).encode() not in content


@pytest.mark.parametrize("path", ["snapshot", "resume/snapshot"])
def test_a_snapshot_is_told_by_a_name_that_can_be_loaded(full: Served, path: str) -> None:
    with client(full.url, full.key("default", "writer")) as http:
        kept = http.post(f"/runs/{_run(http)}/{path}", json={}).json()
        name = kept.get("pack_path") or kept["pack_zip"]
        assert "/" not in name
        assert http.post("/runs/resume/load", json={"pack_path": name, "new_run_id": path}).json()["ok"]


def test_a_snapshot_that_cannot_be_written_does_not_say_where(tmp_path: Path) -> None:
    (tmp_path / "snapshots").write_text("in the way")
    settings = {"snapshots": str(tmp_path / "snapshots")}
    with (
        served(str(tmp_path / "agent.db"), **settings) as server,
        client(server.url, server.key("default", "writer")) as http,
    ):
        answer = http.post(f"/runs/{_run(http)}/snapshot")
    assert answer.status_code == 503 and str(tmp_path) not in answer.text


def _run(http: httpx.Client) -> str:
    id: str = http.post("/runs", json={"objective": "x"}).json()["run_id"]
    return id
