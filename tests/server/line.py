"""A line between client and server that breaks: what was asked is done, and nobody hears of it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests.server.serving import PATIENCE_SECONDS


class Line:
    """A wire between client and server that can swallow the answers to what writes, or hold one back for a while."""

    def __init__(self, url: str) -> None:
        self._target = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        self.swallow = 0
        self.hold = False  # keep the next answer until `release`
        self.held, self.release = threading.Event(), threading.Event()
        self._commits: set[socket.socket] = set()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._target) as far:
            threading.Thread(target=self._carry_back, args=(far, near), daemon=True).start()
            while asked := _receive(near):
                if b"/store/commit" in asked or b"/store/perform" in asked:
                    self._commits.add(far)
                far.sendall(asked)

    def _carry_back(self, far: socket.socket, near: socket.socket) -> None:
        while answer := _receive(far):
            if self.swallow and far in self._commits:
                self.swallow -= 1
                break
            if self.hold and far in self._commits:
                self.hold = False
                self.held.set()
                self.release.wait(PATIENCE_SECONDS)
            self._commits.discard(far)
            near.sendall(answer)
        with suppress(OSError):  # the client may have hung up first
            near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.release.set()
        self._door.close()


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 20)
    except OSError:
        return b""
