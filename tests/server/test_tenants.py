"""Two tenants on every route: not one byte crosses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

import strongroom
from strongroom.codec import encode
from strongroom.protocol import wire
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from strongroom.store import Commit, Expect, Find, Get, Key, Put, Range, Scan, new_id
from tests.server.conftest import client
from tests.server.samples import MCR, request
from tests.server.serving import Served
from tests.server.test_roles import name

CANARY = "zanzibar"


@pytest.fixture(scope="module")
def victim(shared: Served) -> dict[str, str]:
    """A tenant whose every part holds the canary. Returns its ids."""
    with client(shared.url, shared.key("victim")) as http:
        run = http.post("/runs", json={"objective": CANARY}).json()["run_id"]
        http.post(f"/runs/{run}/events", json={"type": "ERROR", "payload": {"error_type": CANARY, "message": CANARY}})
        http.patch(f"/runs/{run}", json={"patch": {"next_action": CANARY}, "expected_seq": 0})
        batch = http.post(f"/runs/{run}/memory/propose", json={"mcrs": [{**MCR, "content": CANARY}]}).json()["batch_id"]
        memory = http.post(f"/runs/{run}/memory/commit", json={"batch_id": batch}).json()["committed_ids"][0]
        waiting = http.post("/memories/propose", json={"requests": [{**MCR, "content": f"{CANARY} 2"}]}).json()["id"]
        http.post(f"/runs/{run}/milestone", json={"reason": CANARY})
        said = {"messages": [{"role": "user", "content": CANARY}]}
        message = http.post("/sessions/talk/messages", json=said).json()["messages"][0]["id"]
        http.post("/threads/wire/slots", json={"payload": CANARY, "from_id": CANARY})
        kept = http.post(f"/runs/{run}/snapshot").json()["pack_path"]
        assert CANARY in http.get(f"/runs/{run}").text  # the canary sings at home
        return {
            "run_id": run,
            "batch_id": waiting,
            "memory_id": memory,
            "session_id": "talk",
            "thread_id": "wire",
            "message_id": message,
            "pack_path": kept,
        }


@pytest.fixture(scope="module")
def thief(shared: Served) -> Iterator[httpx.Client]:
    with client(shared.url, shared.key("thief")) as http:
        yield http


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=name)
def test_no_byte_crosses(endpoint: Endpoint, victim: dict[str, str], thief: httpx.Client) -> None:
    query = {"q": CANARY} if endpoint.path.endswith("search") else {}
    status, content = request(thief, endpoint, ids=victim, query=query, space="thief")
    assert CANARY.encode() not in content and status < 500


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/store/read", wire.dump_questions([Range(Key("victim", "message", "talk"))])),
        ("/store/read", wire.dump_questions([Get(Key("thief", "run", "a")), Scan("victim", "run")])),
        ("/store/commit", wire.dump_commit(Commit(new_id(), (), (Put(Key("victim", "a", "a"), encode(1)),)))),
        ("/store/commit", wire.dump_commit(Commit(new_id(), (Expect(Key("victim", "run", "a"), 1),), ()))),
        ("/store/search", wire.dump(Find("victim", "message", (CANARY,)))),
        ("/store/wait", wire.dump(wire.Waiting(Key("victim", "message", "talk"), 0, 0.0))),
    ],
    ids=["range", "scan", "put", "expect", "search", "wait"],
)
def test_the_port_answers_only_for_the_space_of_the_key(
    path: str, body: bytes, victim: dict[str, str], thief: httpx.Client
) -> None:
    answer = thief.post(path, content=body, headers={"Content-Type": wire.MEDIA})
    assert answer.status_code == 403 and CANARY not in answer.text


def test_no_space_in_a_request_is_believed(victim: dict[str, str], thief: httpx.Client) -> None:
    for extra in ({"space": "victim"}, {"tenant": "victim"}):
        assert thief.post("/runs", json={"objective": "x", **extra}).status_code == 422
        assert thief.get("/runs", params=extra).status_code == 422
    assert thief.get("/runs", headers={"X-Space": "victim", "X-Tenant": "victim"}).text.count(CANARY) == 0


def test_a_snapshot_of_somebody_else_cannot_be_loaded(victim: dict[str, str], thief: httpx.Client) -> None:
    name, folder = victim["pack_path"], b"victim".hex()
    for path in (name, f"{folder}/{name}", f"../{folder}/{name}"):
        assert thief.post("/runs/resume/load", json={"pack_path": path}).status_code in (404, 422)


def test_the_client_sees_one_space(shared: Served, victim: dict[str, str]) -> None:
    with strongroom.connect(shared.url, key=shared.key("thief")) as ctx:
        seen: list[Any] = [*ctx.memories.search(CANARY), *ctx.sessions.search(CANARY), *ctx.runs.list(limit=1000)]
        assert ctx.space == "thief" and CANARY not in str(
            msgspec.to_builtins([getattr(one, "working_set", one) for one in seen])
        )
        with pytest.raises(strongroom.NotFound):
            ctx.runs.get(victim["run_id"])
