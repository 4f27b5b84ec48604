"""`/mcp` on the server: keys, roles, spaces, Origin and Host are judged as everywhere else on it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import jwt
import mcp_types as types
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.subscriptions import ResourceUpdated

import mcp
from strongroom.server import assistants, shutdown
from strongroom.server.settings import Settings
from tests.mcp.conftest import MODES, call, refused
from tests.mcp.test_tools import SHOWN
from tests.server.serving import PATIENCE_SECONDS, Served, served
from tests.server.test_gate import ISSUER, claims, published, signer  # noqa: F401 - fixtures

PROFILES = {"reader": "reader", "writer": "agent", "reviewer": "reviewer", "admin": "agent"}
PROPOSAL = {"content": "the office has a red door", "rationale": "I saw it"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(str(tmp_path_factory.mktemp("mcp") / "agent.db")) as started:
        yield started


@asynccontextmanager
async def connected(server: Served, key: str, mode: str = "2026-07-28", **more: Any) -> AsyncIterator[Any]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with mcp.Client(transport, mode=mode, **more) as client:
            yield client


def post(server: Served, *, key: str | None = None, body: Any = HELLO, **headers: str) -> httpx.Response:
    sent = {**ACCEPT, **({"Authorization": f"Bearer {key}"} if key else {}), **headers}
    return httpx.post(f"{server.url}/mcp", json=body, headers=sent, trust_env=False, timeout=PATIENCE_SECONDS)


def post_raw(server: Served, raw: bytes, **headers: str) -> httpx.Response:
    sent = {**ACCEPT, "Authorization": f"Bearer {server.key()}", "Content-Type": "application/json", **headers}
    return httpx.post(f"{server.url}/mcp", content=raw, headers=sent, trust_env=False, timeout=PATIENCE_SECONDS)


def get(server: Served, path: str) -> httpx.Response:
    return httpx.get(server.url + path, trust_env=False, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("role", PROFILES)
async def test_the_role_of_a_key_is_its_profile(server: Served, role: str, mode: str) -> None:
    async with connected(server, server.key("default", role), mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == SHOWN[PROFILES[role]]


@pytest.mark.parametrize("mode", MODES)
async def test_a_writer_proposes_and_a_reviewer_of_the_same_space_decides(server: Served, mode: str) -> None:
    writer, reviewer, stranger = (
        server.key("acme", "writer"), server.key("acme", "reviewer"), server.key("other", "reviewer"),
    )  # fmt: skip

    async def approve(_: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async with connected(server, writer, mode) as client:
        batch = (await call(client, "memory_propose", items=[{**PROPOSAL, "content": f"red door {mode}"}]))["batch"]
    assert batch["proposer"] == writer.removeprefix("srk_").partition(".")[0]
    async with connected(server, stranger, mode, elicitation_callback=approve) as client:
        assert "not_found" in await refused(client, "memory_decide", batch_id=batch["batch_id"])
        assert (await call(client, "memory_pending"))["batches"] == []
    async with connected(server, reviewer, mode, elicitation_callback=approve) as client:
        done = await call(client, "memory_decide", batch_id=batch["batch_id"])
        assert (done["status"], done["asked_person"]) == ("committed", True)


async def test_an_admin_cannot_decide_here_on_what_it_could_propose(server: Served) -> None:
    async with connected(server, server.key("default", "admin")) as client:
        with pytest.raises(mcp.MCPError, match="Unknown tool"):
            await client.call_tool("memory_decide", {"batch_id": "x", "decision": "approve"})


def test_a_session_belongs_to_the_key_that_opened_it(server: Served) -> None:
    one, other = server.key("acme", "writer"), server.key("acme", "writer")
    session = post(server, key=one).headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert post(server, key=other, body=ping, **{"Mcp-Session-Id": session}).status_code == 404
    assert post(server, key=one, body=ping, **{"Mcp-Session-Id": session}).status_code == 200


def test_whoever_has_no_key_or_a_wrong_one_is_refused(server: Served) -> None:
    server.key()
    for key in (None, "srk_0123456789ab.wrong", "nonsense"):
        answer = post(server, key=key)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_page_of_another_site_is_refused_with_a_key_too(server: Served) -> None:
    key = server.key()
    assert post(server, key=key, Origin="https://evil.example").status_code == 403
    assert post(server, key=key, Origin="http://[").status_code == 403
    assert post(server, key=key, Origin=server.url).status_code == 200


def test_without_keys_this_machine_alone_is_served(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db"), allowed_origins=("https://app.example",)) as alone:
        assert post(alone).status_code == 200
        assert post(alone, Host="evil.example").status_code == 401
        assert post(alone, Origin="https://evil.example").status_code == 403
        assert post(alone, **{"X-Forwarded-For": "1.2.3.4"}).status_code == 401
        assert post(alone, Origin="https://app.example").status_code == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db"), max_body_bytes=10_000) as small:
        answer = post(small, body={**HELLO, "params": {"x": "y" * 20_000}})
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


NOT_JSON = {
    "a key twice": b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
    "NaN": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": NaN}}',
    "a lone surrogate": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\\ud800"}}',
    "101 levels": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ' + b"[" * 101 + b"]" * 101 + b"}}",
    "an integer of 65 bits": b'{"jsonrpc": "2.0", "id": 18446744073709551616, "method": "ping"}',
    "no end": b'{"jsonrpc": "2.0"',
    "nothing": b"",
}
VERSIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON)
def test_json_is_judged_as_at_every_other_endpoint(server: Served, raw: bytes, version: str) -> None:
    answer = post_raw(server, raw, **{"MCP-Protocol-Version": version})
    assert (answer.status_code, answer.json()["error"]["data"]) == (400, {"code": "invalid_input"})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(server: Served, version: str) -> None:
    # It ends too early, which nobody finds out who does not parse it.
    answer = post_raw(server, b'{"x": [' + b"[]," * 600_000, **{"MCP-Protocol-Version": version})
    assert (answer.status_code, answer.json()["error"]["data"]["limit"]) == (413, 500_000)


async def test_a_client_is_told_how_many_values_are_too_many(server: Served) -> None:
    async with connected(server, server.key()) as client:
        with pytest.raises(mcp.MCPError, match="at most 500000 values at once; nothing changed"):
            await client.call_tool("memory_search", {"query": "x", "z": [0] * 600_000})


def test_a_server_loads_the_sdk_when_the_first_assistant_comes() -> None:
    code = f"""
