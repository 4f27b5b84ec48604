"""Sending commands and reading replies, in two colours. These are the only functions that touch a socket.

A wire decides nothing: it says what came back, or whether the message can have arrived (`Unsent`, `Lost`). The driver
connects, encrypts and signs in; the talking is ours (`resp`), because the driver takes longer for it than the server
for the commit, and because its own retries can not tell whether a message arrived. `BlockingWire` never suspends, so
`bridge.run` drives whatever awaits it.
"""

from __future__ import annotations

import asyncio
import os
import queue
import select
import socket
import struct
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import redis.asyncio
from msgspec import Struct
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import redis
from strongroom.backends.redis.failures import DRIVER_ERRORS, Garbled, Lost, Unsent, refused
from strongroom.backends.redis.guarantees import SETTINGS
from strongroom.backends.redis.layout import Address
from strongroom.backends.redis.resp import MORE, Command, Replies, pack
from strongroom.errors import InvalidInput

READ_BYTES = 256 * 1024

Node = tuple[str, int]
Judge = Callable[[Node | None, Sequence[Any]], None]


class Signal(Protocol):
    """Something to set that ends a pause."""

    def set(self) -> None: ...
    def clear(self) -> None: ...


class Dial(Struct, frozen=True):
    """How to make connections."""

    address: Address
    timeout_seconds: float
    max_connections: int

    @property
    def try_seconds(self) -> float:
        """Half the time for one try, so that a connection which has gone dead leaves time for another one."""
        return self.timeout_seconds / 2

    def maker(self, pool: Any, retry: Any, node: Node | None) -> Callable[[], Any]:
        """Return what makes connections to a node, as the driver's kind of `pool` would. They do not connect yet."""
        # Version 2 of the protocol and undecoded replies: a script's reply must look the same from every server.
        options = {
            "socket_timeout": self.try_seconds,
            "socket_connect_timeout": self.try_seconds,
            "decode_responses": False,
            "protocol": 2,
            "retry": retry,
        }
        made = _from_url(pool, self.address.url, options)
        if made is None:
            raise InvalidInput("the redis address has an option that is not understood; nothing was opened")
        if node is not None:
            made.connection_kwargs.update(host=node[0], port=node[1])  # afterwards: the address would win
        return partial(made.connection_class, **made.connection_kwargs)


