"""A model service on this machine: real HTTP, both wire protocols, and whatever answer a test wants it to give."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

KEY = "sk-canary-0123456789"

Reply = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


class ModelServer:
    """Where it is, what it was asked, and how it replies: with a text, or as a function says."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.replies: list[Reply] = []
        self.text: str | Callable[[dict[str, Any]], str] = '{"memories": []}'

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["content-length"])))
        self.requests.append((request.path, {name.lower(): value for name, value in request.headers.items()}, body))
        if self.replies:
            self.replies.pop(0)(request, body)
            return
        text = self.text if isinstance(self.text, str) else self.text(body)
        send(request, 200, completion(request.path, text))


def completion(path: str, text: str) -> dict[str, Any]:
    """Return an answer as the protocol of a path has it."""
    if path == "/v1/chat/completions":
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage}
    assert path == "/v1/messages"
    block = {"type": "text", "text": text}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [block], "stop_reason": "end_turn"}


class Alarms:
    """The alarms that were set, which ring when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ring = list[Callable[[], None]]()
        monkeypatch.setattr("strongroom.alarms.Timer", self._timer)

    def _timer(self, seconds: float, ring: Callable[[], None]) -> Any:
        self._ring.append(ring)
        return SimpleNamespace(start=lambda: None, cancel=lambda: None)

    def dripping(self, *first: bytes) -> Reply:
        """Return what sends the first bytes of an answer, and then nothing till the client has gone."""

        def reply(request: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
            for piece in first:
                request.wfile.write(piece)
            self._ring[-1]()
            request.connection.settimeout(60)
            assert request.connection.recv(1) == b""

        return reply


def send(request: BaseHTTPRequestHandler, status: int, body: Any, **headers: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request.send_response(status)
    for name, value in {"content-type": "application/json", "content-length": str(len(raw)), **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(raw)


@contextmanager
def serving() -> Iterator[ModelServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                made.handle(self)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client had enough

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = ModelServer(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
