"""Sync and async from one source.

Theory of operation
-------------------
Services are written once, in `async def`, and await nothing but the port and the functions that they are given. Over a
blocking store, with plain functions, those awaits never suspend, so one `coro.send(None)` runs a whole operation to its
end: no event loop, no thread, and it works inside a running loop too. The blocking API is then a typed table of
contents: `update = blocking(AsyncRuns.update)`.

Over SQLite the async side (`Threaded`) gives commits to the store, which writes what is queued in one transaction, so
that hundreds of tasks share an fsync, and has a thread wait for it; longer reads go to a small pool. A cancelled caller
waits until its commit has landed or failed, then reports the cancellation: nothing is ever half done behind its back.
"""

from __future__ import annotations

from strongroom.bridge.driving import blocking, finish, iterate, plain, run
from strongroom.bridge.stores import Grouping, Inline, OnLoop, Pooled, Threaded, can_search

__all__ = [
    "Grouping",
    "Inline",
    "OnLoop",
    "Pooled",
    "Threaded",
    "blocking",
    "can_search",
    "finish",
    "iterate",
    "plain",
    "run",
]
