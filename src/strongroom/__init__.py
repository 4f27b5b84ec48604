"""Strongroom keeps everything an AI agent knows in one crash-safe, transactional store.

Importing this brings in the names and little else; what a name needs is loaded when it is first used, so that a
command line that only prints its help, or a worker that only catches `strongroom.Conflict`, starts at once.
"""

from __future__ import annotations

import os

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

TYPE_CHECKING = False  # type checkers know the name; the module it comes from is a third of what importing this costs
if TYPE_CHECKING:
    from typing import Any, Literal

    from strongroom.blocking import Context as Context
    from strongroom.context import AsyncContext as AsyncContext
    from strongroom.context import Opening
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


def open(
    address: str | os.PathLike[str],
    *,
    space: str = "default",
    durability: Literal["durable", "relaxed"] | None = None,
    timeout_seconds: float | None = None,
    max_record_bytes: int | None = None,
    max_connections: int | None = None,
    prefix: str | None = None,
    require_durable: bool | None = None,
    wait_aof: bool | None = None,
) -> Context:
    """Open a store for blocking code: a path, `memory://`, `postgresql://` or `redis://`. `space` is the tenant.

    What is None is as the store has it by itself. Every store has `max_record_bytes`. All but `memory://` have
    `timeout_seconds`, how long to wait for a lock or a server. A file has `durability`, a server `max_connections`,
    Redis `prefix`, `require_durable` and `wait_aof`. An option that a store does not have is refused.
    """
    from strongroom.blocking import Context
    from strongroom.bridge import Inline
    from strongroom.context import AsyncContext
    from strongroom.opening import open_store
    from strongroom.scope import Scope

    options = _given(
        durability=durability,
        timeout_seconds=timeout_seconds,
        max_record_bytes=max_record_bytes,
        max_connections=max_connections,
        prefix=prefix,
        require_durable=require_durable,
        wait_aof=wait_aof,
    )
    return Context(AsyncContext(Scope(Inline(open_store(address, **options)), space)))


def aopen(
    address: str | os.PathLike[str],
    *,
    space: str = "default",
    durability: Literal["durable", "relaxed"] | None = None,
    timeout_seconds: float | None = None,
    max_record_bytes: int | None = None,
    max_connections: int | None = None,
    prefix: str | None = None,
    require_durable: bool | None = None,
    wait_aof: bool | None = None,
) -> Opening:
    """Open the same store for async code: `async with aopen(...) as ctx`, or `ctx = await aopen(...)`."""
    from strongroom.context import AsyncContext, Opening
    from strongroom.opening import open_async_store
    from strongroom.scope import Scope

    options = _given(
        durability=durability,
        timeout_seconds=timeout_seconds,
        max_record_bytes=max_record_bytes,
        max_connections=max_connections,
        prefix=prefix,
        require_durable=require_durable,
        wait_aof=wait_aof,
    )

    async def opened() -> AsyncContext:
        return AsyncContext(Scope(await open_async_store(address, **options), space))

    return Opening(opened())


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def connect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> Context:
    """Connect to a server for blocking code: the same Context, over HTTP. The key says which space it is of.

    `retry_seconds` is how long to keep trying when the server can not be reached or is busy.
    """
    from strongroom import client

    return client.connect(url, key=key, retry_seconds=retry_seconds)


def aconnect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> Opening:
    """Connect to the same server for async code: `async with aconnect(...) as ctx`, or `ctx = await aconnect(...)`."""
    from strongroom import client
    from strongroom.context import Opening

    return Opening(client.aconnect(url, key=key, retry_seconds=retry_seconds))


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
