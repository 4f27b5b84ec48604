"""Waking up whoever waits for a stream to grow.

A waiter leaves its wish in the table `watcher`, and a commit that finds one sends a NOTIFY. Only then: a NOTIFY with
every commit would make all of them queue for one lock of the server's, and give group commit away. Each store listens
on one connection of its own. All of this is a hint: it may be lost, or swallowed by a pooler, so a waiter also looks by
itself every now and then, and always reads again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Generic, Protocol, TypeVar

import psycopg

from strongroom.backends.postgres.address import Address
from strongroom.store import Key

POLL_SECONDS = 0.5
WATCH = "SELECT :schema.watch(%s, %s, %s, %s)"
_LISTEN = "LISTEN strongroom"
_PATIENCE_SECONDS = 0.2  # how long closing may have to wait for the listening thread
_RETRY_SECONDS = 1.0


def channel(schema: str, key: Key) -> str:
    """Return what a notification about a key says."""
    return sha256("\n".join((f'"{schema}"', key.space, key.kind, key.id)).encode()).hexdigest()


class Settable(Protocol):
    def set(self) -> None: ...


E = TypeVar("E", bound=Settable)


class Ears(Generic[E]):
    """Who is waiting to hear what."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[E]] = {}

    @contextmanager
    def hearing(self, name: str, event: E) -> Iterator[E]:
        self._waiting.setdefault(name, []).append(event)
        try:
            yield event
        finally:
            events = self._waiting[name]
            events.remove(event)
            if not events:
                del self._waiting[name]

    def tell(self, name: str) -> None:
        for event in list(self._waiting.get(name, ())):
            event.set()

    def tell_all(self) -> None:
        for name in list(self._waiting):
            self.tell(name)


class Listener:
    """Listens in a thread, from the first waiter on."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        self._timeout = timeout_seconds
        self._ears = Ears[threading.Event]()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @contextmanager
    def hearing(self, name: str) -> Iterator[threading.Event]:
        """Lend an event that is set when the name is called, or the store closes."""
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="strongroom-listen", daemon=True)
                self._thread.start()
        event = threading.Event()
        waiting = self._ears.hearing(name, event)
        with self._lock:
            waiting.__enter__()
        try:
            yield event
        finally:
            with self._lock:
                waiting.__exit__(None, None, None)

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            self._ears.tell_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        options = self._address.options(self._timeout)
        while not self._closing.is_set():
            with suppress(psycopg.Error), psycopg.Connection.connect(self._address.conninfo, **options) as con:
                con.execute(_LISTEN)
                while not self._closing.is_set():
                    for notification in con.notifies(timeout=_PATIENCE_SECONDS):
                        with self._lock:
                            self._ears.tell(notification.payload)
            self._closing.wait(_RETRY_SECONDS)


class AsyncListener:
    """Listens in a task, from the first waiter on."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        self._timeout = timeout_seconds
        self._ears = Ears[asyncio.Event]()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def hearing(self, name: str) -> Iterator[asyncio.Event]:
        """Lend an event that is set when the name is called, or the store closes."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="strongroom-listen")
        with self._ears.hearing(name, asyncio.Event()) as event:
            yield event

    async def close(self) -> None:
        self._ears.tell_all()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        options = self._address.options(self._timeout)
        while True:
            with suppress(psycopg.Error):
                async with await psycopg.AsyncConnection.connect(self._address.conninfo, **options) as con:
                    await con.execute(_LISTEN)
                    async for notification in con.notifies():
                        self._ears.tell(notification.payload)
            await asyncio.sleep(_RETRY_SECONDS)
