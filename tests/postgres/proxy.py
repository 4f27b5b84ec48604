"""Networks that misbehave, and a pooler, between a store and its server."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress


def receive(sock: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes; raise `ConnectionError` at the end of the stream."""
    parts = b""
    while len(parts) < size:
        chunk = sock.recv(size - len(parts))
        if not chunk:
            raise ConnectionError
        parts += chunk
    return parts


def message(sock: socket.socket) -> tuple[bytes, bytes]:
    """Return the type of the next protocol message, and all its bytes."""
    head = receive(sock, 5)
    (size,) = struct.unpack(">i", head[1:])
    return head[:1], head + receive(sock, size - 4)


def reset(*socks: socket.socket) -> None:
    """Close with a RST, as a crashed machine's peer would see it."""
    for sock in socks:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()


class Listening:
    """A port that hands each connection to `serve`, in a thread of its own."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def serve(self, client: socket.socket) -> None:
        raise NotImplementedError

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._served, args=(client,), daemon=True).start()

    def _served(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            self.serve(client)


class Proxy(Listening):
    """Passes bytes on until told to lose some."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._open: list[tuple[socket.socket, socket.socket]] = []
        self._lose_replies = 0
        self._lose_requests = 0
        self._hold_requests = 0
        self._released = threading.Event()
        self.late = threading.Event()  # set once a request that was held has been answered, and nobody listened
        self._flowing = threading.Event()
        self._flowing.set()
        self.refusing = False
        self.lost = 0
        super().__init__()

    def lose_replies(self, count: int = 1) -> None:
        """Cut the connection when the server has answered, before the client hears it; `count` times."""
        self._lose_replies = count

    def lose_requests(self, count: int = 1) -> None:
        """Cut the connection when the client has asked, before the server hears it; `count` times."""
        self._lose_requests = count

    def hold_requests(self, count: int = 1) -> None:
        """Cut the client off when it has asked, and let the server hear it only after `release`; `count` times."""
        self._hold_requests = count

    def release(self) -> None:
        self._released.set()

    def stall(self) -> None:
        """Keep connections open and let nothing through."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def serve(self, client: socket.socket) -> None:
        if self.refusing:
            reset(client)
            return
        server = socket.create_connection(("127.0.0.1", self._upstream))
        self._open.append((client, server))
        back = threading.Thread(target=self._pump, args=(server, client, self._is_reply_lost), daemon=True)
        back.start()
        held = self._pump(client, server, self._is_request_lost)
        if held:
            self._released.wait()
            server.sendall(held)
        back.join()
        server.close()
        if held:
            self.late.set()

    def close(self) -> None:
        super().close()
        self._flowing.set()
        self._released.set()
        for pair in self._open:
            reset(*pair)

    def _pump(self, source: socket.socket, target: socket.socket, is_lost: Callable[[], bool]) -> bytes:
        """Pass bytes on until one side closes; return what is to be passed on later."""
        with suppress(OSError):
            while data := source.recv(65536):
                if is_lost():
                    self.lost += 1
                    break
                self._flowing.wait()
                if is_lost == self._is_request_lost and self._hold_requests > 0:
                    self._hold_requests -= 1
                    reset(source)
                    return data
                target.sendall(data)
        reset(source, target)
        return b""

    def _is_reply_lost(self) -> bool:
        self._lose_replies -= 1
        return self._lose_replies >= 0

    def _is_request_lost(self) -> bool:
        self._lose_requests -= 1
        return self._lose_requests >= 0


class Pooler(Listening):
    """Gives each transaction to another server connection, and wipes what it leaves behind. Knows trust only."""

    def __init__(self, upstream: int, backends: int = 3) -> None:
        self._upstream = upstream
        self._idle: list[socket.socket] = []
        self._backends = backends
        self._lock = threading.Condition()
        self._greeting = b""
        self._closed = False
        self.transactions = 0
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        (size,) = struct.unpack(">i", receive(client, 4))
        startup = receive(client, size - 4)
        if size == 8:  # a request for encryption: no, thanks
            client.sendall(b"N")
            (size,) = struct.unpack(">i", receive(client, 4))
            startup = receive(client, size - 4)
        with self._lock:
            while not self._closed and len(self._idle) < self._backends:
                self._connect(struct.pack(">i", size) + startup)
        client.sendall(self._greeting)
        while True:
            kind, request = message(client)
            if kind == b"X":
                return
            while kind not in (b"Q", b"S"):
                kind, more = message(client)
                request += more
            with self._lock:
                if self._closed:
                    return
                server = self._idle[0]  # the one that has rested longest: never the same twice in a row
                self._idle.append(self._idle.pop(0))
                self.transactions += 1
                server.sendall(request)
                reply = _until_ready(server)
                assert reply.endswith(b"I"), "a transaction was left open"
                server.sendall(b"Q" + struct.pack(">i", 16) + b"DISCARD ALL\0")
                _until_ready(server)
            client.sendall(reply)

    def close(self) -> None:
        super().close()
        with self._lock:
            self._closed = True
            reset(*self._idle)

    def _connect(self, startup: bytes) -> None:
        server = socket.create_connection(("127.0.0.1", self._upstream))
        self._idle.append(server)
        server.sendall(startup)
        self._greeting = _until_ready(server)


def _until_ready(server: socket.socket) -> bytes:
    kind, reply = message(server)
    while kind != b"Z":
        kind, more = message(server)
        reply += more
    return reply
