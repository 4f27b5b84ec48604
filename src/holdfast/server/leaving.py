"""Leaving in order. A server that is told to stop waits for the answers it is giving; those that would last for ever
must hear of it, or it would wait for ever."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
