"""An id is one part of a path, whatever it holds; a request about one thing is never about another."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import strongroom
from strongroom.server.app import create_app
from strongroom.server.routes import ENDPOINTS, memory_writes, sessions
from strongroom.server.settings import Settings
from tests.server.conftest import client
from tests.server.samples import MCR
from tests.server.serving import Served

ODD = (
    "langgraph/t1", "t/messages", "x/", "x//", "/x", "x/erase", "a%2Fb", "a%252Fb", "a/../b", "a;b", "a?b", "a#b",
    "a+b", "a b", "a\\b", "café", "ＡＢ", "a:b", "%", "messages", "...",
)  # fmt: skip


def at(id: str) -> str:
    return quote(id, safe="")


@pytest.fixture(scope="module")
def http(shared: Served) -> Iterator[httpx.Client]:
    with client(shared.url, shared.key()) as one:
        yield one


def made(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("id", ODD)
def test_a_session_is_reached_by_its_id(http: httpx.Client, id: str) -> None:
    made(http, "/sessions", {"id": id})
    made(http, f"/sessions/{at(id)}/messages", {"messages": [{"role": "user", "content": id, "id": "m"}]})
    assert http.get(f"/sessions/{at(id)}").json()["id"] == id
    assert [one["message"]["content"] for one in http.get(f"/sessions/{at(id)}/messages").json()["messages"]] == [id]
    assert http.post(f"/sessions/{at(id)}/erase", json={"message_ids": ["m"]}).json()["session_id"] == id
    assert http.delete(f"/sessions/{at(id)}").status_code == 200
    assert http.get(f"/sessions/{at(id)}").status_code == 404


@pytest.mark.parametrize("id", ODD)
def test_a_run_is_reached_by_its_id(http: httpx.Client, id: str) -> None:
    made(http, "/runs", {"run_id": id, "objective": "x"})
    changed = http.patch(f"/runs/{at(id)}", json={"expected_seq": 0, "patch": {"status": "BUSY"}}).json()
    assert changed["ws"]["run_id"] == http.get(f"/runs/{at(id)}").json()["run_id"] == id
    episodes = http.post(f"/runs/{at(id)}/milestone", json={}).json()["episode_path"]
    assert len(http.get(episodes).json()["episodes"]) == 1


@pytest.mark.parametrize("id", ODD)
def test_a_thread_is_reached_by_its_id(http: httpx.Client, id: str) -> None:
    made(http, f"/threads/{at(id)}/slots", {"payload": 1, "from_id": "a"})
    assert [one["thread_id"] for one in http.get(f"/threads/{at(id)}/slots").json()["slots"]] == [id]
    assert http.delete(f"/threads/{at(id)}").json() == {"ok": True}


@pytest.mark.parametrize("id", [id for id in ODD if len(id) > 2])  # a memory's id is no shorter
def test_a_batch_and_its_memory_are_reached_by_their_ids(http: httpx.Client, id: str) -> None:
    told = {**MCR, "memory_id": id, "content": f"this is known of {at(id).encode().hex()}"}
    made(http, "/memories/propose", {"requests": [told], "batch_id": id, "proposer": "agent-7"})
    assert http.get(f"/memories/batches/{at(id)}").json()["id"] == id
    assert http.post(f"/memories/batches/{at(id)}/commit", json={}).status_code == 200
    assert http.get(f"/memories/{at(id)}").json()["id"] == id
    assert len(http.get(f"/memories/{at(id)}/history").json()["changes"]) == 2


# ---- nothing is mistaken for another thing --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/sessions/known{}", "/runs/known{}", "/threads/known{}", "/keys/known{}"])
@pytest.mark.parametrize("end", ["/", "//", "%2F", "%2f", "%2F/"])
def test_no_request_is_redirected(http: httpx.Client, method: str, path: str, end: str) -> None:
    assert "location" not in http.request(method, path.format(end), json={}).headers


def test_a_session_with_a_slash_is_deleted_and_its_neighbour_is_not(http: httpx.Client) -> None:
    made(http, "/sessions", {"id": "near"})
    made(http, "/sessions", {"id": "near/"})
    assert http.delete("/sessions/near%2F", follow_redirects=True).status_code == 200
    assert (http.get("/sessions/near").status_code, http.get("/sessions/near%2F").status_code) == (200, 404)


def test_an_encoded_slash_ends_no_id(http: httpx.Client) -> None:
    made(http, "/sessions/told/messages", {"messages": [{"role": "user", "content": "mine"}]})
    assert http.get("/sessions/told%2Fmessages").status_code == 404


def test_an_encoded_letter_is_that_letter(http: httpx.Client) -> None:
    assert http.get("/%73essions/%73earch?q=x").json() == http.get("/sessions/search?q=x").json()


# ---- words of our own -----------------------------------------------------------------------------------------------


def clashes(parameter: str) -> set[str]:
    """Return the ids under which a thing would not be found, because a path of ours has that word in its place."""
    found: set[str] = set()
    for each in ENDPOINTS:
        parts = each.path.split("/")
        if f"{{{parameter}}}" not in parts:
            continue
        place = parts.index(f"{{{parameter}}}")
        for other in ENDPOINTS[: ENDPOINTS.index(each)]:
            words = other.path.split("/")
            same = len(words) == len(parts) and all(
                one == two or one[:1] == "{" or two[:1] == "{" for one, two in zip(words, parts, strict=True)
            )
            if same and other.method == each.method and words[place][:1] != "{":
                found.add(words[place])
    return found


def test_every_id_that_a_path_of_ours_stands_before_is_known() -> None:
    names = {name for each in ENDPOINTS for name in re.findall(r"{(\w+)}", each.path)}
    found = {name: taken for name in names if (taken := clashes(name))}
    assert found == {"session_id": sessions.TAKEN, "memory_id": memory_writes.TAKEN}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sessions", {"id": "search"}),
        ("/memories", {"content": "x", "memory_id": "pending"}),
        ("/memories/propose", {"requests": [{**MCR, "memory_id": "batches"}]}),
        ("/memories/propose", {"requests": {**MCR, "memory_id": "batches"}}),
        ("/runs/for-words/memory/propose", {"mcrs": [{**MCR, "memory_id": "sources"}]}),
    ],
)
def test_a_word_of_our_paths_is_no_id_over_http(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    http.post("/runs", json={"objective": "x", "run_id": "for-words"})
    answer = http.post(path, json=body)
    assert answer.status_code == 422
    assert "part of its paths; nothing changed" in answer.json()["error"]


def test_messages_open_no_session_of_such_a_name_and_find_one_that_is_there(shared: Served, http: httpx.Client) -> None:
    said = {"messages": [{"role": "user", "content": "x"}]}
    assert http.post("/sessions/search/messages", json=said).status_code == 404
    with strongroom.connect(shared.url, key=shared.key()) as ctx:
        ctx.sessions.open("search")
    assert http.post("/sessions/search/messages", json=said).status_code == 200
    assert len(http.get("/sessions/search/messages").json()["messages"]) == 1


# ---- other servers --------------------------------------------------------------------------------------------------


def statuses(paths: list[str], change: Any = None, root: str = "") -> list[int]:
    """Return what an application in this process answers, with what a server or a middleware makes of its scope."""

    async def scene() -> list[int]:
        app = create_app(Settings(url="memory://"))

        async def changed(scope: Any, receive: Any, send: Any) -> None:
            if change is not None:
                change(scope)
            await app(scope, receive, send)

        transport = httpx.ASGITransport(changed, root_path=root, client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
        ):
            for id in ("a", "a/b"):
                assert (await http.post(f"{root}/sessions", json={"id": id})).status_code == 200
            return [(await http.get(root + path)).status_code for path in paths]

    return asyncio.run(scene())


@pytest.mark.parametrize("root", ["", "/api", "/an api"])
def test_in_process_and_behind_a_prefix_a_slash_is_part_of_an_id(root: str) -> None:
    assert statuses(["/sessions/a%2Fb", "/sessions/a/b", "/sessions/a%2F"], root=root) == [200, 404, 404]


def test_where_a_server_does_not_tell_what_was_sent_ids_without_a_slash_are_reached() -> None:
    asked = ["/sessions/a", "/sessions/a%2Fb", "/sessions/a%2F"]
    assert statuses(asked, lambda scope: scope.pop("raw_path")) == [200, 404, 404]


def test_a_middleware_that_changes_the_path_is_heard() -> None:
    def shorter(scope: Any) -> None:
        scope["path"] = scope["path"].removeprefix("/v1")

    assert statuses(["/v1/sessions/a", "/v1/sessions"], shorter) == [200, 200]
