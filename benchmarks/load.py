"""Load for a web server: processes on this machine, and a client too light to be what is measured.

A request is bytes made beforehand, a connection is a plain socket that is kept, and one thread serves all of them, so
that on two cores the server has one for itself. The same client measures both rivals.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Ask = Callable[[int], bytes]  # the bytes of the nth request


class Server:
    """An application behind uvicorn, with so many workers."""

    def __init__(self, app: str, folder: Path, workers: int = 1) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        command = [sys.executable, "-m", "benchmarks.apps", app, str(self.port), str(workers)]
        self._process = subprocess.Popen(command, env={**os.environ, "FOLDER": str(folder)})
        end = time.monotonic() + 60
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"{app} did not start")
            time.sleep(0.02)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def cpu_seconds(self) -> float:
        """Return the processor time that the server has used so far (Linux)."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(app: str, folder: Path, workers: int = 1) -> Iterator[Server]:
    started = Server(app, folder, workers)
    try:
        yield started
    finally:
        started.stop()


class Line:
    """A kept connection on which one question follows the other."""

    def __init__(self, server: Server, ask: Ask) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask = ask
        self._asked = 0
        self._buffer = b""

    def send(self) -> None:
        self.socket.sendall(self._ask(self._asked))
        self._asked += 1

    def answered(self) -> bool:
        """Read what has come; tell whether it completes the answer."""
        if not (piece := self.socket.recv(65536)):
            raise RuntimeError("the server hung up")
        self._buffer += piece
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]):
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(self._buffer.decode(errors="replace"))
        self._buffer = b""
        return True


def seconds(lines: list[Line], times: int) -> float:
    """Return how long it takes until `times` questions, asked on all lines at once, have been answered."""
    if len(lines) == 1:
        return _seconds_alone(lines[0], times)
    with selectors.DefaultSelector() as ready:
        for line in lines:
            ready.register(line.socket, selectors.EVENT_READ, line)
        start = time.perf_counter()
        for line in lines:
            line.send()
        sent, done = len(lines), 0
        while done < times:
            for found, _ in ready.select():
                if found.data.answered():
                    done += 1
                    if sent < times:
                        found.data.send()
                        sent += 1
        return time.perf_counter() - start


def _seconds_alone(line: Line, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        line.send()
        while not line.answered():
            pass
    return time.perf_counter() - start


def get(path: str) -> Ask:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    return lambda _: request


def patch(path: str) -> Ask:
    """Update a run that nobody else updates. Spaces after the number keep the length."""
    body = b'{"patch": {"next_action": "one more"}, "expected_seq": %-8d}'
    head = f"PATCH {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body % 0) + body
    return lambda number: request % number
