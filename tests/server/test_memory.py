"""However much is sent, and however slowly, what a server holds in memory is bounded."""

from __future__ import annotations

import io
import re
import socket
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.codec import encode
from strongroom.protocol import wire
from strongroom.server.limits import HeldBytes
from strongroom.server.responses import Refusal
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from strongroom.store import AnyQuestion, Append, Commit, Entry, Get, Key, Put, Range, Scan, Tail, new_id
from tests.server.conftest import client
from tests.server.serving import Process, process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc how much memory was used")

MIB = 1024 * 1024
BODY = MIB  # the limit in force
MOST_MIB = 96  # what an attack may cost; it takes less than 20, and each sends or asks for far more
ZIP = {"Content-Type": "application/zip"}
ACCEPT = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder: Path = tmp_path_factory.mktemp("memory")
    limits = {"STRONGROOM_MAX_BODY_BYTES": str(BODY), "STRONGROOM_MAX_BODIES_BYTES": str(16 * MIB)}
    with process(folder / "agent.db", **limits) as started:
        yield started


def peak_mib(server: Process) -> float:
    """The most that the process ever held."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found.group(1)) / 1024


def at_once(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def pieces(mib: int) -> Iterator[bytes]:
    for _ in range(16 * mib):
        yield b" " * (MIB // 16)


def test_bodies_that_hide_their_size(server: Process) -> None:
    before, statuses = peak_mib(server), []

    def work(_: int) -> None:
        with client(server.url) as http, suppress(httpx.TransportError):  # hanging up is a refusal too
            statuses.append(http.post("/runs", content=pieces(32)).status_code)

    at_once(16, work)
    assert set(statuses) <= {413, 503} and peak_mib(server) - before < MOST_MIB


def test_many_large_bodies_that_never_end(server: Process) -> None:
    """300 bodies, each just below the limit, none complete: the first ones are held, the others refused."""
    before = peak_mib(server)
    head = f"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY}\r\n\r\n".encode()
    with ExitStack() as stack:
        for _ in range(300):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            with suppress(OSError):
                raw.sendall(head + b" " * (BODY - 1))
        with client(server.url) as http:
            assert http.get("/runs").status_code == 200
        assert peak_mib(server) - before < MOST_MIB


def test_json_that_grows_when_it_is_parsed(server: Process) -> None:
    before = peak_mib(server)
    wide = b'{"objective": [' + b"[]," * (BODY // 3 - 20) + b"[]]}"

    def work(_: int) -> None:
        with client(server.url) as http:
            assert http.post("/runs", content=wide).status_code in (422, 503)

    at_once(4, work)
    assert peak_mib(server) - before < MOST_MIB


@pytest.mark.parametrize("mib", [200, 300], ids=["too repetitive", "too large"])
def test_a_zip_bomb(server: Process, mib: int) -> None:
    before, bomb = peak_mib(server), io.BytesIO()
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
        made.open("working_set.json", "w") as entry,
    ):
        for piece in pieces(mib):
            entry.write(piece)
    with client(server.url) as http:
        answer = http.post("/runs/restore", content=bomb.getvalue(), headers=ZIP)
        assert answer.status_code == 422 and answer.json()["code"] == "invalid_input"
        assert http.get("/runs").json()["runs"] == []
    assert peak_mib(server) - before < MOST_MIB


def test_asking_for_everything(server: Process) -> None:
    key = Key("default", "note", "long")
    entries = tuple(Entry("note", encode("x" * 4000)) for _ in range(200))
    with strongroom.connect(server.url) as ctx:
        for _ in range(100):
            ctx.store.commit(Commit(new_id(), (), (Append(key, entries),)))
    before, sizes = peak_mib(server), []
    everything = wire.dump_questions([Range(key)] * 50)

    def work(_: int) -> None:
        with client(server.url) as http:
            answer = http.post("/store/read", content=everything, headers={"Content-Type": wire.MEDIA})
            assert answer.status_code == 200
            sizes.append(len(answer.content))

    at_once(8, work)
    assert max(sizes) < 4 * MIB and peak_mib(server) - before < MOST_MIB


MESSAGES = 48  # of a megabyte each, so that any answer with all of them is over the bound


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with usual limits that holds a lot."""
    store = tmp_path_factory.mktemp("heavy") / "agent.db"
    with strongroom.open(store) as ctx:  # not through the server, where each word would be looked at on both sides
        session, run = ctx.sessions.open("s"), ctx.runs.create(objective="x", run_id="r")
        for number in range(MESSAGES):
            text = f"word {number} " + "x" * MIB
            session.append([{"role": "user", "content": text}])
            run.record("TOOL_RESULT", {"tool_name": "t", "ok": True, "result": text})
            ctx.threads.append("t", text, from_id="a")
            ctx.store.commit(Commit(new_id(), (), (Put(Key("default", "note", f"n{number}"), encode(text)),)))
            if number < 12:
                ctx.files.write(f"/notes/{number}.md", text[:MIB])
        run.attach(b"x" * (24 * MIB), type="text")
        dense = ctx.sessions.open("dense")
        for _ in range(24):
            dense.append([{"role": "user", "content": DENSE}])
    with process(store) as started:
        yield started


