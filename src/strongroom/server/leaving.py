"""Leaving in order. A server that is told to stop waits for the answers it is giving; those that would last for ever
must hear of it, or it would wait for ever."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

GRACE_SECONDS = 20.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_exit(closing: asyncio.Event) -> Iterator[None]:
    """Set an event as soon as this process is asked to stop, and pass the signal on to whoever listened before."""
    if threading.current_thread() is not threading.main_thread():
        try:
            yield
        finally:
            closing.set()
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(closing.set)
        previous = before[signal.Signals(number)]
        if callable(previous):
            previous(number, frame)

    for number in SIGNALS:
        signal.signal(number, heard)
    try:
        yield
    finally:
        closing.set()
        for number, previous in before.items():
            if signal.getsignal(number) is heard:
                signal.signal(number, previous)


class Guests:
    """The requests that are being answered. Once the server leaves, each may stay for a while, and no longer."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count the current task for the time of a block."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    async def see_off(self, closing: asyncio.Event) -> None:
        """Wait until the server leaves, and then end what has not ended in time. A commit under way still lands."""
        await closing.wait()
        await asyncio.sleep(GRACE_SECONDS)
        for task in self._tasks:
            task.cancel()


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
