"""A TCP proxy that fails where it is told to: between the server's execution and its reply, or before either."""

from __future__ import annotations

import socket
import struct
import threading

RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Passes bytes on to `port`. Each request with `marker` in it is a chance to fail, taken `times` times."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.marker = b"EVAL"
        self.requests = 0  # how many with the marker came by
        self.cut_replies = 0  # execute, then reset the connection instead of replying
        self.cut_requests = 0  # reset the connection instead of executing
        self.hold_requests = 0  # reset the connection, and let the request through only after `release`
        self.hold_replies = 0  # execute, and reply only after `release`
        self.held = threading.Event()  # set once such a reply is being kept
        self.release = threading.Event()
        self.released = threading.Event()  # set when a held request has reached the server and was answered
        self._sockets: list[socket.socket] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self.release.set()
        for each in [self._listener, *self._sockets]:
            _reset(each)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                continue
            self._sockets += [client, server]
            pumps = (client, server, threading.Event(), threading.Event())
            threading.Thread(target=self._requests, args=pumps, daemon=True).start()
            threading.Thread(target=self._replies, args=pumps, daemon=True).start()

    def _requests(
        self, client: socket.socket, server: socket.socket, cut: threading.Event, hold: threading.Event
    ) -> None:
        try:
            while data := client.recv(65536):
                if self.marker in data:
                    self.requests += 1
                    if self.cut_requests > 0:
                        self.cut_requests -= 1
                        break
                    if self.cut_replies > 0:
                        self.cut_replies -= 1
                        cut.set()
                    if self.hold_replies > 0:
                        self.hold_replies -= 1
                        hold.set()
                    if self.hold_requests > 0:
                        self.hold_requests -= 1
                        _reset(client)  # so that nobody waits for its time to be up
                        self._deliver_late(data)
                        break
                server.sendall(data)
        except OSError:
            pass
        if not cut.is_set():
            _reset(client)
            _reset(server)

    def _deliver_late(self, data: bytes) -> None:
        self.release.wait()
        if self._closed:
            return
        with socket.create_connection(("127.0.0.1", self._target)) as late:
            late.sendall(data)
            late.recv(65536)
        self.released.set()

    def _replies(
        self, client: socket.socket, server: socket.socket, cut: threading.Event, hold: threading.Event
    ) -> None:
        try:
            while data := server.recv(65536):
                if cut.is_set():
                    break
                if hold.is_set():
                    self.held.set()
                    self.release.wait()
                client.sendall(data)
        except OSError:
            pass
        _reset(client)
        _reset(server)


def _reset(each: socket.socket) -> None:
    try:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    each.close()
