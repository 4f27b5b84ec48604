"""From an address to a store: the one place that knows every backend by name.

| address | store |
|---|---|
| a path, or `sqlite:///path` | one SQLite file |
| `memory://` | this process's memory |
| `postgresql://...` | a Postgres database (extra `postgres`) |
| `redis://...`, `rediss://...` | a Redis or Valkey server (extra `redis`) |

How long a store remembers the ids that callers chose is said by the option `repeats`, or without it by the variable
STRONGROOM_REPEATS, so that an operator can say it once for every program that opens a store. So is the key of encrypted
files: by the option `key`, or without it by STRONGROOM_KEY, STRONGROOM_KEY_FILE or STRONGROOM_KEY_COMMAND.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import signature
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Grouping, Inline, OnLoop, Pooled, Threaded, finish
from strongroom.encryption import from_environment
from strongroom.errors import InvalidInput
from strongroom.files import path_of
from strongroom.scope import Scope, now
from strongroom.store import AsyncStore, Store, kept_seconds, require_name
from strongroom.unfinished import refuse_unfinished, refuse_unfinished_async

Address = str | os.PathLike[str]
Maker = Callable[..., Store]
AsyncMaker = Callable[..., Awaitable[AsyncStore]]
REPEATS_VARIABLE = "STRONGROOM_REPEATS"
WRITING = frozenset({"durability", "max_record_bytes", "repeats"})  # options that whoever only reads does not have


def open_store(address: Address, **options: Any) -> Store:
    """Open a blocking store. Backends are imported only when asked for."""
    make, _ = _find(address)
    options = _with_environment(make, options)
    if options:
        _check(make, options)
    return make(**options)


async def open_async_store(address: Address, **options: Any) -> AsyncStore:
    """Open the same store for an event loop."""
    make, make_async = _find(address)
    options = _with_environment(make, options)
    if options:
        _check(make, options)
    return await make_async(**options)


async def open_whole_store(address: Address, **options: Any) -> AsyncStore:
    """Open a store for an event loop that works in it, unless it is the beginning of a copy."""
    store = await open_async_store(address, **options)
    await refuse_unfinished_async(store)
    return store


def open_scope(address: Address, space: str, options: dict[str, Any], clock: Callable[[], int] = now) -> Scope:
    """Open a store for blocking code that sees one space. Whatever is wrong is said before anything is opened."""
    require_name(space, "a space")
    store = open_store(address, **options)
    refuse_unfinished(store)
    return Scope(Inline(store), space, clock)


async def open_async_scope(address: Address, space: str, options: dict[str, Any]) -> Scope:
    """Open the same for an event loop."""
    require_name(space, "a space")
    return Scope(await open_whole_store(address, **options), space)


def for_loops(store: Store) -> AsyncStore:
    """Return a store that was opened for blocking code as async code sees it, from any event loop."""
    if isinstance(store, MemoryStore):
        return OnLoop(store)
    # A SQLite store queues commits itself, so that hundreds of tasks share an fsync.
    return Threaded(cast("Grouping", store)) if hasattr(store, "submit") else Pooled(store)


def _find(address: Address) -> tuple[Maker, AsyncMaker]:
    text = address if isinstance(address, str) else os.fspath(path_of(address))
    try:
        url = urlsplit(text if "://" in text else "")
    except ValueError:
        raise InvalidInput(f"{text!r:.80} is neither a path nor the address of a store; nothing was opened") from None
    scheme = url.scheme
    if scheme == "memory":
        return MemoryStore, _in_memory
    if scheme in ("", "sqlite", "file"):
        path = unquote(url.netloc + url.path.removeprefix("/")) if scheme else text
        if not path:
            raise InvalidInput("a store address must not be empty; try 'agent.db' or 'memory://'")
        if text in ("memory", "memory:"):
            raise InvalidInput(
                f"{text!r} would be a file of that name; in memory is 'memory://', and the file './{text}'; "
                "nothing was opened"
            )
        if not scheme and text.startswith("file:") and not _means_memory(text):
            raise InvalidInput(
                f"{text!r:.80} is how SQLite writes a path; here it is {text[5:]!r:.80}; nothing was opened"
            )
        if _means_memory(path if scheme != "file" else f"{path}?{url.query}"):
            raise InvalidInput(
                f"{text!r:.80} is how SQLite calls a database in memory; here it is 'memory://'; nothing was opened"
            )
        if scheme == "file":
            meant = unquote(url.netloc.removeprefix("localhost") + url.path)
            raise InvalidInput(
                f"{text!r:.80} is how a browser writes a path; here it is {meant!r:.400}; nothing was opened"
            )
        from strongroom.backends.sqlite import open_file

        make = partial(open_file, path)
        return make, _in_thread(make)
    if scheme in ("postgresql", "postgres"):
        from strongroom.backends import postgres

        return partial(postgres.PostgresStore, text), partial(postgres.AsyncPostgresStore.open, text)
    if scheme in ("redis", "rediss"):
        from strongroom.backends import redis

        return partial(redis.RedisStore, text), partial(redis.AsyncRedisStore.open, text)
    if scheme in ("http", "https"):
        raise InvalidInput(
            f"{text!r:.80} is a server, which strongroom.connect(url) or aconnect(url) opens; nothing was opened"
        )
    raise InvalidInput(
        f"no store is known for {scheme}:// addresses; use a path, sqlite:///, memory://, postgresql:// or redis:// "
        "(a server's address begins with http:// or https://)"
    )


def _means_memory(path: str) -> bool:
    """Tell whether SQLite, given this name, would have kept nothing. We would make a file that is called so."""
    name, _, query = path.partition("?")
    return name.removeprefix("file:") == ":memory:" or "mode=memory" in query.split("&")


def _with_environment(make: Maker, options: dict[str, Any]) -> dict[str, Any]:
    known = _options_of(make, options)
    repeats = os.environ.get(REPEATS_VARIABLE)
    if repeats and "repeats" in known and "repeats" not in options:
        try:
            kept_seconds(repeats)
        except InvalidInput as problem:
            raise InvalidInput(str(problem), path=REPEATS_VARIABLE) from None
        options = {**options, "repeats": repeats}
    if "key" not in options and (key := from_environment()) is not None and "key" in known:
        options = {**options, "key": key}
    return options


def _check(make: Maker, options: dict[str, Any]) -> None:
    """Refuse an option that this store does not have. What it can be, the store looks at itself."""
    known = _options_of(make, options)
    for name in options:
        if name not in known:
            raise InvalidInput(f"this store has no option {name!r:.40}; it has {', '.join(known)}; nothing was opened")


def _options_of(make: Maker, given: dict[str, Any]) -> list[str]:
    """Return the options that a store has, opened as it is to be."""
    known = [name for name, each in signature(make).parameters.items() if each.kind is each.KEYWORD_ONLY]
    only_read = "read_only" in known and given.get("read_only")
    return [name for name in known if name not in WRITING] if only_read else known


async def _in_memory(**options: Any) -> AsyncStore:
    return OnLoop(MemoryStore(**options))


def _in_thread(make: Maker) -> AsyncMaker:
    """Open a file beside the loop: a turn among processes, a migration, a rewriting that is owed may take seconds."""

    async def opened(**options: Any) -> AsyncStore:
        made: list[Store] = []

        def open() -> None:
            made.append(make(**options))

        try:
            await finish(asyncio.to_thread(open))
        except asyncio.CancelledError:
            for store in made:
                await asyncio.to_thread(store.close)
            raise
        return Threaded(cast("Grouping", made[0]))

    return opened
