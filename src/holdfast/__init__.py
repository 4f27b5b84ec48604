"""Holdfast keeps everything an AI agent knows in one crash-safe, transactional store."""

from __future__ import annotations

from typing import Any

from holdfast.blocking import Context
from holdfast.bridge import Inline
from holdfast.context import AsyncContext
from holdfast.errors import (
    BudgetExceeded,
    Closed,
    CommitUnknown,
    Conflict,
    Damaged,
    HoldfastError,
    Immutable,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StoreError,
    Unavailable,
)
from holdfast.opening import Address, open_async_store, open_store
from holdfast.scope import Scope

__version__ = "0.1.0"

__all__ = [
    "AsyncContext",
    "BudgetExceeded",
    "Closed",
    "CommitUnknown",
    "Conflict",
    "Context",
    "Damaged",
    "HoldfastError",
    "Immutable",
    "InvalidInput",
    "NotFound",
    "SchemaMismatch",
    "StoreError",
    "Unavailable",
    "aconnect",
    "aopen",
    "connect",
    "open",
]


def open(address: Address, *, space: str = "default", **options: Any) -> Context:
    """Open a store for blocking code: a path, or `memory://`. Options go to the store."""
    return Context(AsyncContext(Scope(Inline(open_store(address, **options)), space)))


async def aopen(address: Address, *, space: str = "default", **options: Any) -> AsyncContext:
    """Open the same store for async code."""
    return AsyncContext(Scope(await open_async_store(address, **options), space))


def connect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> Context:
    """Connect to a server for blocking code: the same Context, over HTTP. The key says which space it is of.

    `retry_seconds` is how long to keep trying when the server can not be reached or is busy.
    """
    from holdfast import client

    return client.connect(url, key=key, retry_seconds=retry_seconds)


async def aconnect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> AsyncContext:
    """Connect to the same server for async code."""
    from holdfast import client

    return await client.aconnect(url, key=key, retry_seconds=retry_seconds)