import asyncio, httpx, sys
from strongroom.server.app import create_app
from strongroom.server.settings import Settings

async def main():
    app = create_app(Settings(url="memory://"))
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as http:
        await http.get("http://localhost/runs")
        print("mcp" in sys.modules)
        answers = [http.post("http://localhost/mcp", json={HELLO!r}, headers={ACCEPT!r}) for _ in range(3)]
        print([answer.status_code for answer in await asyncio.gather(*answers)], "mcp" in sys.modules)

asyncio.run(main())"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n[200, 200, 200] True\n", done.stderr


class Spent(assistants.Assistants):
    """Has a transport that ran before, which the SDK refuses to run again."""

    def _load(self) -> Any:
        made = super()._load()

        async def ran() -> None:
            async with made.run():
                pass

        asyncio.run(ran())
        return made


async def test_a_transport_that_does_not_start_keeps_nobody_waiting() -> None:
    spent = Spent(Settings(url="memory://"))
    serving = asyncio.create_task(spent.serve())
    lengths = set[tuple[int, int]]()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="did not start") as told:
            await asyncio.wait_for(spent.transport(), PATIENCE_SECONDS)
        cause = told.value.__cause__
        assert cause is not None and "once per instance" in str(cause)
        lengths.add((len(told.traceback), len(traceback.extract_tb(cause.__traceback__))))
    assert len(lengths) == 1
    await spent.stop(serving)


