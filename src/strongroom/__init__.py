"""Strongroom keeps everything an AI agent knows in one crash-safe, transactional store.

Importing this brings in the names and little else; what a name needs is loaded when it is first used, so that a
command line that only prints its help, or a worker that only catches `strongroom.Conflict`, starts at once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from strongroom.errors import (
    BudgetExceeded,
    Closed,
    CommitUnknown,
    Conflict,
    Damaged,
    Immutable,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StoreError,
    StrongroomError,
    Unavailable,
)

if TYPE_CHECKING:
    from strongroom.blocking import Context as Context
    from strongroom.context import AsyncContext as AsyncContext
    from strongroom.tokens import fit as fit

__version__ = "0.1.0"

__all__ = [
    "AsyncContext",
    "BudgetExceeded",
    "Closed",
    "CommitUnknown",
    "Conflict",
    "Context",
    "Damaged",
    "Immutable",
    "InvalidInput",
    "NotFound",
    "SchemaMismatch",
    "StoreError",
    "StrongroomError",
    "Unavailable",
    "aconnect",
    "aopen",
    "connect",
    "fit",
    "open",
]


def open(address: str | os.PathLike[str], *, space: str = "default", **options: Any) -> Context:
    """Open a store for blocking code: a path, `memory://`, `postgresql://` or `redis://`. Options go to the store."""
    from strongroom.blocking import Context
    from strongroom.bridge import Inline
    from strongroom.context import AsyncContext
    from strongroom.opening import open_store
    from strongroom.scope import Scope

    return Context(AsyncContext(Scope(Inline(open_store(address, **options)), space)))


async def aopen(address: str | os.PathLike[str], *, space: str = "default", **options: Any) -> AsyncContext:
    """Open the same store for async code."""
    from strongroom.context import AsyncContext
    from strongroom.opening import open_async_store
    from strongroom.scope import Scope

    return AsyncContext(Scope(await open_async_store(address, **options), space))


def connect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> Context:
    """Connect to a server for blocking code: the same Context, over HTTP. The key says which space it is of.

    `retry_seconds` is how long to keep trying when the server can not be reached or is busy.
    """
    from strongroom import client

    return client.connect(url, key=key, retry_seconds=retry_seconds)


async def aconnect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> AsyncContext:
    """Connect to the same server for async code."""
    from strongroom import client

    return await client.aconnect(url, key=key, retry_seconds=retry_seconds)


def __getattr__(name: str) -> Any:
    if name == "Context":
        from strongroom.blocking import Context

        return Context
    if name == "AsyncContext":
        from strongroom.context import AsyncContext

        return AsyncContext
    if name == "fit":
        from strongroom.tokens import fit

        return fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
