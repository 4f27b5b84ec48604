"""Sending commands and reading replies, in two colours. These are the only functions that touch a socket.

A wire decides nothing: it says what came back, or whether the message can have arrived (`Unsent`, `Lost`). The driver's
own retries are off, because they can not tell the two apart. `BlockingWire` never suspends, so `bridge.run` drives
whatever awaits it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import redis.asyncio
from msgspec import Struct
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import redis
from holdfast.backends.redis.failures import DRIVER_ERRORS, Lost, Refused, Unsent, refused
from holdfast.backends.redis.guarantees import SETTINGS
from holdfast.backends.redis.layout import Address
from holdfast.errors import InvalidInput

Node = tuple[str, int]
Command = Sequence[Any]
Judge = Callable[[Node | None, Sequence[Any]], None]


class Signal(Protocol):
    """Something to set that ends a pause."""

    def set(self) -> None: ...
    def clear(self) -> None: ...


class Wire(Protocol):
    """A way to a server, or to the nodes of a cluster (None: the one in the address).

    `judge` is given what a node says about itself, on each new connection before it is used: a node may have been
    restarted with other settings.
    """

    judge: Judge

    async def exchange(self, commands: Sequence[Command], node: Node | None) -> list[Any]:
        """Send commands on one connection; return their replies, a `Refused` where the server answered so."""
        ...

    def signal(self) -> Signal: ...
    async def pause(self, seconds: float, signal: Any = None) -> None: ...
    async def close(self) -> None: ...


class Dial(Struct, frozen=True):
    """How to make connections."""

    address: Address
    timeout_seconds: float
    max_connections: int

    def pool(self, kind: Any, retry: Any, connected: Any, node: Node | None) -> Any:
        """Make a pool of the driver's `kind` for a node; `connected`, if any, is called with each new connection."""
        # Version 2 of the protocol and undecoded replies: a script's reply must look the same from every server.
        # Half the time for one try, so that a connection which has gone dead leaves time for another one.
        options = {
            "max_connections": self.max_connections,
            "socket_timeout": self.timeout_seconds / 2,
            "socket_connect_timeout": self.timeout_seconds / 2,
            "decode_responses": False,
            "protocol": 2,
            "retry": retry,
            "redis_connect_func": connected,
        }
        if issubclass(kind, redis.asyncio.BlockingConnectionPool):
            options["timeout"] = self.timeout_seconds
        pool = _from_url(kind, self.address.url, options)
        if pool is None:
            raise InvalidInput("the redis address has an option that is not understood; nothing was opened")
        if node is not None:
            pool.connection_kwargs.update(host=node[0], port=node[1])  # afterwards: the address would win
        return pool


class Lane:
    """The connections of threads to one node: at most so many at a time, and the one used last first.

    The driver's own pool does the same, and takes a tenth of a commit's time for it.
    """

    def __init__(self, pool: Any, most: int) -> None:
        self._pool = pool
        self.room = threading.Semaphore(most)
        self._idle: list[Any] = []
        self._closed = False

    def take(self) -> tuple[Any, bool]:
        """Return a connection, and whether it is a new one, still to be connected."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._pool.connection_class(**self._pool.connection_kwargs), True
            if _is_quiet(connection):
                return connection, False
            connection.disconnect()

    def give(self, connection: Any) -> None:
        """Keep a connection for the next one who needs it."""
        self._idle.append(connection)
        if self._closed:
            self.close()

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().disconnect()


class BlockingWire:
    """For threads."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._lanes: dict[Node | None, Lane] = {}
        self._lock = threading.Lock()
        self.judge: Judge = _accept
        self._lane(None)

    async def exchange(self, commands: Sequence[Command], node: Node | None) -> list[Any]:
        lane = self._lanes.get(node) or self._lane(node)
        if not lane.room.acquire(timeout=self._dial.timeout_seconds):
            raise Unsent
        sent = False
        connection, is_new = lane.take()
        try:
            if is_new:
                connection.connect()
                self.judge(node, _talk(connection, SETTINGS))
            sent = True
            replies = _talk(connection, commands)
            lane.give(connection)
            return replies
        except BaseException as error:
            connection.disconnect()
            if isinstance(error, DRIVER_ERRORS):
                raise (Lost if sent else refused(error) or Unsent) from None
            raise
        finally:
            lane.room.release()

    def signal(self) -> threading.Event:
        return threading.Event()

    async def pause(self, seconds: float, signal: threading.Event | None = None) -> None:
        (signal or threading.Event()).wait(seconds)

    async def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def _lane(self, node: Node | None) -> Lane:
        with self._lock:
            lane = self._lanes.get(node)
            if lane is None:
                pool = self._dial.pool(redis.ConnectionPool, Retry(NoBackoff(), 0), None, node)
                lane = self._lanes[node] = Lane(pool, self._dial.max_connections)
            return lane


class AsyncWire:
    """For an event loop."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._pools: dict[Node | None, Any] = {}
        self._strangers: set[int] = set()
        self.judge: Judge = _accept
        self._pool(None)

    async def exchange(self, commands: Sequence[Command], node: Node | None) -> list[Any]:
        pool = self._pool(node)
        try:
            connection = await pool.get_connection()
        except DRIVER_ERRORS as error:
            raise refused(error) or Unsent from None
        failed: type[Exception] = Unsent
        try:
            if id(connection) in self._strangers:
                self.judge(node, await _async_talk(connection, SETTINGS))
                self._strangers.discard(id(connection))
            failed = Lost
            return await _async_talk(connection, commands)
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, DRIVER_ERRORS):
                raise failed from None
            raise
        finally:
            await pool.release(connection)

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

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.disconnect()

    def _pool(self, node: Node | None) -> Any:
        pool = self._pools.get(node)
        if pool is None:
            retry = AsyncRetry(NoBackoff(), 0)
            pool = self._dial.pool(redis.asyncio.BlockingConnectionPool, retry, self._connected, node)
            self._pools[node] = pool
        return pool

    async def _connected(self, connection: Any) -> None:
        await connection.on_connect()
        self._strangers.add(id(connection))


def _accept(node: Node | None, replies: Sequence[Any]) -> None:
    """Judge nobody."""


def _is_quiet(connection: Any) -> bool:
    """Tell whether an idle connection is still open, and nothing unexpected has come in."""
    try:
        return not connection.can_read()
    except DRIVER_ERRORS:
        return False


def _from_url(kind: Any, url: str, options: dict[str, Any]) -> Any:
    try:
        pool = kind.from_url(url, **options)
        pool.connection_class(**pool.connection_kwargs)  # does not connect yet, but would complain about its options
    except (ValueError, TypeError, redis.RedisError):
        return None  # and the error, which may quote the address, goes no further
    return pool


def pack(commands: Sequence[Command]) -> bytes:
    """Write commands as the server reads them. The driver's own packing took a third of a commit's time."""
    parts: list[bytes] = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        words = [word if type(word) is bytes else str(word).encode() for word in command]
        parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def _talk(connection: Any, commands: Sequence[Command]) -> list[Any]:
    connection.send_packed_command([pack(commands)])
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(connection.read_response())
        except redis.RedisError as error:
            replies.append(_answered(error))
    return replies


async def _async_talk(connection: Any, commands: Sequence[Command]) -> list[Any]:
    await connection.send_packed_command([pack(commands)])
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response())
        except redis.RedisError as error:
            replies.append(_answered(error))
    return replies


def _answered(error: redis.RedisError) -> Refused:
    """Return an error that the server answered with; raise again one that means there was no answer."""
    answer = refused(error)
    if answer is None:
        raise error
    return answer
