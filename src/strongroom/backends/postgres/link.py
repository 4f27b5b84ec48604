"""Connections, blocking and async. These are the only functions that touch a database, and they decide nothing.

`BlockingLink` never suspends, so `bridge.run` drives whatever awaits it.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from strongroom.backends.postgres.address import Address
from strongroom.backends.postgres.failures import bounded
from strongroom.backends.postgres.watch import AsyncListener, Listener

Rows = list[tuple[Any, ...]]


class Connection(psycopg.Connection[Any]):
    """A connection on which no call waits longer than it may."""

    deadline = float("inf")

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        return super().wait(bounded(gen, self.deadline), *args, **kwargs)


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """The same for an event loop."""

    deadline = float("inf")

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        return await super().wait(bounded(gen, self.deadline), *args, **kwargs)


class Link(ABC):
    """A pool of connections, one more that listens, and a way to wait. Errors are psycopg's own."""

    def __init__(self, address: Address, *, max_connections: int, timeout_seconds: float) -> None:
        self._address = address
        self._options = address.options(timeout_seconds)
        self._pool: Any = self._make_pool(
            {"min_size": 1, "max_size": max_connections, "reconnect_timeout": 0, "num_workers": 2, "open": False}
        )

    @abstractmethod
    def _make_pool(self, options: dict[str, Any]) -> Any: ...
    @abstractmethod
    async def connect(self) -> Any:
        """Return a connection outside the pool."""

    @abstractmethod
    async def disconnect(self, con: Any) -> None: ...
    @abstractmethod
    async def open(self) -> None:
        """Let the pool make connections."""

    @abstractmethod
    async def take(self, seconds: float) -> Any:
        """Return a connection of the pool; raise `PoolTimeout` if there is none in time."""

    @abstractmethod
    async def give(self, con: Any) -> None: ...
    @abstractmethod
    async def execute(self, con: Any, sql: str, arguments: tuple[Any, ...] | None) -> Rows:
        """Return the rows of a statement. Without arguments there may be several statements, and no rows."""

    @abstractmethod
    def hearing(self, name: str) -> AbstractContextManager[Any]:
        """Lend an event that is set when the name is called, or the store closes."""

    @abstractmethod
    async def pause(self, seconds: float, event: Any = None) -> None:
        """Wait, or until the event is set."""

    @abstractmethod
    async def close(self) -> None: ...


class BlockingLink(Link):
    """For threads."""

    def __init__(self, address: Address, *, max_connections: int, timeout_seconds: float) -> None:
        super().__init__(address, max_connections=max_connections, timeout_seconds=timeout_seconds)
        self._listener = Listener(address, timeout_seconds)

    def _make_pool(self, options: dict[str, Any]) -> Any:
        return ConnectionPool(self._address.conninfo, connection_class=Connection, kwargs=self._options, **options)

    async def connect(self) -> Connection:
        return Connection.connect(self._address.conninfo, **self._options)

    async def disconnect(self, con: Connection) -> None:
        con.close()

    async def open(self) -> None:
        self._pool.open()

    async def take(self, seconds: float) -> Any:
        return self._pool.getconn(seconds)

    async def give(self, con: Connection) -> None:
        self._pool.putconn(con)

    async def execute(self, con: Connection, sql: str, arguments: tuple[Any, ...] | None) -> Rows:
        done = con.cursor(binary=arguments is not None).execute(sql, arguments)
        return done.fetchall() if done.description else []

    def hearing(self, name: str) -> AbstractContextManager[threading.Event]:
        return self._listener.hearing(name)

    async def pause(self, seconds: float, event: threading.Event | None = None) -> None:
        (event or threading.Event()).wait(seconds)

    async def close(self) -> None:
        self._listener.close()
        self._pool.close()


class AsyncLink(Link):
    """For an event loop."""

    def __init__(self, address: Address, *, max_connections: int, timeout_seconds: float) -> None:
        super().__init__(address, max_connections=max_connections, timeout_seconds=timeout_seconds)
        self._listener = AsyncListener(address, timeout_seconds)

    def _make_pool(self, options: dict[str, Any]) -> Any:
        return AsyncConnectionPool(
            self._address.conninfo, connection_class=AsyncConnection, kwargs=self._options, **options
        )

    async def connect(self) -> AsyncConnection:
        return await AsyncConnection.connect(self._address.conninfo, **self._options)

    async def disconnect(self, con: AsyncConnection) -> None:
        await con.close()

    async def open(self) -> None:
        await self._pool.open()

    async def take(self, seconds: float) -> Any:
        return await self._pool.getconn(seconds)

    async def give(self, con: AsyncConnection) -> None:
        await self._pool.putconn(con)

    async def execute(self, con: AsyncConnection, sql: str, arguments: tuple[Any, ...] | None) -> Rows:
        done = await con.cursor(binary=arguments is not None).execute(sql, arguments)
        return await done.fetchall() if done.description else []

    async def execute_all(self, con: AsyncConnection, sql: str, calls: Sequence[tuple[Any, ...]]) -> Rows:
        """Return the row of each call, all made in one message and one transaction."""
        async with con.pipeline():
            cursors = [await con.cursor(binary=True).execute(sql, call) for call in calls]
        # Only now: until the pipeline has ended, what came back was not committed.
        return [row for cursor in cursors for row in await cursor.fetchall()]

    def hearing(self, name: str) -> AbstractContextManager[asyncio.Event]:
        return self._listener.hearing(name)

    async def pause(self, seconds: float, event: asyncio.Event | None = None) -> None:
        if event is None:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass

    async def close(self) -> None:
        await self._listener.close()
        await self._pool.close()
