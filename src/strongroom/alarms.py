"""An end to a connection whose time is over, whatever is being read from it just then.

A socket's own timeout is one for each piece that comes, so a stranger who sends a piece now and then is never out of
time. An alarm shuts the connection: whoever reads from it meets its end at once.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Timer


class Alarm:
    """Shuts the connections that it watches when its time is over; `rang` tells whether it did."""

    def __init__(self, seconds: float) -> None:
        self.rang = False
        self._watched = list[socket.socket]()
        self._lock = Lock()
        self._timer = Timer(seconds, self._ring)
        self._timer.daemon = True

    def watch(self, connection: socket.socket) -> None:
        """Watch a connection, from before it speaks TLS: what is shut is what lies beneath."""
        held = connection.dup()  # as TLS takes the socket itself away
        with self._lock:
            self._watched.append(held)
            if self.rang:
                _shut(held)

    def __enter__(self) -> Alarm:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for held in self._watched:
                held.close()
            self._watched.clear()

    def _ring(self) -> None:
        with self._lock:
            self.rang = True
            for held in self._watched:
                _shut(held)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # it is over already
        connection.shutdown(socket.SHUT_RDWR)
