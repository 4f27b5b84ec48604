"""Sessions at `/mcp`: a key holds so many, a space leaves room for others, and what a key opened ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

import mcp
from strongroom.server import mcp_sessions
from strongroom.server.keys import Caller
from strongroom.server.mcp_sessions import IDLE_SECONDS, Sessions
from tests.mcp.test_http import ACCEPT, connected, post
from tests.server.serving import PATIENCE_SECONDS, Served, served

TOO_MANY = "too_many_sessions"


@pytest.fixture
def two() -> Iterator[Served]:
    """A server where a key may hold two sessions."""
    with served(max_sessions=2) as started:
        yield started


def opened(server: Served, key: str | None = None) -> str:
    answer = post(server, key=key)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


def is_full(server: Served, key: str | None = None) -> bool:
    answer = post(server, key=key)
    if answer.status_code != 429:
        return False
    assert answer.json()["error"]["data"]["code"] == TOO_MANY and "mcp-session-id" not in answer.headers
    return True


def ping(server: Served, key: str, session: str) -> int:
    body = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    return post(server, key=key, body=body, **{"Mcp-Session-Id": session}).status_code


def close(server: Served, key: str, session: str) -> int:
    headers = {**ACCEPT, "Authorization": f"Bearer {key}", "Mcp-Session-Id": session}
    return httpx.delete(f"{server.url}/mcp", headers=headers, trust_env=False, timeout=PATIENCE_SECONDS).status_code


def revoke(server: Served, admin: str, key: str) -> None:
    headers, name = {"Authorization": f"Bearer {admin}"}, key.removeprefix("srk_").split(".")[0]
    assert httpx.delete(f"{server.url}/keys/{name}", headers=headers, trust_env=False).status_code == 200


def look(server: Served) -> None:
    server.do(server.app.state.mcp.sessions.look(server.app.state.gate.still_knows))


def test_a_key_holds_so_many_sessions_and_others_are_not_kept_out(two: Served) -> None:
    greedy, other = two.key("acme", "reader"), two.key("acme", "reader")
    first, _ = opened(two, greedy), opened(two, greedy)
    assert is_full(two, greedy)
    assert ping(two, other, opened(two, other)) == ping(two, greedy, first) == 200


def test_64_is_what_a_key_holds_unless_it_is_set() -> None:
    with served() as started:
        key = started.key()
        for _ in range(64):
            opened(started, key)
        assert is_full(started, key)


async def test_a_client_is_told_the_limit(two: Served) -> None:
    key = two.key()
    opened(two, key), opened(two, key)
    told = pytest.RaisesExc(mcp.MCPError, match="at most 2 open sessions of a key")
    with pytest.RaisesGroup(told, allow_unwrapped=True, flatten_subgroups=True):
        async with connected(two, key, "legacy"):
            pass


async def test_the_newer_family_needs_no_session_and_is_not_counted(two: Served) -> None:
    key = two.key()
    opened(two, key), opened(two, key)
    async with connected(two, key, "2026-07-28") as client:
        assert (await client.list_tools()).tools


def test_a_session_that_is_closed_makes_room(two: Served) -> None:
    key = two.key()
    first, _ = opened(two, key), opened(two, key)
    assert close(two, key, first) == 200
    opened(two, key)
    assert is_full(two, key)


def test_what_opens_no_session_uses_none_up(two: Served) -> None:
    key = two.key()
    for _ in range(3):
        assert post(two, key=key, body={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 400
    opened(two, key), opened(two, key)


def test_nobody_else_can_make_a_session_count_no_more(two: Served) -> None:
    key, stranger = two.key(), two.key()
    sessions = [opened(two, key), opened(two, key)]
    assert [ping(two, stranger, each) for each in sessions] == [404, 404]
    assert is_full(two, key)


def test_without_keys_the_limit_of_the_server_alone_holds(two: Served) -> None:
    for _ in range(5):
        opened(two)


def test_the_keys_of_one_space_together_leave_room_for_other_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_sessions, "MOST_SESSIONS", 8)
    with served() as started:
        for _ in range(4):
            opened(started, started.key("acme"))
        assert is_full(started, started.key("acme"))
        opened(started, started.key("beta"))


def test_the_sessions_of_a_revoked_key_end(two: Served) -> None:
    admin, key = two.key("acme"), two.key("acme")
    session, stays = opened(two, key), opened(two, admin)
    sdk = two.do(two.app.state.mcp.transport())
    revoke(two, admin, key)
    look(two)
    assert session not in sdk._server_instances
    assert ping(two, admin, stays) == 200


def test_a_server_finds_by_itself_that_a_key_was_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_sessions, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(mcp_sessions, "MOST_SESSIONS", 2)
    with served() as started:
        admin, key, other = started.key("acme"), started.key("acme"), started.key("beta")
        opened(started, key)
        assert is_full(started, admin)
        opened(started, other)
        revoke(started, admin, key)
        while is_full(started, admin):  # which ends
            pass


def test_sessions_without_a_key_end_when_there_is_one(two: Served) -> None:
    session = opened(two)
    sdk = two.do(two.app.state.mcp.transport())
    look(two)
    assert session in sdk._server_instances
    two.key()
    look(two)
    assert session not in sdk._server_instances


def test_a_key_is_known_as_long_as_its_space_and_role_are_the_same(two: Served) -> None:
    name = two.key("acme", "writer").removeprefix("srk_").split(".")[0]

    def knows(*caller: str) -> bool:
        return bool(two.do(two.app.state.gate.still_knows(Caller(*caller))))  # type: ignore[arg-type]

    assert knows(name, "acme", "writer")
    assert not knows(name, "acme", "admin") and not knows(name, "beta", "writer")
    assert knows("oidc:ana", "acme", "reader")


def test_a_session_that_nobody_uses_counts_until_the_sdk_has_ended_it() -> None:
    now = 0.0
    sessions = Sessions(1, clock=lambda: now)
    said: list[int] = []

    async def sdk(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"mcp-session-id", b"s")]})

    async def send(message: Message) -> None:
        said.extend([message["status"]] if "status" in message else [])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def known(caller: Caller) -> bool:
        return True

    async def opens() -> int:
        await sessions.look(known)
        scope: Scope = {"type": "http", "method": "POST", "headers": [], "user": None}
        await sessions.serve(sdk, Caller("k", "acme", "reader"), scope, receive, send)
        return said[-1]

    assert asyncio.run(opens()) == 200
    now = IDLE_SECONDS
    assert asyncio.run(opens()) == 429
    now = IDLE_SECONDS + 1
    assert asyncio.run(opens()) == 200
