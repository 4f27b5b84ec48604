"""Shutting down in order. A server that is told to stop waits for the answers it is giving; those that would last for
ever must hear of it, or it would wait for ever."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from strongroom.server.responses import Refusal

T = TypeVar("T")

GRACE_SECONDS = 20.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """Whether the server is stopping, and the requests that it still answers."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.requests: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Timeout] = set()

    async def unless_begun(self, coming: Callable[[], Awaitable[T]], timeout_seconds: float) -> T:
        """Wait for the next piece of a body, for a while, and not once the server is stopping."""
        try:
            async with asyncio.timeout(0 if self.begun.is_set() else timeout_seconds) as timeout:
                self._waiting.add(timeout)
                try:
                    return await coming()
                finally:
                    self._waiting.discard(timeout)
        except TimeoutError:
            if self.begun.is_set():
                raise Refusal(
                    503, "closed", "the server is stopping; nothing changed", headers={"Retry-After": "1"}
                ) from None
            raise Refusal(408, "body_too_slow", "the body came too slowly; nothing changed") from None

    async def see_through(self) -> None:
        """Wait until the server is stopping, refuse what is still being sent, and after a while end what has not ended.
        A commit under way still lands."""
        await self.begun.wait()
        for timeout in self._waiting:
            timeout.reschedule(asyncio.get_running_loop().time())
        await asyncio.sleep(GRACE_SECONDS)
        for task in self.requests:
            task.cancel()

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Begin as soon as this process is asked to stop, and pass the signal on to whoever listened before."""
        if threading.current_thread() is not threading.main_thread():
            try:
                yield
            finally:
                self.begun.set()
            return
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def heard(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self.begun.set)
            previous = before[signal.Signals(number)]
            if callable(previous):
                previous(number, frame)

        for number in SIGNALS:
            signal.signal(number, heard)
        try:
            yield
        finally:
            self.begun.set()
            for number, previous in before.items():
                if signal.getsignal(number) is heard:
                    signal.signal(number, previous)


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they are over. Ask again if need be: `wait_for` of Python 3.11 can lose a request to
    stop that comes in the very moment it was waiting for."""
    while pending := {task for task in tasks if not task.done()}:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.1)
    for task in tasks:
        if not task.cancelled():
            task.exception()
