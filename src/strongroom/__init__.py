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

    from strongroom.client import aconnect, connect
    from strongroom.public import *

__version__ = "1.0.0rc1"

__all__ = [
    "AsyncContext",
    "AsyncRun",
    "AsyncSession",
    "AsyncThread",
    "AsyncTurn",
    "Batch",
    "BudgetExceeded",
    "Closed",
    "CommitUnknown",
    "Conflict",
    "Context",
    "Damaged",
    "Durability",
    "Embedder",
    "Episode",
    "Event",
    "Immutable",
    "InvalidInput",
    "Memory",
    "MemoryRequest",
    "Message",
    "NotFound",
    "Policy",
    "Prompt",
    "Run",
    "SchemaMismatch",
    "Session",
    "Slot",
    "StoreError",
    "StrongroomError",
    "Thread",
    "Turn",
    "Unavailable",
    "VectorIndex",
    "Window",
    "WorkingSet",
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
    read_only: bool | None = None,
    durability: Literal["durable", "relaxed"] | None = None,
    key: Secret | None = None,
    repeats: Repeats | None = None,
    timeout_seconds: float | None = None,
    max_record_bytes: int | None = None,
    max_connections: int | None = None,
    prefix: str | None = None,
    require_durable: bool | None = None,
    wait_aof: bool | None = None,
) -> Context:
    """Open a store for blocking code: a path, `memory://`, `postgresql://` or `redis://`. `space` is the tenant.

    What is None is as the store has it by itself. Every store has `max_record_bytes`, and `repeats`, how long a commit
    id of yours is remembered. All but `memory://` have `timeout_seconds`, how long to wait for a lock or a server. A
    file has `durability`, `read_only`, and `key`, which encrypts it: a passphrase, 32 bytes, or a function that fetches
    one of them (else STRONGROOM_KEY, STRONGROOM_KEY_FILE or STRONGROOM_KEY_COMMAND names it). A server has
    `max_connections`, Redis `prefix`, `require_durable` and `wait_aof`. An option that a store does not have is
    refused.
    """
    from strongroom.public import open_context

    options = _given(
        read_only=read_only,
        durability=durability,
        key=key,
        repeats=repeats,
        timeout_seconds=timeout_seconds,
        max_record_bytes=max_record_bytes,
        max_connections=max_connections,
        prefix=prefix,
        require_durable=require_durable,
        wait_aof=wait_aof,
    )
    return open_context(address, space, options)


def aopen(
    address: str | os.PathLike[str],
    *,
    space: str = "default",
    read_only: bool | None = None,
    durability: Literal["durable", "relaxed"] | None = None,
    key: Secret | None = None,
    repeats: Repeats | None = None,
    timeout_seconds: float | None = None,
    max_record_bytes: int | None = None,
    max_connections: int | None = None,
    prefix: str | None = None,
    require_durable: bool | None = None,
    wait_aof: bool | None = None,
) -> Opening:
    """Open the same store for async code: `async with aopen(...) as ctx`, or `ctx = await aopen(...)`."""
    from strongroom.public import open_async_context

    options = _given(
        read_only=read_only,
        durability=durability,
        key=key,
        repeats=repeats,
        timeout_seconds=timeout_seconds,
        max_record_bytes=max_record_bytes,
        max_connections=max_connections,
        prefix=prefix,
        require_durable=require_durable,
        wait_aof=wait_aof,
    )
    return open_async_context(address, space, options)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


if not TYPE_CHECKING:  # a type checker that saw this would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = "client" if name in ("connect", "aconnect") else "public"  # a client loads an HTTP library
        return getattr(import_module(f"strongroom.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