async def test_where_no_sessions_are_kept_older_clients_are_served_all_the_same(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db"), mcp_sessions=False) as several:
        assert "mcp-session-id" not in post(several).headers
        async with mcp.Client(f"{several.url}/mcp", mode="legacy") as client:
            made = await call(client, "run_start", objective="x")
            assert (await call(client, "run_get", run_id=made["run"]["run_id"]))["run"]["seq"] == 0


async def test_a_server_that_stops_ends_the_streams_of_those_who_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "GRACE_SECONDS", 1e6)  # nothing else ends them
    with served(str(tmp_path / "agent.db")) as stopping:
        async with mcp.Client(f"{stopping.url}/mcp") as client:
            made = await call(client, "run_start", objective="x")
            async with client.listen(resource_subscriptions=[made["run"]["uri"]]) as stream:
                await call(client, "run_update", run_id=made["run"]["run_id"], append={"blockers": ["b"]})
                event = await asyncio.wait_for(anext(aiter(stream)), 30)
                assert isinstance(event, ResourceUpdated) and event.uri == made["run"]["uri"]
                await asyncio.to_thread(stopping.close)  # which returns


async def test_the_stream_of_a_key_ends_when_it_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assistants, "HEARTBEAT_SECONDS", 0.02)
    with served(str(tmp_path / "agent.db")) as started:
        admin, key = started.key(), started.key(role="writer")
        session = post(started, key=key).headers["mcp-session-id"]
        headers = {**ACCEPT, "Authorization": f"Bearer {key}", "Mcp-Session-Id": session}
        async with (
            httpx.AsyncClient(base_url=started.url, trust_env=False, timeout=PATIENCE_SECONDS) as http,
            http.stream("GET", "/mcp", headers=headers) as listening,
        ):
            assert listening.status_code == 200
            await asyncio.to_thread(_revoke, started, admin, key)
            async with asyncio.timeout(60):
                async for _ in listening.aiter_bytes():  # which end
                    pass


async def test_a_revoked_key_hears_of_nothing_that_comes_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assistants, "HEARTBEAT_SECONDS", 1e9)  # what is sent is held back, and not only what is silent
    with served(str(tmp_path / "agent.db")) as started:
        key, other = started.key(role="writer"), started.key(role="admin")
        async with connected(started, other) as writing, connected(started, key) as client:
            made = await call(writing, "run_start", objective="x")
            change = {"run_id": made["run"]["run_id"], "append": {"blockers": ["b"]}}
            async with client.listen(resource_subscriptions=[made["run"]["uri"]]) as stream:
                heard = aiter(stream)
                await call(writing, "run_update", **change)
                await asyncio.wait_for(anext(heard), 30)
                await asyncio.to_thread(_revoke, started, other, key)
                await call(writing, "run_update", **change)
                with pytest.raises((SubscriptionLost, StopAsyncIteration)):
                    await asyncio.wait_for(anext(heard), 30)


def _revoke(server: Served, admin: str, key: str) -> None:
    name = key.removeprefix("srk_").split(".")[0]
    headers = {"Authorization": f"Bearer {admin}"}
    assert httpx.delete(f"{server.url}/keys/{name}", headers=headers, trust_env=False).status_code == 200


# ---- OAuth ----------------------------------------------------------------------------------------------------------


def test_a_server_without_an_issuer_names_none(server: Served) -> None:
    assert get(server, "/.well-known/oauth-protected-resource/mcp").status_code == 404


async def test_whoever_comes_without_a_token_is_told_where_tokens_come_from(published: str, signer: Any) -> None:  # noqa: F811
    audience = "https://strongroom.example/mcp"
    with served(jwt_issuer=ISSUER, jwt_audience=audience, jwt_keys_url=published) as guarded:
        where = "https://strongroom.example/.well-known/oauth-protected-resource/mcp"
        assert post(guarded).headers["WWW-Authenticate"] == f'Bearer resource_metadata="{where}"'
        for path in ("", "/mcp"):
            told = get(guarded, f"/.well-known/oauth-protected-resource{path}").json()
            assert (told["resource"], told["authorization_servers"]) == (audience, [ISSUER])
        good, wrong = (
            jwt.encode(claims(aud=named), signer, "RS256", headers={"kid": "k1"})
            for named in (audience, "https://other.example/mcp")
        )
        async with connected(guarded, good) as client:
            assert "memory_propose" in {tool.name for tool in (await client.list_tools()).tools}
        refused = post(guarded, key=wrong)
        challenge = f'Bearer error="invalid_token", resource_metadata="{where}"'
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, challenge)
