"""One store and the ways into it: blocking, async, and over HTTP, each of them.

A `House` can do what happens to real ones: lose the answer of a commit after it was made, be closed and opened again,
grow old, and let two callers get as far as their commit before either makes it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import psycopg
import pytest

from strongroom import client
from strongroom.backends.memory import MemoryStore
from strongroom.backends.postgres.address import parse
from strongroom.backends.redis import core as redis_core
from strongroom.backends.redis.scripts import COMMIT, Script
from strongroom.backends.sqlite import SqliteStore
from strongroom.blocking import Context
from strongroom.bridge import Inline, OnLoop, Threaded, run
from strongroom.client.retry import Request
from strongroom.context import AsyncContext
from strongroom.errors import CommitUnknown
from strongroom.opening import open_async_store, open_store
from strongroom.scope import Scope
from strongroom.server.app import use_store
from strongroom.store import Commit, ExportItem, Receipt
from tests.awaitable import Awaitable as Seen
from tests.server.serving import Served

DOORS = ["blocking", "async", "http", "http-async"]
Held = dict[str, list[ExportItem]]  # by space, in the order of their keys
PATIENCE_SECONDS = 60  # a limit for what hangs, not for what is slow
DAY = 86_400


class Line:
    """What goes to the store. It counts what is written, and can lose an answer or let two writers meet."""

    def __init__(self) -> None:
        self.written = self.written_last = 0
        self.made: list[Receipt] = []  # under ids that callers chose
        self.lose: int | None = None
        self.meeting: asyncio.Barrier | threading.Barrier | None = None

    def tap(self, store: Any, *, blocks: bool) -> None:
        """Listen to a blocking or an async store, or to a client of a server."""
        tap = self._tap if blocks else self._tap_async
        if hasattr(store, "send"):
            tap(store, "send", self._writes, self._writes)
        else:
            tap(store, "commit", lambda commit: True, lambda commit: commit.keep)

    def _tap(self, store: Any, verb: str, counts: Callable[[Any], bool], meets: Callable[[Any], bool]) -> None:
        plain = getattr(store, verb)

        def tapped(asked: Any) -> Any:
            if (meeting := self.meeting) is not None and meets(asked):
                assert isinstance(meeting, threading.Barrier)
                meeting.wait(PATIENCE_SECONDS)
                self.meeting = None
            return self._answered(asked, plain(asked), counts(asked))

        setattr(store, verb, tapped)

    def _tap_async(self, store: Any, verb: str, counts: Callable[[Any], bool], meets: Callable[[Any], bool]) -> None:
        plain = getattr(store, verb)

        async def tapped(asked: Any) -> Any:
            if (meeting := self.meeting) is not None and meets(asked):
                assert isinstance(meeting, asyncio.Barrier)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await meeting.wait()
                self.meeting = None
            return self._answered(asked, await plain(asked), counts(asked))

        setattr(store, verb, tapped)

    @staticmethod
    def _writes(ask: Request) -> bool:
        return ask.commit_id is not None

    def _answered(self, asked: Commit | Request, answer: Any, counts: bool) -> Any:
        if isinstance(asked, Commit) and asked.keep:
            self.made.append(answer)
        if counts:
            self.written += 1
            if self.written == self.lose:
                self.lose = None
                # A store names the commit that it saw; a client names the call, as it is told by the one who calls.
                id = asked.id if isinstance(asked, Commit) else asked.commit_id or ""
                raise CommitUnknown("the answer was lost", reason="connection", commit_id=id)
        return answer


class House:
    """A store at an address, entered through one of the doors."""

    def __init__(self, address: str, door: str, server: Served | None, patch: pytest.MonkeyPatch) -> None:
        self.address, self.door, self.line = address, door, Line()
        self._server, self._patch = server, patch
        self._age_seconds = 0.0
        self._entered: list[Any] = []
        self._keys: dict[str, str] = {}
        self._store: Any = None

    @property
    def kind(self) -> str:
        return self.address.partition(":")[0] if "://" in self.address else "sqlite"

    @property
    def blocks(self) -> bool:
        return self.door in ("blocking", "http")

    async def open(self) -> None:
        if self._server is not None:
            store = await self._over_there(self._opened())
        else:
            store = self._made() if self.blocks else await self._opened()
        await self._use(store)

    def _made(self) -> Any:
        if self.kind == "memory":
            return MemoryStore(clock=self._now)
        return SqliteStore(self.address, clock=self._now) if self.kind == "sqlite" else open_store(self.address)

    async def _opened(self) -> Any:
        if self.kind == "memory":
            return OnLoop(self._made())
        return Threaded(self._made()) if self.kind == "sqlite" else await open_async_store(self.address)

    def _now(self) -> float:
        return time.time() + self._age_seconds

    async def _use(self, store: Any) -> None:
        self._store = store
        if self._server is None:
            self.line.tap(store, blocks=self.blocks)
        else:
            await self._over_there(self._use_store(store))

    async def _use_store(self, store: Any) -> None:
        assert self._server is not None
        use_store(self._server.app, store)

    async def enter(self, space: str) -> Any:
        """Return a context of a space, to be awaited, blocking or not."""
        context: Any
        if self._server is None:
            scope = Scope(Inline(self._store) if self.blocks else self._store, space)
            context = Context(AsyncContext(scope)) if self.blocks else AsyncContext(scope)
            return Seen(context) if self.blocks else context
        if space not in self._keys:  # an id is the key's own, so whoever repeats comes with the same one
            self._keys[space] = await asyncio.to_thread(self._server.key, space)
        key = self._keys[space]
        if self.blocks:
            context = await asyncio.to_thread(client.connect, self._server.url, key=key)
        else:
            context = await client.aconnect(self._server.url, key=key)
        self.line.tap(context.store, blocks=self.blocks)
        self._entered.append(context)
        return Seen(context) if self.blocks else context

    async def both(self, one: Awaitable[Any], other: Awaitable[Any]) -> list[Any]:
        """Make two calls at once: neither commits under the id they share before both have come that far."""
        self.line.meeting = threading.Barrier(2) if self.blocks else asyncio.Barrier(2)
        if self.blocks:
            calls: list[Awaitable[Any]] = [asyncio.to_thread(run, _awaited(call)) for call in (one, other)]
        else:
            calls = [one, other]
        return await asyncio.gather(*calls, return_exceptions=True)

    async def held(self) -> Held:
        """Return everything that is stored, receipts apart."""
        if self._server is not None:
            items: list[ExportItem] = await self._over_there(_unloaded(self._store))
        else:
            items = await _unloaded(self._store)
        by_space: Held = defaultdict(list)
        for item in sorted(items, key=lambda item: item.key):
            by_space[item.key.space].append(item)
        return by_space

    async def restart(self) -> None:
        """Close everything and open it again. A store in memory is what it is: only its users start over."""
        await self._leave()
        if self.kind != "memory":
            await self._close()
            await self.open()
        elif self._server is not None:
            await self._use(self._store)

    def later(self, days: float) -> None:
        """Let time pass for the store."""
        self._age_seconds += days * DAY
        if self.kind == "postgresql":
            place = parse(self.address)
            with psycopg.connect(place.conninfo, autocommit=True) as con:
                con.execute("SET strongroom.operator = 'on'")
                con.execute(f"UPDATE {place.schema}.receipt SET until = until - make_interval(days => {days})")
        elif self.kind == "redis":
            now = f"tostring(redis.call('TIME')[1] + {self._age_seconds:.0f})"
            text = COMMIT.text.decode().replace("redis.call('TIME')[1]", now)
            self._patch.setattr(redis_core, "COMMIT", Script(text))

    async def close(self) -> None:
        await self._leave()
        await self._close()

    async def _leave(self) -> None:
        for context in self._entered:
            closing = context.close()
            if inspect.isawaitable(closing):
                await closing
        self._entered.clear()

    async def _close(self) -> None:
        if self._server is not None:
            await self._over_there(self._store.close())
        elif self.blocks:
            self._store.close()
        else:
            await self._store.close()

    async def _over_there(self, work: Coroutine[Any, Any, Any]) -> Any:
        assert self._server is not None
        return await asyncio.to_thread(self._server.do, work)


async def _awaited(call: Awaitable[Any]) -> Any:
    return await call


async def _unloaded(store: Any) -> list[ExportItem]:
    items: list[ExportItem] = []
    after = None
    while True:
        exported = store.unload(after, 10_000)
        if inspect.isawaitable(exported):
            exported = await exported
        items += exported.items
        after = exported.next
        if after is None:
            return items
