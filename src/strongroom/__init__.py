"""Strongroom keeps everything an AI agent knows in one crash-safe, transactional store.

    import strongroom

    with strongroom.open("agent.db") as ctx:
        run = ctx.runs.create(objective="Answer a ticket")
        run.update(status="BUSY", next_action="call the carrier")

Opening
    open, aopen         a store: a path, memory://, postgresql:// or redis://
    connect, aconnect   a server
    Context             what they give; AsyncContext has the same names, with await

In a context
    ctx.runs            tasks: Run, WorkingSet, Status, UpdateFields, Event, Episode, Brief, Verification, RunConfig
                        (AsyncRun)
    run.record          payloads of events: StepRequest, ModelAction, ToolCall, ToolResult, ModelUpdate, ErrorTold;
                        EventType is a name that is known only when the program runs
    ctx.sessions        conversations: Session, Message, NewMessage, MessageHit, Window, Tokenizer (AsyncSession)
    ctx.memories        what is known for longer: Memory, MemoryHit, Batch, MemoryRequest, Policy, Embedder, VectorIndex
    ctx.threads         messages between agents: Thread, Slot (AsyncThread); ctx.registry names their call chains
    ctx.files           text by its path, versioned: File
    ctx.turn            several of these in one commit: Turn (AsyncTurn)
    ctx.prompt          all of it for a model, within a budget: Prompt
    ctx.durability      what an acknowledged write survives: Durability
    Listing             a page of runs, events, sessions, threads or files, and where the next one begins
    fit                 the messages of any list that fit into a budget

Errors: StrongroomError is the root; error.help is the command that tells cause and remedy (`strongroom explain`)
    yours               InvalidInput, NotFound, Conflict, Immutable, BudgetExceeded, Closed: nothing changed
    the store's         StoreError: Unavailable, SchemaMismatch, Damaged: nothing changed
                        CommitUnknown: nobody can tell yet; repeat it with the same commit_id
    of several commits  (an erasure, a long deletion) the message may say: part of it is done, and a repeat goes on

In modules of their own
    strongroom.dispatch     functions that handle the messages of threads
    strongroom.adapters     LangGraph, OpenAI Agents SDK and other frameworks
    strongroom.testing      the conformance suite, for a store of your own
    strongroom.server       the HTTP API: `strongroom serve`

`help(strongroom.Run)` tells about one of them, with an example. A name is loaded when it is first used, so that a
program that only catches `strongroom.Conflict` starts at once.
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
from strongroom.errors import hidden as _hidden

TYPE_CHECKING = False  # type checkers know the name; the module it comes from is a third of what importing this costs
if TYPE_CHECKING:
    from collections.abc import Callable
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
    "Brief",
    "BudgetExceeded",
    "Closed",
    "CommitUnknown",
    "Conflict",
    "Context",
    "Damaged",
    "Durability",
    "Embedder",
    "Episode",
    "ErrorTold",
    "Event",
    "EventType",
    "File",
    "Immutable",
    "InvalidInput",
    "Listing",
    "Memory",
    "MemoryHit",
    "MemoryRequest",
    "Message",
    "MessageHit",
    "ModelAction",
    "ModelUpdate",
    "NewMessage",
    "NotFound",
    "Policy",
    "Prompt",
    "Run",
    "RunConfig",
    "SchemaMismatch",
    "Session",
    "Slot",
    "Status",
    "StepRequest",
    "StoreError",
    "StrongroomError",
    "Thread",
    "Tokenizer",
    "ToolCall",
    "ToolResult",
    "Turn",
    "Unavailable",
    "UpdateFields",
    "VectorIndex",
    "Verification",
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
    embedder: str | Embedder | Callable[..., Any] | None = None,
    embedder_key: str | None = None,
    qdrant_url: str | None = None,
    qdrant_collection: str | None = None,
) -> Context:
    """Open a store for blocking code: a path, `memory://`, `postgresql://` or `redis://`. `space` is the tenant.

    What is None is as the store has it by itself. Every store has `max_record_bytes`, and `repeats`, how long a commit
    id of yours is remembered. All but `memory://` have `timeout_seconds`, how long to wait for a lock or a server. A
    file has `durability`, `read_only`, and `key`, which encrypts it: a passphrase, 32 bytes, or a function that fetches
    one of them (else STRONGROOM_KEY, STRONGROOM_KEY_FILE or STRONGROOM_KEY_COMMAND names it). A server has
    `max_connections`, Redis `prefix`, `require_durable` and `wait_aof`. An option that a store does not have is
    refused; a file that is opened `read_only` has `timeout_seconds` and `key`, and none of those about writing.

    `embedder` is what is searched by meaning with: a function, an `Embedder`, or a name such as `wordllama` or
    `https://host/v1#MODEL` (with `embedder_key`); `qdrant_url` and `qdrant_collection` name an index to share.
    """
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
        embedder=embedder,
        embedder_key=embedder_key,
        qdrant_url=qdrant_url,
        qdrant_collection=qdrant_collection,
    )
    made: Context = _public().open_context(address, space, options)
    return made


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
    embedder: str | Embedder | Callable[..., Any] | None = None,
    embedder_key: str | None = None,
    qdrant_url: str | None = None,
    qdrant_collection: str | None = None,
) -> Opening:
    """Open the same store for async code: `async with aopen(...) as ctx`, or `ctx = await aopen(...)`.

    The options are those of `open`.
    """
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
        embedder=embedder,
        embedder_key=embedder_key,
        qdrant_url=qdrant_url,
        qdrant_collection=qdrant_collection,
    )
    made: Opening = _public().open_async_context(address, space, options)
    return made


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _public() -> Any:
    from strongroom import public

    return public


if not TYPE_CHECKING:  # a type checker that saw this would take any name for one of ours, and any option

    class _Names(dict):
        """The names here and in `public`: whoever evaluates hints needs them, and nobody else is to wait for them."""

        def __missing__(self, name):
            try:
                return getattr(_public(), name)
            except AttributeError:
                raise KeyError(name) from None

    def _told(opening):
        """Return `open` or `aopen` as it is, but for what is said of an option that it does not take."""

        def told(*args, **options):
            if "key" in options:
                options["key"] = _hidden(options["key"])  # in this frame too, before anything can fail
            try:
                return opening(*args, **options)
            except TypeError:
                if problem := _public().explained(opening, args, options):
                    raise problem from None
                raise

        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            setattr(told, name, getattr(opening, name))
        # Whose signature is shown, and among whose names hints are evaluated.
        told.__wrapped__ = type(opening)(opening.__code__, _Names(globals()), opening.__name__, opening.__defaults__)
        told.__wrapped__.__kwdefaults__ = opening.__kwdefaults__
        told.__wrapped__.__annotations__ = opening.__annotations__
        return told

    open, aopen = _told(open), _told(aopen)

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            from difflib import get_close_matches

            near = [] if name.startswith("_") else get_close_matches(name, __all__, n=3, cutoff=0.7)
            told = f"did you mean {' or '.join(near)}?" if near else "`help(strongroom)` lists what it has"
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {told}")
        from importlib import import_module

        home = "client" if name in ("connect", "aconnect") else "public"  # a client loads an HTTP library
        return getattr(import_module(f"strongroom.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