# The largest question of each endpoint that reads; one that is not here is asked without a query.
LARGEST = {
    "/runs": "limit=1000",
    "/runs/{run_id}/events": "limit=1000",
    "/runs/{run_id}/at": "seq=0",
    "/runs/{run_id}/diff": "from_seq=0&to_seq=0",
    "/runs/{run_id}/brief": "max_tokens=10000000",
    "/runs/{run_id}/episodes": "limit=1000",
    "/runs/{run_id}/follow": "after=0",
    "/runs/{run_id}/memory/search": "q=word&top_k=1000",
    "/sessions": "limit=1000",
    "/sessions/search": "q=word&k=1000",
    "/sessions/{session_id}/messages": "limit=1000",
    "/sessions/{session_id}/window": "max_tokens=10000000",
    "/sessions/{session_id}/search": "q=word&k=1000",
    "/sessions/{session_id}/follow": "after=0",
    "/memories": "limit=1000&everyone=true",
    "/memories/pending": "limit=1000",
    "/memories/search": "q=word&k=1000",
    "/memories/revoke/preview": "source_ref=a&limit=1000",
    "/memories/sources": "ref=message%3As%2F0",
    "/threads": "limit=1000",
    "/threads/dead": "limit=1000",
    "/threads/{thread_id}/follow": "after=0",
    "/files": "limit=1000",
    "/files/text": "path=/notes/0.md",
    "/files/history": "path=/notes/0.md&limit=1000",
    "/files/search": "q=word&k=1000",
    "/changes": "watch=run:r&watch=session:s",
    "/search": "q=word&k=50",
}
IDS = {"run_id": "r", "session_id": "s", "thread_id": "t", "memory_id": "m", "batch_id": "b"}
READING = [each for each in ENDPOINTS if each.method == "GET"]


def forget_peak(server: Process) -> float:
    """Let the most that the process held be what it holds now, where the kernel lets us; return it."""
    with suppress(OSError):
        Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    return peak_mib(server)


def taken(http: httpx.Client, method: str, path: str, **more: Any) -> tuple[int, int]:
    """Return the status of an answer and how long it is; a stream is left after what it says at first."""
    with http.stream(method, path, **more) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, len(next(answer.iter_bytes(), b""))
        return answer.status_code, sum(map(len, answer.iter_bytes()))


def test_no_endpoint_that_reads_is_missing() -> None:
    assert LARGEST.keys() <= {each.path for each in READING}


