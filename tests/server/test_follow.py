"""Streams: whoever follows sees everything, once, in order, across restarts of the server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from strongroom.server import sse
from strongroom.server.shutdown import end
from tests.server.conftest import client
from tests.server.serving import Process, Served, process

FOLLOWERS = int(os.environ.get("STRONGROOM_FOLLOWERS", "20"))
EVENTS = 30


def read(http: httpx.Client, path: str, count: int, headers: dict[str, str] | None = None) -> list[tuple[int, Any]]:
    """Follow until `count` events have come."""
    found: list[tuple[int, Any]] = []
    with http.stream("GET", path, headers=headers or {}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        while len(found) < count:
            line = next(lines)
            if line.startswith("id: "):
                id = int(line[4:])
            elif line.startswith("data: "):
                found.append((id, json.loads(line[6:])))
    return found


@pytest.fixture
def run(admin: httpx.Client) -> str:
    made: str = admin.post("/runs", json={"objective": "x"}).json()["run_id"]
    for number in range(4):
        told = {"type": "ERROR", "payload": {"error_type": "e", "message": str(number)}}
        admin.post(f"/runs/{made}/events", json=told)
    return made


def test_a_run_is_followed_from_its_start(admin: httpx.Client, run: str) -> None:
    seen = read(admin, f"/runs/{run}/follow", 5)
    assert [id for id, _ in seen] == [1, 2, 3, 4, 5]
    assert [event["sequence_id"] for _, event in seen] == [1, 2, 3, 4, 5]


def test_last_event_id_goes_on_where_it_was(admin: httpx.Client, run: str) -> None:
    assert [id for id, _ in read(admin, f"/runs/{run}/follow", 2, {"Last-Event-ID": "3"})] == [4, 5]
    assert [id for id, _ in read(admin, f"/runs/{run}/follow?after=4", 1)] == [5]
    assert [id for id, _ in read(admin, f"/runs/{run}/follow?after=1", 1, {"Last-Event-ID": "4"})] == [5]


def test_a_thread_is_followed(admin: httpx.Client) -> None:
    for number in range(3):
        admin.post("/threads/followed/slots", json={"payload": number, "from_id": "a", "to_id": "b"})
    seen = read(admin, "/threads/followed/follow?after=0", 2)
    assert [(id, slot["payload"], slot["from_id"]) for id, slot in seen] == [(1, 1, "a"), (2, 2, "a")]


def test_a_session_is_followed_and_hidden_messages_are_not_shown(admin: httpx.Client) -> None:
    said = {"messages": [{"role": "user", "content": str(number)} for number in range(4)]}
    made = admin.post("/sessions/followed/messages", json=said).json()["messages"]
    admin.post("/sessions/followed/truncate", json={"message_id": made[2]["id"]})
    admin.post("/sessions/followed/messages", json={"messages": [{"role": "user", "content": "new"}]})
    seen = read(admin, "/sessions/followed/follow", 3)
    assert [(id, view["message"]["content"]) for id, view in seen] == [(0, "0"), (1, "1"), (4, "new")]


def test_a_name_with_line_breaks_cannot_forge_an_event(shared: Served, admin: httpx.Client) -> None:
    admin.post("/sessions/forged/messages", json={"messages": [{"role": "a\ndata: forged", "content": "x\n\nid: 9"}]})
    with admin.stream("GET", "/sessions/forged/follow") as answer:
        lines = answer.iter_lines()
        seen = [next(lines) for _ in range(6)]
    assert sum(line.startswith("data: ") for line in seen) == 1 and "id: 9" not in seen


def test_an_unknown_run_has_no_stream(admin: httpx.Client) -> None:
    assert admin.get("/runs/nobody/follow").status_code == 404


async def follow(http: httpx.AsyncClient, path: str, count: int) -> list[int]:
    """Follow as a browser does: reconnect with the last id seen, for as long as it takes."""
    seen: list[int] = []
    while len(seen) < count:
        try:
            headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
            async with http.stream("GET", path, headers=headers) as answer:
                async for id in _ids(answer):
                    seen.append(id)
                    if len(seen) == count:
                        break
        except httpx.TransportError:
            await asyncio.sleep(0.05)
    return seen


async def _ids(answer: httpx.Response) -> AsyncIterator[int]:
    async for line in answer.aiter_lines():
        if line.startswith("id: "):
            yield int(line[4:])


def test_followers_miss_nothing_and_see_nothing_twice_over_a_restart(tmp_path: Path) -> None:
    """The server is stopped and started while everybody listens and somebody keeps recording."""

    async def scene() -> list[list[int]]:
        first = await asyncio.to_thread(Process, tmp_path / "agent.db")
        limits = httpx.Limits(max_connections=FOLLOWERS + 10)
        async with httpx.AsyncClient(base_url=first.url, limits=limits, timeout=60, trust_env=False) as http:
            run = (await http.post("/runs", json={"objective": "x"})).json()["run_id"]
            told = {"type": "ERROR", "payload": {"error_type": "e", "message": "m"}}
            tasks = [asyncio.create_task(follow(http, f"/runs/{run}/follow", EVENTS)) for _ in range(FOLLOWERS)]
            for _ in range(EVENTS // 2):
                await http.post(f"/runs/{run}/events", json=told)
            assert await asyncio.to_thread(first.stop) in (0, -15)
            again = await asyncio.to_thread(lambda: Process(tmp_path / "agent.db", port=first.port))
            try:
                for _ in range(EVENTS - EVENTS // 2 - 1):
                    await http.post(f"/runs/{run}/events", json=told)
                return await asyncio.gather(*tasks)
            finally:
                await asyncio.to_thread(again.stop)

    assert asyncio.run(scene()) == [list(range(1, EVENTS + 1))] * FOLLOWERS


def test_a_server_with_followers_stops_when_asked(tmp_path: Path) -> None:
    with (
        process(tmp_path / "agent.db") as server,
        client(server.url) as http,
        http.stream("GET", "/threads/t/follow") as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        assert server.stop() in (0, -15)
        assert "data" not in "".join(lines)


def test_a_task_that_misses_one_request_to_stop_hears_the_next() -> None:
    async def scene() -> int:
        heard = 0

        async def deaf() -> None:
            nonlocal heard
            while heard < 2:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    heard += 1

        task = asyncio.ensure_future(deaf())
        await asyncio.sleep(0)
        await end(task)
        return heard

    assert asyncio.run(scene()) == 2


def test_silent_streams_that_began_one_after_the_other_ask_at_the_same_instant() -> None:
    instants = {round(now + sse._until_beat(now), 9) for now in (100.01, 100.1, 100.24)}
    assert instants == {105.0}


def test_a_silent_stream_asks_within_a_beat() -> None:
    slot = sse.HEARTBEAT_SECONDS / sse.SLOTS
    for now in (0.0, 0.1, 3.2, 4.99):
        assert sse.HEARTBEAT_SECONDS - slot < sse._until_beat(now) <= sse.HEARTBEAT_SECONDS


async def test_a_silent_stream_asks_whether_it_may_go_on_more_often_than_it_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.01)
    asked = 0

    async def admitted() -> bool:
        nonlocal asked
        asked += 1
        return True

    async def silent() -> AsyncIterator[tuple[int, str, Any]]:
        await asyncio.Event().wait()
        yield 0, "message", None

    lines = sse._lines(silent(), asyncio.Event(), admitted)
    said = [await anext(lines), await anext(lines)]
    await lines.aclose()
    assert said == [b"retry: 1000\n\n", b": still here\n\n"]
    assert asked == sse.BEATS
