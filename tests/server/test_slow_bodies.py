"""Whoever may no longer come in when a body is complete has nothing done, though they might when they began to send it.

No clock decides: each body waits in the middle until the server has let its sender in, and the door was closed since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from strongroom.protocol import wire
from strongroom.server.gate import Gate
from strongroom.server.keys import Caller
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from strongroom.store import Key
from tests.server.conftest import client
from tests.server.samples import BODIES, packed
from tests.server.serving import PATIENCE_SECONDS, Served, served
from tests.server.test_roles import name

JSON = "application/json"
SENDING = [each for each in ENDPOINTS if each.right is not None and each.method != "GET"]
SAID = b'{"messages":[{"role":"user","content":"too late"}]}'
ASKED = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


@pytest.fixture
def let_in(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Tells that somebody was let in."""
    event, admit = threading.Event(), Gate.admit

    async def telling(self: Gate, request: Any, right: Any) -> Caller:
        caller = await admit(self, request, right)
        event.set()
        return caller

    monkeypatch.setattr(Gate, "admit", telling)
    return event


def slowly(body: bytes, let_in: threading.Event, close_the_door: Callable[[], object]) -> Iterator[bytes]:
    let_in.clear()  # before anything is sent
    return _slowly(body, let_in, close_the_door)


def _slowly(body: bytes, let_in: threading.Event, close_the_door: Callable[[], object]) -> Iterator[bytes]:
    yield body[:1]
    assert let_in.wait(PATIENCE_SECONDS)
    close_the_door()
    yield body[1:]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture(scope="module")
def admin(server: Served) -> Iterator[httpx.Client]:
    with client(server.url, server.key()) as http:
        yield http


@pytest.fixture
def commits(server: Served, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All that is committed, but for keys that were revoked."""
    made: list[Any] = []
    commit = server.app.state.store.commit

    async def noting(one: Any) -> Any:
        if not (len(one.writes) == 1 and one.writes[0].key.kind == "key"):
            made.append(one)
        return await commit(one)

    monkeypatch.setattr(server.app.state.store, "commit", noting)
    return made


def send(
    http: httpx.Client, endpoint: Endpoint, let_in: threading.Event, close: Callable[[], object]
) -> httpx.Response:
    body = (
        packed(endpoint, "default") if endpoint.accepts != JSON else msgspec.json.encode(BODIES.get(name(endpoint), {}))
    )
    path = endpoint.path.replace("{", "").replace("}", "")
    headers = {"Content-Type": endpoint.accepts}
    return http.request(endpoint.method, path, content=slowly(body, let_in, close), headers=headers)


@pytest.mark.parametrize("endpoint", SENDING, ids=name)
def test_a_key_that_was_revoked_meanwhile_has_nothing_done(
    server: Served, admin: httpx.Client, let_in: threading.Event, commits: list[Any], endpoint: Endpoint
) -> None:
    key = server.key()
    commits.clear()

    def revoke() -> None:
        assert admin.delete(f"/keys/{key.removeprefix('srk_').partition('.')[0]}").status_code == 200

    with client(server.url, key) as http:
        assert send(http, endpoint, let_in, revoke).status_code == 401
    assert commits == []


@pytest.mark.parametrize("endpoint", SENDING, ids=name)
def test_whoever_comes_without_a_key_has_nothing_done_after_the_first_one(
    let_in: threading.Event, endpoint: Endpoint
) -> None:
    with served() as started, client(started.url) as http:
        answer = send(http, endpoint, let_in, started.key)
        assert answer.status_code == 401


class Tokens:
    """Knows every token, until they end."""

    def __init__(self) -> None:
        self.caller: Caller | None = Caller("oidc:ana", "default", "admin")

    async def verify(self, token: str) -> Caller | None:
        return self.caller

    def end(self) -> None:
        self.caller = None


def test_a_token_that_ended_meanwhile_has_nothing_done(
    server: Served, let_in: threading.Event, commits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens()
    monkeypatch.setattr(server.app.state.gate, "_tokens", tokens)
    with client(server.url, "a.good.token") as http:
        before = http.post("/sessions/s/messages", content=SAID, headers={"Content-Type": JSON})
        commits.clear()
        late = http.post(
            "/sessions/s/messages", content=slowly(SAID, let_in, tokens.end), headers={"Content-Type": JSON}
        )
    assert (before.status_code, late.status_code, commits) == (200, 401, [])


def test_a_key_in_a_cookie_that_was_revoked_meanwhile_has_nothing_done(
    server: Served, admin: httpx.Client, let_in: threading.Event, commits: list[Any]
) -> None:
    key = server.key()
    commits.clear()
    port = server.url.rpartition(":")[2]
    headers = {"Cookie": f"strongroom-{port}={key}", "Sec-Fetch-Site": "same-origin", "Content-Type": JSON}

    def revoke() -> None:
        admin.delete(f"/keys/{key.removeprefix('srk_').partition('.')[0]}")

    with client(server.url) as http:
        late = http.post("/sessions/s/messages", content=slowly(SAID, let_in, revoke), headers=headers)
    assert (late.status_code, commits) == (401, [])


def test_an_assistant_whose_key_was_revoked_meanwhile_is_refused(
    server: Served, admin: httpx.Client, let_in: threading.Event
) -> None:
    pytest.importorskip("mcp_types")
    key = server.key()

    def revoke() -> None:
        admin.delete(f"/keys/{key.removeprefix('srk_').partition('.')[0]}")

    headers = {"Content-Type": JSON, "Accept": f"{JSON}, text/event-stream"}
    with client(server.url, key) as http:
        assert http.post("/mcp", content=slowly(ASKED, let_in, revoke), headers=headers).status_code == 401


def test_whoever_waited_with_a_key_that_was_revoked_since_is_told_nothing(
    server: Served, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = server.key(role="reader")
    wait = server.app.state.store.wait

    async def revoked(*given: Any) -> None:
        await server.app.state.gate._keys.revoke(key.removeprefix("srk_").partition(".")[0])
        server.app.state.gate.forget()
        await wait(*given)

    monkeypatch.setattr(server.app.state.store, "wait", revoked)
    asked = wire.dump(wire.Waiting(Key("default", "thread", "a"), 0, 0.0))
    with client(server.url, key) as http:
        assert http.post("/store/wait", content=asked, headers={"Content-Type": wire.MEDIA}).status_code == 401