@pytest.mark.parametrize("endpoint", READING, ids=lambda each: each.path)
def test_whatever_is_read_makes_a_server_hold_little(heavy: Process, endpoint: Endpoint) -> None:
    with client(heavy.url) as http:
        [artifact] = http.get("/runs/r").json()["artifact_refs"]
        ids = {**IDS, "artifact_id": artifact["id"]}
        path = re.sub(r"{(\w+)}", lambda found: ids[found.group(1)], endpoint.path)
        before = forget_peak(heavy)
        status, size = taken(http, "GET", f"{path}?{LARGEST.get(endpoint.path, '')}".rstrip("?"))
    assert status in (200, 404, 413, 422) and peak_mib(heavy) - before < 64
    assert size < 9 * MIB or endpoint.media in ("application/zip", "application/octet-stream")


PROMPT = {"max_tokens": 10_000_000, "run_id": "r", "session_id": "s", "query": "word"}
TOOLS: dict[str, dict[str, Any]] = {
    "session_window": {"session_id": "s", "max_tokens": 12_000},
    "session_search": {"query": "word", "k": 50},
    "run_get": {"run_id": "r", "limit": 50},
    "run_list": {"limit": 50},
    "files_view": {"path": "/notes/0.md", "lines": 2000},
    "search": {"query": "word"},
    "fetch": {"id": "/notes/0.md"},
    "memory_search": {"query": "word", "k": 50},
}