class Line:
    """One connection, and what has come in on it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.replies = Replies()
        self.is_new = True
        self.news: Any = None  # tells threads whether something has come in unasked
        self._process = os.getpid()

    def is_ours(self) -> bool:
        """Tell whether it is not one of the process that this one was forked from."""
        return self._process == os.getpid()


class Lane:
    """The connections to one node; the one used last is used first. `room` says how many there may be at a time.

    The driver's own pool does the same, and takes a tenth of a commit's time for it.
    """

    def __init__(self, make: Callable[[], Any], room: Any) -> None:
        self.room = room
        self._make = make
        self._idle: list[Line] = []

    def take(self) -> Line:
        """Return an idle line, or a new one, still to be connected."""
        try:
            line = self._idle.pop()
        except IndexError:
            return Line(self._make())
        return line if line.is_ours() else Line(self._make())

    def give(self, line: Line) -> None:
        """Keep a line for the next one who needs it."""
        self._idle.append(line)

    def drain(self) -> list[Line]:
        """Forget the idle lines and return them."""
        lines, self._idle = self._idle, []
        return lines


class Room:
    """How many threads may talk to a node at a time. threading.Semaphore does the same in Python, ten times slower."""

    def __init__(self, dial: Dial) -> None:
        self._timeout = dial.timeout_seconds
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(dial.max_connections):
            self._free.put(None)

    def acquire(self) -> bool:
        try:
            self._free.get(timeout=self._timeout)
        except queue.Empty:
            return False
        return True

    def release(self) -> None:
        self._free.put(None)


class Wire(ABC):
    """A way to a server, or to the nodes of a cluster (None: the one in the address).

    `judge` is given what a node says about itself, on each new connection before it is used: a node may have been
    restarted with other settings. What is abstract here is all that the two colours do differently.
    """

    def __init__(self, dial: Dial) -> None:
        self.judge: Judge = _accept
        self._dial = dial
        self._lanes: dict[Node | None, Lane] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._lane(None)

    async def exchange(self, commands: Sequence[Command], node: Node | None) -> list[Any]:
        """Send commands on one connection; return their replies, a `Refused` where the server answered so."""
        lane = self._lanes.get(node) or self._lane(node)
        if not await self._enter(lane):
            raise Unsent
        line, sent = lane.take(), False
        try:
            while not (line.is_new or self._is_quiet(line)):
                await self._disconnect(line.connection)
                line = lane.take()
            if line.is_new:
                await self._connect(line)
                self.judge(node, await self._talk(line, SETTINGS))
                line.is_new = False
            sent = True
            replies = await self._talk(line, commands)
            lane.give(line)
            return replies
        except BaseException as error:
            # If one is dead, so are probably all that wait beside it.
            for each in (line, *lane.drain()):
                await self._disconnect(each.connection)
            if isinstance(error, DRIVER_ERRORS):
                raise (Lost if sent else refused(error) or Unsent) from None
            raise
        finally:
            lane.room.release()
            if self._closed:
                await self.close()

    async def close(self) -> None:
        """Let go of all connections that nobody uses now; the others follow when they are given back."""
        self._closed = True
        for lane in self._lanes.values():
            for line in lane.drain():
                await self._disconnect(line.connection)

    async def _talk(self, line: Line, commands: Sequence[Command]) -> list[Any]:
        await self._send(line.connection, pack(commands))
        found: list[Any] = []
        while len(found) < len(commands):
            data = await self._receive(line.connection)
            if not data:
                raise Garbled  # the other side hung up
            line.replies.feed(data)
            while len(found) < len(commands) and (reply := line.replies.take()) is not MORE:
                found.append(reply)
        return found

    def _lane(self, node: Node | None) -> Lane:
        with self._lock:
            if node not in self._lanes:
                self._lanes[node] = self._make_lane(node)
            return self._lanes[node]

    @abstractmethod
    def _make_lane(self, node: Node | None) -> Lane: ...
    @abstractmethod
    async def _enter(self, lane: Lane) -> bool: ...
    @abstractmethod
    async def _connect(self, line: Line) -> None: ...
    @abstractmethod
    def _is_quiet(self, line: Line) -> bool:
        """Tell whether an idle line is still open, and nothing unexpected has come in."""

    @abstractmethod
    async def _send(self, connection: Any, data: bytes) -> None: ...
    @abstractmethod
    async def _receive(self, connection: Any) -> bytes: ...
    @abstractmethod
    async def _disconnect(self, connection: Any) -> None: ...
    @abstractmethod
    def signal(self) -> Signal: ...
    @abstractmethod
    async def pause(self, seconds: float, signal: Any = None) -> None: ...


class BlockingWire(Wire):
    """For threads."""

    def _make_lane(self, node: Node | None) -> Lane:
        return Lane(self._dial.maker(redis.ConnectionPool, Retry(NoBackoff(), 0), node), Room(self._dial))

    async def _enter(self, lane: Lane) -> bool:
        entered: bool = lane.room.acquire()
        return entered

    async def _connect(self, line: Line) -> None:
        line.connection.connect()
        _let_the_kernel_wait(line.connection._sock)
        line.news = select.poll()
        line.news.register(line.connection._sock, select.POLLIN)

    def _is_quiet(self, line: Line) -> bool:
        return not line.news.poll(0)

    async def _send(self, connection: Any, data: bytes) -> None:
        connection._sock.sendall(data)

    async def _receive(self, connection: Any) -> bytes:
        data: bytes = connection._sock.recv(READ_BYTES)
        return data

    async def _disconnect(self, connection: Any) -> None:
        connection.disconnect()

    def signal(self) -> threading.Event:
        return threading.Event()

    async def pause(self, seconds: float, signal: threading.Event | None = None) -> None:
        (signal or threading.Event()).wait(seconds)


class AsyncWire(Wire):
    """For an event loop."""

    def _make_lane(self, node: Node | None) -> Lane:
        make = self._dial.maker(redis.asyncio.ConnectionPool, AsyncRetry(NoBackoff(), 0), node)
        return Lane(make, asyncio.Semaphore(self._dial.max_connections))

    async def _enter(self, lane: Lane) -> bool:
        if lane.room.locked():
            try:
                async with asyncio.timeout(self._dial.timeout_seconds):
                    await lane.room.acquire()
            except TimeoutError:
                return False
        else:
            await lane.room.acquire()  # at once: a limit to the time would cost more than the rest
        return True

    async def _connect(self, line: Line) -> None:
        await line.connection.connect()

    def _is_quiet(self, line: Line) -> bool:
        return not line.connection._reader.at_eof()

    async def _send(self, connection: Any, data: bytes) -> None:
        connection._writer.write(data)
        async with asyncio.timeout(self._dial.try_seconds):
            await connection._writer.drain()

    async def _receive(self, connection: Any) -> bytes:
        async with asyncio.timeout(self._dial.try_seconds):
            data: bytes = await connection._reader.read(READ_BYTES)
            return data

    async def _disconnect(self, connection: Any) -> None:
        await connection.disconnect(nowait=True)

    def signal(self) -> asyncio.Event:
        return asyncio.Event()

    async def pause(self, seconds: float, signal: asyncio.Event | None = None) -> None:
        if signal is None:
            await asyncio.sleep(seconds)
            return
        try:
            await asyncio.wait_for(signal.wait(), seconds)
        except TimeoutError:
            pass


def _accept(node: Node | None, replies: Sequence[Any]) -> None:
    """Judge nobody."""


def _from_url(kind: Any, url: str, options: dict[str, Any]) -> Any:
    try:
        pool = kind.from_url(url, **options)
        pool.connection_class(**pool.connection_kwargs)  # does not connect yet, but would complain about its options
    except (ValueError, TypeError, redis.RedisError):
        return None  # and the error, which may quote the address, goes no further
    return pool


def _let_the_kernel_wait(sock: Any) -> None:
    """Move a plain socket's time limit into the kernel. Python keeps one by asking, before each call, whether to."""
    seconds = sock.gettimeout()
    if type(sock) is socket.socket and seconds and sys.platform == "linux":
        limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
