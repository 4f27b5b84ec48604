"""What is refused before anything is parsed, and what is refused because of what it says."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import strongroom
from strongroom.codec import encode
from strongroom.errors import BudgetExceeded
from strongroom.operations import Operation
from strongroom.protocol import wire
from strongroom.server import request, shutdown
from strongroom.server.limits import HeldBytes, Rates
from strongroom.server.responses import Refusal
from strongroom.services.turns import parts
from strongroom.store import Key, new_id
from tests.server.conftest import client
from tests.server.serving import PATIENCE_SECONDS, Served, served

LIMIT = 100_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("small")
    with served(
        str(folder / "agent.db"), snapshots=str(folder / "s"), max_body_bytes=LIMIT, max_pack_bytes=LIMIT, max_streams=2
    ) as started:
        yield started


@pytest.fixture(scope="module")
def http(small: Served) -> Iterator[httpx.Client]:
    with client(small.url) as made:
        yield made


def chunks(total: int) -> Iterator[bytes]:
    for _ in range(total // 1000):
        yield b"x" * 1000


def test_whoever_needs_no_key_sends_no_large_body(http: httpx.Client) -> None:
    answer = http.post("/sign-out", content=b" " * 5_000, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


def test_what_an_upload_keeps_in_memory_counts(http: httpx.Client, small: Served) -> None:
    state, size = small.app.state, LIMIT - 1_000
    before, state.held = state.held, HeldBytes(LIMIT // 2)
    try:
        content = size.to_bytes(wire.HEAD_BYTES, "big") + b" " * size
        answer = http.post("/store/upload", content=content, headers={"Content-Type": wire.UPLOAD})
    finally:
        state.held = before
    assert answer.status_code == 503


@pytest.mark.parametrize("path", ["/runs", "/runs/restore", "/store/commit"])
def test_a_body_over_the_limit_is_413(http: httpx.Client, path: str) -> None:
    answer = http.post(path, content=b"x" * (LIMIT + 1), headers={"Content-Type": "application/zip"})
    assert answer.status_code == 413 and answer.json()["details"]["limit"] == LIMIT


def test_a_body_that_hides_its_size_is_stopped_at_the_limit(http: httpx.Client) -> None:
    answer = http.post("/runs", content=chunks(LIMIT * 5), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


def test_a_body_is_refused_before_it_arrives(small: Served) -> None:
    host, port = small.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
        assert raw.recv(1000).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("length", ["-1", "1e3", "abc", "1, 2"])
def test_a_length_that_is_no_number_is_refused(small: Served, length: str) -> None:
    host, port = small.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(f"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode())
        assert raw.recv(1000)[9:12] in (b"400", b"413")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 90_000,
        b'{"objective":' * 7_000,
        b'{"objective": "x", "constraints": ' + b"[" * 2_000 + b"]" * 2_000 + b"}",
        b'{"objective": "x", "objective": "y"}',
        b'{"objective": "\\ud800"}',
        b'{"objective": NaN}',
        b'{"objective": ' + b"9" * 90_000 + b"}",
        b'{"objective": "\x00"}',
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"x"',
        b'{"objective": {"$ne": null}}',
        b'{"objective": "x", "__class__": "os.system"}',
        b'{"objective": ""}',
        b'{"objective": "x", "run_id": {"a": 1}}',
    ],
    ids=lambda body: body[:24].decode("latin1"),
)
def test_hostile_json_is_refused(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and answer.json()["code"] == "invalid_input"


HOSTILE = ["../../etc/passwd", "..", "a/../../b", "') OR 1=1--", "{a}", "*", "a\x00b", "a\nb", "x" * 300, "\u202e", "%"]


@pytest.mark.parametrize("id", HOSTILE, ids=repr)
def test_a_hostile_id_is_refused_or_just_an_id(http: httpx.Client, small: Served, id: str, tmp_path: Path) -> None:
    made = http.post("/runs", json={"objective": "x", "run_id": id})
    assert made.status_code in (200, 422)
    for path in ("/runs/{}", "/sessions/{}", "/threads/{}/slots", "/memories/{}", "/runs/{}/pack"):
        assert http.get(path.format(quote(id, safe=""))).status_code < 500


def test_a_hostile_id_matches_nothing_but_itself(http: httpx.Client) -> None:
    http.post("/runs", json={"objective": "x", "run_id": "victim"})
    assert http.get("/runs/" + quote("victim' OR '1'='1", safe="")).status_code == 404
    assert http.get("/runs", params={"after": "') OR 1=1--"}).status_code == 422
    assert http.get("/runs", params={"status": "') OR 1=1--"}).status_code == 422
    assert http.get("/sessions/search", params={"q": '") OR ("'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["../../../etc/passwd", "/etc/passwd", "/etc/a.zip", "a/b.zip", "..", "x\x00.zip", "x" * 300 + ".zip"]
)
def test_only_snapshots_can_be_loaded(http: httpx.Client, path: str) -> None:
    assert http.post("/runs/resume/load", json={"pack_path": path}).status_code in (404, 422)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=99999999999999999999", "after=x", "surprise=1", "limit=a"]
)
def test_a_query_that_makes_no_sense_is_refused(http: httpx.Client, query: str) -> None:
    run = http.post("/runs", json={"objective": "x"}).json()["run_id"]
    assert http.get(f"/runs/{run}/events?{query}").status_code == 422


def test_a_caller_in_a_hurry_is_slowed_down(tmp_path: Path) -> None:
    with served(str(tmp_path / "a.db")) as started, client(started.url) as http:
        # A clock that stands still: on a busy machine eight requests take longer than a place takes to become free.
        started.app.state.gate._rates = Rates(0.5, clock=lambda: 0.0)
        answers = [http.get("/runs") for _ in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert http.get("/health").status_code == 200


def test_places_become_free_with_time() -> None:
    now = [0.0]
    rates = Rates(0.5, clock=lambda: now[0])
    for _ in range(5):
        rates.take("ana")
    with pytest.raises(Refusal) as refused:
        rates.take("ana")
    assert refused.value.headers == {"Retry-After": "2"}
    now[0] += 2.0
    rates.take("ana")


def test_streams_are_counted_and_given_back(http: httpx.Client) -> None:
    def status() -> int:
        with http.stream("GET", "/threads/t/follow") as answer:
            return answer.status_code

    with http.stream("GET", "/threads/t/follow"), http.stream("GET", "/threads/t/follow"):
        assert status() == 429
    end = time.monotonic() + 60
    while status() != 200 and time.monotonic() < end:
        # A dead stream is noticed when it is written to.
        http.post("/threads/t/slots", json={"payload": 1, "from_id": "a"})
    assert status() == 200


@pytest.mark.parametrize("header", ["x", "-1", "9" * 30, "٣"])
def test_a_last_event_id_that_is_none_is_refused(http: httpx.Client, header: str) -> None:
    raw = {"Last-Event-ID": header.encode()}
    assert http.get("/threads/t/follow", headers=raw).status_code == 422  # type: ignore[arg-type]


def test_a_range_header_is_ignored(http: httpx.Client) -> None:
    run = http.post("/runs", json={"objective": "x"}).json()["run_id"]
    bomb = "bytes=" + ",".join(f"{start}-" for start in range(2_000))
    assert http.get(f"/runs/{run}/pack", headers={"Range": bomb}).status_code == 200


def test_too_many_headers_are_refused_by_the_web_server(small: Served) -> None:
    host, port = small.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as raw:
        try:
            raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 100_000 + b"\r\n")
            answer = raw.recv(1000)
        except OSError:
            answer = b""  # it hung up, which is fine too
    assert answer[9:12] in (b"", b"400", b"431")
    with client(small.url) as http:
        assert http.get("/health").status_code == 200


MANY, LONG = {f"x-{number}": "1" for number in range(200)}, {"x-long": "x" * 70_000}


@pytest.mark.parametrize("headers", [MANY, LONG], ids=["many", "long"])
def test_headers_over_the_limit_are_431(http: httpx.Client, headers: dict[str, str]) -> None:
    answer = http.get("/health", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (431, "headers_too_large")


def test_a_body_that_trickles_is_not_waited_for(small: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "WHOLE_SECONDS", 0.2)
    with trickling(small) as raw:
        assert raw.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_body_that_trickles_does_not_keep_a_server_from_leaving() -> None:
    with served() as started, trickling(started) as raw:
        until(lambda: started.app.state.held._left < started.app.state.settings.max_bodies_bytes)
        started.do(_set(started.app.state.shutdown.begun))
        assert raw.recv(1000).startswith(b"HTTP/1.1 503")


def test_whatever_is_still_open_a_while_after_the_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "GRACE_SECONDS", 0.0)
    ended: list[str] = []
    with served() as started, client(started.url) as http:

        async def endless(*_: Any) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        monkeypatch.setattr(started.app.state.gate, "admit", endless)
        asked = threading.Thread(target=lambda: http.get("/runs"))
        asked.start()
        until(lambda: bool(started.app.state.shutdown.requests))
        started.do(_set(started.app.state.shutdown.begun))
        asked.join(60)
        assert ended == ["cancelled"]


@contextmanager
def trickling(server: Served) -> Iterator[socket.socket]:
    """A request whose body has begun and does not end."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        yield raw


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_whoever_hangs_up_in_the_middle_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    with served() as started, caplog.at_level(logging.INFO, "strongroom.server"):
        host, port = started.url.removeprefix("http://").split(":")
        room = started.app.state.held
        full = room._left
        with socket.create_connection((host, int(port)), timeout=60) as raw:
            raw.sendall(head + b"x" * 50_000)
            until(lambda: room._left == full - 50_000)
        until(lambda: room._left == full and "POST /runs 400" in caplog.text)
    assert "failed" not in caplog.text


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def test_the_largest_turn_that_may_be_made_here_may_be_made_over_http() -> None:
    from_here = "x" * (parts.MAX_BYTES // 8 - 500)
    with served() as started, strongroom.connect(started.url) as ctx:
        thread = "t" * 200
        with ctx.turn() as full:
            for _ in range(8):
                full.send(thread, from_here, from_id="a")
            with pytest.raises(BudgetExceeded, match=f"a turn holds at most {parts.MAX_BYTES} bytes"):
                full.send(thread, from_here, from_id="a")
        assert len(ctx.threads.get(thread)) == 8


def test_a_server_holds_a_turn_to_the_same_bound_whatever_a_client_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = [["threads.append", "t", "", {"entries": [["str", ["x" * 1000], "a", None]]}]] * 5
    with served() as started, client(started.url) as http:
        monkeypatch.setattr(parts, "MAX_BYTES", 4000)
        told = wire.dump_operation(
            Operation(
                "turn", Key("default", "turn", "turn"), encode({"parts": operation}), f"~{new_id()}",
                encode({"parts": [None] * 5}),
            )
        )  # fmt: skip
        answer = http.post("/store/perform", content=told, headers={"Content-Type": wire.MEDIA})
        assert (answer.status_code, answer.json()["details"]["limit"]) == (413, 4000)
        assert http.get("/threads").json()["threads"] == []


@pytest.fixture
def crowded() -> Iterator[tuple[Served, httpx.Client]]:
    """A server that is busy with what others sent: there is room for a body of 70,000 bytes, but not for its answer."""
    with served(max_bodies_bytes=LIMIT, max_body_bytes=LIMIT) as started, client(started.url) as http:
        assert http.post("/sessions/s/messages", json=_said("before")).status_code == 200
        started.app.state.held.take(LIMIT - 80_000)
        yield started, http


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_what_was_written_is_never_answered_as_refused(crowded: tuple[Served, httpx.Client]) -> None:
    _, http = crowded
    assert http.post("/sessions/s/messages", json=_said("x" * 70_000)).status_code == 200
    assert [each["index"] for each in http.get("/sessions/s/messages?k=1").json()["messages"]] == [1]


def test_a_long_answer_that_is_only_read_is_refused_where_there_is_no_room(
    crowded: tuple[Served, httpx.Client],
) -> None:
    server, http = crowded
    http.post("/sessions/s/messages", json=_said("x" * 70_000))
    server.app.state.held.take(20_000, at_all_costs=True)
    answer = http.get("/sessions/s/messages")
    assert (answer.status_code, answer.json()["details"]) == (503, {"reason": "busy"})
    assert http.get("/sessions").status_code == 200


def test_what_is_held_at_all_costs_leaves_no_room_for_the_next() -> None:
    room = HeldBytes(10)
    room.take(12, at_all_costs=True)
    with pytest.raises(Refusal):
        room.take(1)
    room.take(0)
    room.give_back(12)
    room.take(10)
