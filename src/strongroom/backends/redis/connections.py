"""Connections to a server or to the nodes of a cluster, for threads and for event loops. Only this file does I/O.

It decides nothing: it says what came back, or whether a message can have arrived (`Unsent`, `Unanswered`). Connecting,
pooling, packing and parsing are the driver's; its retries are switched off, because they cannot tell whether a message
arrived. `BlockingConnections` never suspends, so `bridge.run` drives whatever awaits it.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import redis.asyncio
from msgspec import Struct
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import redis
from strongroom.backends.redis.failures import DRIVER_ERRORS, Unanswered, Unsent, refused
from strongroom.backends.redis.guarantees import SETTINGS
from strongroom.backends.redis.layout import Address
from strongroom.errors import InvalidInput

Command = Sequence[Any]
Node = tuple[str, int]
Judge = Callable[[Node | None, Sequence[Any]], None]


class Signal(Protocol):
    """Something to set that ends a pause."""

    def set(self) -> None: ...
    def clear(self) -> None: ...


class ConnectionSettings(Struct, frozen=True):
    """How to make connections."""

    address: Address
    timeout_seconds: float
    max_connections: int

    def pool(self, kind: Any, retry: Any, node: Node | None) -> Any:
        """Return the driver's pool of connections to a node. Nothing is connected yet."""
        options = {
            # Half the time for one try, so that a connection which has gone dead leaves time for another one.
            "socket_timeout": self.timeout_seconds / 2,
            "socket_connect_timeout": self.timeout_seconds / 2,
            # Version 2 of the protocol and undecoded replies: a script's reply must look the same from every server.
            "decode_responses": False,
            "protocol": 2,
            "retry": retry,
            "max_connections": self.max_connections,
            "timeout": self.timeout_seconds,
        }
        pool = _from_url(kind, self.address.url, options)
        if pool is None:
            raise InvalidInput("the redis address has an option that is not understood; nothing was opened")
        if node is not None:
            pool.connection_kwargs.update(host=node[0], port=node[1])  # afterwards: the address would win
        return pool


class Connections(ABC):
    """A way to a server, or to the nodes of a cluster (None: the one in the address).

    `judge` is given what a node says about itself, on each new connection before it is used: a node may have been
    restarted with other settings. What is abstract here is all that differs between threads and event loops.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.judge: Judge = _accept
        self._settings = settings
        self._pools: dict[Node | None, Any] = {}
        self._judged: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False
        self._pool(None)

    async def exchange(
        self, commands: Sequence[Command], node: Node | None, then: Callable[[], Sequence[Command]] = tuple
    ) -> list[Any]:
        """Send commands on one connection; return their replies, a `Refused` where the server answered so.

        `then` says, once the node is judged, what is sent after them.
        """
        pool, sent = self._pools.get(node) or self._pool(node), False
        try:
            connection = await self._take(pool)
        except DRIVER_ERRORS as error:
            raise (refused(error) or Unsent) from None
        try:
            if connection not in self._judged:
                connection.register_connect_callback(self._connected)
                self.judge(node, await self._replies(connection, SETTINGS))
                self._judged.add(connection)
            sent = True
            return await self._replies(connection, [*commands, *then()])
        except BaseException as error:
            # If one is dead, so are probably all that wait beside it.
            await self._disconnect(connection)
            await self._disconnect_idle(pool)
            if isinstance(error, DRIVER_ERRORS):
                raise (Unanswered if sent else Unsent) from None
            raise
        finally:
            await self._release(pool, connection)
            if self._closed:
                await self.close()

    async def close(self) -> None:
        """Let go of all connections that nobody uses now; the others follow when they are released."""
        self._closed = True
        for pool in self._pools.values():
            await self._disconnect_idle(pool)

    async def _replies(self, connection: Any, commands: Sequence[Command]) -> list[Any]:
        await self._send(connection, connection.pack_commands(commands))
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(await self._receive(connection))
            except redis.RedisError as error:
                answer = refused(error)
                if answer is None:
                    raise
                if isinstance(error, redis.ConnectionError):  # the driver has hung up, so this answers for the rest
                    return [*replies, *[answer] * (len(commands) - len(replies))]
                replies.append(answer)
        return replies

    def _connected(self, connection: Any) -> None:
        """Judge a connection again that the driver has made anew."""
        self._judged.discard(connection)

    def _pool(self, node: Node | None) -> Any:
        with self._lock:
            if node not in self._pools:
                self._pools[node] = self._make_pool(node)
            return self._pools[node]

    @abstractmethod
    def _make_pool(self, node: Node | None) -> Any: ...
    @abstractmethod
    async def _take(self, pool: Any) -> Any: ...
    @abstractmethod
    async def _release(self, pool: Any, connection: Any) -> None: ...
    @abstractmethod
    async def _send(self, connection: Any, packed: Any) -> None: ...
    @abstractmethod
    async def _receive(self, connection: Any) -> Any: ...
    @abstractmethod
    async def _disconnect(self, connection: Any) -> None: ...
    @abstractmethod
    async def _disconnect_idle(self, pool: Any) -> None: ...
    @abstractmethod
    def signal(self) -> Signal: ...
    @abstractmethod
    async def pause(self, seconds: float, signal: Any = None) -> None: ...


class BlockingConnections(Connections):
    """For threads."""

    def _make_pool(self, node: Node | None) -> Any:
        return self._settings.pool(redis.BlockingConnectionPool, Retry(NoBackoff(), 0), node)

    async def _take(self, pool: Any) -> Any:
        return pool.get_connection()

    async def _release(self, pool: Any, connection: Any) -> None:
        pool.release(connection)

    async def _send(self, connection: Any, packed: Any) -> None:
        connection.send_packed_command(packed)

    async def _receive(self, connection: Any) -> Any:
        return connection.read_response(disable_decoding=True)

    async def _disconnect(self, connection: Any) -> None:
        connection.disconnect()

    async def _disconnect_idle(self, pool: Any) -> None:
        pool.disconnect(inuse_connections=False)

    def signal(self) -> threading.Event:
        return threading.Event()

    async def pause(self, seconds: float, signal: threading.Event | None = None) -> None:
        (signal or threading.Event()).wait(seconds)


class AsyncConnections(Connections):
    """For an event loop."""

    def _make_pool(self, node: Node | None) -> Any:
        return self._settings.pool(redis.asyncio.BlockingConnectionPool, AsyncRetry(NoBackoff(), 0), node)

    async def _take(self, pool: Any) -> Any:
        return await pool.get_connection()

    async def _release(self, pool: Any, connection: Any) -> None:
        await pool.release(connection)

    async def _send(self, connection: Any, packed: Any) -> None:
        await connection.send_packed_command(packed)

    async def _receive(self, connection: Any) -> Any:
        return await connection.read_response(disable_decoding=True)

    async def _disconnect(self, connection: Any) -> None:
        await connection.disconnect(nowait=True)

    async def _disconnect_idle(self, pool: Any) -> None:
        await pool.disconnect(inuse_connections=False)

    def signal(self) -> asyncio.Event:
        return asyncio.Event()

    async def pause(self, seconds: float, signal: asyncio.Event | None = None) -> None:
        if signal is None:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):  # not wait_for, which can swallow a cancellation on 3.11
                await signal.wait()
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