def test_a_prompt_makes_a_server_hold_little(heavy: Process) -> None:
    with client(heavy.url) as http:
        before = forget_peak(heavy)
        status, _ = taken(http, "POST", "/prompt", json=PROMPT)
    assert status in (200, 413, 422) and peak_mib(heavy) - before < 64


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_of_assistants_makes_a_server_hold_little(heavy: Process, tool: str) -> None:
    told = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": TOOLS[tool]}}
    with client(heavy.url) as http:
        hello = http.post("/mcp", json=HELLO, headers=ACCEPT)
        session = {**ACCEPT, "Mcp-Session-Id": hello.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        before = forget_peak(heavy)
        answer = http.post("/mcp", json=told, headers=session)
    assert answer.status_code == 200 and '"result"' in answer.text and len(answer.content) < MIB
    assert peak_mib(heavy) - before < 64


@pytest.mark.parametrize("shape", ["empty lists", "depth", "keys"])
def test_a_small_body_of_an_assistant_makes_a_server_hold_little(heavy: Process, shape: str) -> None:
    with client(heavy.url) as http:
        before = forget_peak(heavy)
        answer = http.post("/mcp", content=SMALL_BODIES[shape], headers={"Content-Type": "application/json", **ACCEPT})
    assert 400 <= answer.status_code < 500 and peak_mib(heavy) - before < 64


DENSE: list[Any] = [[]] * 100_000  # three bytes each on the way, and twenty times that once parsed
NOTE = Key("default", "note", "n0")
MESSAGE = Key("default", "message", "s")
SMALL_READS: dict[str, list[AnyQuestion]] = {
    "one document 400 times": [Get(NOTE)] * 400,
    "many documents": [Get(Key("default", "note", f"n{number}")) for number in range(MESSAGES)],
    "a whole stream 400 times": [Range(MESSAGE)] * 400,
    "its newest records": [Tail(MESSAGE, MESSAGES), Tail(MESSAGE, max_weight=2**50)] * 100,
    "whole kinds": [Scan("default", "note", limit=10_000)] * 400,
}
SMALL_PAGES = (
    "/sessions/s/messages?limit=1000",
    "/sessions/s/messages?k=1000",
    "/sessions/s/window?max_tokens=10000000",
    "/sessions/s/search?q=word&k=1000",
    "/sessions/search?q=word&k=1000",
    "/runs/r/events?limit=1000",
    "/runs/r/verify",
    "/runs/r/at?seq=0",
    "/runs/r/brief?max_tokens=10000000",
    "/runs/r/episodes?limit=1000",
    "/runs/r/pack",
    "/threads/t/slots",
    "/sessions/dense/messages?limit=1000",
    "/sessions/dense/window?max_tokens=10000000",
)
SMALL = 63 * 1024
SMALL_BODIES = {
    "empty lists": b'{"objective": [' + b"[]," * (SMALL // 3) + b"[]]}",
    "empty objects": b'{"objective": [' + b"{}," * (SMALL // 3) + b"{}]}",
    "numbers": b'{"objective": [' + b"300," * (SMALL // 4) + b"1]}",
    "keys": b'{"objective": {' + b",".join(b'"%d":0' % number for number in range(SMALL // 9)) + b"}}",
    "escapes": b'{"objective": "' + b"\\u0041" * (SMALL // 6) + b'"}',
    "depth": b'{"objective": ' + b"[" * SMALL,
}


@pytest.mark.parametrize("shape", SMALL_BODIES)
def test_a_small_body_makes_a_server_hold_little(heavy: Process, shape: str) -> None:
    body = SMALL_BODIES[shape]
    assert len(body) < 64 * 1024
    before = peak_mib(heavy)
    with client(heavy.url) as http:
        for path in ("/runs", "/sessions/s/messages", "/threads/t/slots", "/memories/propose", "/runs/r/events"):
            assert http.post(path, content=body).status_code in (200, 413, 422)
    assert peak_mib(heavy) - before < 64


@pytest.mark.parametrize("byte", [b"\x90", b"\x80", b"\xc0", b"\xa0"], ids=["lists", "maps", "nil", "texts"])
def test_a_small_body_of_the_port_makes_a_server_hold_little(heavy: Process, byte: bytes) -> None:
    body = b"\xdd" + (SMALL).to_bytes(4, "big") + byte * SMALL
    before = peak_mib(heavy)
    with client(heavy.url) as http:
        for path in ("/store/read", "/store/perform", "/store/commit", "/store/search", "/store/wait"):
            answer = http.post(path, content=body, headers={"Content-Type": wire.MEDIA})
            assert answer.status_code == 422
    assert peak_mib(heavy) - before < 64


def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(heavy: Process) -> None:
    before = peak_mib(heavy)
    wide = b'{"messages": [{"role": "user", "content": [' + b"[]," * 600_000 + b"[]]}]}"
    with client(heavy.url) as http:
        answer = http.post("/sessions/s/messages", content=wide)
    assert (answer.status_code, answer.json()["details"]["limit"]) == (413, 500_000)
    assert peak_mib(heavy) - before < 64


def test_commas_within_a_text_are_no_values(heavy: Process) -> None:
    with client(heavy.url) as http:
        table = {"role": "user", "content": '1,"2",[3],{4}\\\n' * 100_000}
        assert http.post("/sessions/tables/messages", json={"messages": [table]}).status_code == 200


@pytest.mark.parametrize("asked", SMALL_READS)
def test_a_small_read_makes_a_server_hold_little(heavy: Process, asked: str) -> None:
    before = peak_mib(heavy)
    content = wire.dump_questions(SMALL_READS[asked])
    assert len(content) < 64 * 1024
    with client(heavy.url) as http:
        answer = http.post("/store/read", content=content, headers={"Content-Type": wire.MEDIA})
    assert answer.status_code == 200 and len(answer.content) < 9 * MIB and peak_mib(heavy) - before < 64


@pytest.mark.parametrize("path", SMALL_PAGES)
def test_a_small_request_makes_a_server_hold_little(heavy: Process, path: str) -> None:
    before = peak_mib(heavy)
    with client(heavy.url) as http:
        answer = http.get(path)
    assert answer.status_code in (200, 413) and peak_mib(heavy) - before < 64
    assert len(answer.content) < 9 * MIB or path.endswith("pack")  # which is a file, sent piece by piece


def test_room_is_given_back() -> None:
    room = HeldBytes(10)
    room.take(6)
    with pytest.raises(Refusal) as busy:
        room.take(5)
    assert busy.value.status == 503
    room.give_back(6)
    room.take(10)


def test_a_server_that_was_attacked_still_has_all_its_room(server: Process) -> None:
    """After everything above: bodies as large as they may be, one after the other, more than fit at once."""
    large = b'{"objective": "x", "constraints": ["' + b"x" * (BODY - 100) + b'"]}'
    with client(server.url) as http:
        assert {http.post("/runs", content=large).status_code for _ in range(20)} <= {413, 422}
