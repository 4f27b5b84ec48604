"""The Postgres store for async code: `store.PostgresStore` with awaits. The same modules decide for both."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from holdfast.backends.postgres import commits, moving, reads, schema, search
from holdfast.backends.postgres.address import Address, parse
from holdfast.backends.postgres.failures import Effort, bounded, dropped, translate, unreachable
from holdfast.backends.postgres.watch import POLL_SECONDS, WATCH, AsyncListener, channel
from holdfast.errors import Closed, Unavailable
from holdfast.store import (
    MAX_RECORD_BYTES,
    Commit,
    Durability,
    Find,
    Found,
    Key,
    Parcel,
    Question,
    Range,
    Receipt,
    Shipment,
    check_sizes,
)

T = TypeVar("T")


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """A connection on which no call waits longer than it may."""

    deadline = float("inf")

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        return await super().wait(bounded(gen, self.deadline), *args, **kwargs)


class AsyncPostgresStore:
    """Keep everything in a Postgres database. Made by `await AsyncPostgresStore.open(url)`."""

    @classmethod
    async def open(cls, url: str, **options: Any) -> AsyncPostgresStore:
        """Connect, creating or migrating the tables if needed. Options are those of `PostgresStore`."""
        store = cls(url, **options)
        store._facts = await _prepare(store.address, store._timeout)
        await store._pool.open()
        return store

    def __init__(
        self,
        url: str,
        *,
        max_connections: int = 16,
        timeout_seconds: float = 30.0,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self.address = parse(url)
        self._timeout = timeout_seconds
        self._limit = max_record_bytes
        self._pid = os.getpid()
        self._closed = False
        self._facts: schema.Facts
        self._pool = AsyncConnectionPool(
            self.address.conninfo,
            connection_class=AsyncConnection,
            kwargs=self.address.options(timeout_seconds),
            min_size=1,
            max_size=max_connections,
            reconnect_timeout=0,
            num_workers=2,
            open=False,
        )
        self._listener = AsyncListener(self.address, timeout_seconds)

    @property
    def durability(self) -> Durability:
        return self._facts.durability

    def __repr__(self) -> str:
        return f"AsyncPostgresStore({self.address.shown!r})"

    # ---- the two verbs ----------------------------------------------------------------------------------------------

    async def read(self, questions: Sequence[Question]) -> list[Any]:
        """Answer all questions from one snapshot."""
        if not questions:
            self._check_usable()
            return []
        return reads.answers(questions, await self._ask(reads.CALL, reads.arguments(questions)))

    async def commit(self, commit: Commit) -> Receipt:
        """Apply a commit. A task cancelled meanwhile waits until it has landed or failed, then is cancelled."""
        check_sizes(commit, self._limit)
        effort = Effort(self.address.shown, self._timeout, commit.id)
        call = asyncio.ensure_future(
            self._call(self.address.sql(commits.CALL), commits.arguments(commit, self._timeout), effort)
        )
        return commits.settled(commit, (await _finish(call))[0])

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        deadline = time.monotonic() + timeout_seconds
        question = [Range(key, 0, 0)]
        name = channel(self.address.schema, key)
        with self._listener.hearing(name) as heard:
            watch = (key.space, key.kind, key.id, timeout_seconds + 1)
            await self._ask(WATCH, watch)
            while not self._closed:
                heard.clear()
                if (await self.read(question))[0].length > length:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                try:
                    await asyncio.wait_for(heard.wait(), min(left, POLL_SECONDS))
                except TimeoutError:
                    continue

    # ---- searching and moving ---------------------------------------------------------------------------------------

    async def search(self, find: Find) -> Found:
        """Return where any of the words stand. What was committed is found at once."""
        rows = await self._ask(search.FIND, search.question(find))
        total, counts, places = search.chosen(find, rows)
        if not places:
            return Found(total, counts, ())
        return search.found(find, total, counts, await self._ask(search.PLACES, search.lookup(find, places)))

    async def unload(self, after: str | None, limit: int) -> Shipment:
        """Return the next parcels of everything there is; see `holdfast.store.Movable`."""
        return moving.shipment(await self._ask(moving.UNLOAD, moving.question(after, limit)), limit)

    async def load(self, parcels: Sequence[Parcel]) -> None:
        """Put parcels in place as they are; see `holdfast.store.Movable`."""
        await self._ask(moving.LOAD, moving.arguments(parcels))

    async def close(self) -> None:
        """Let go of the database. Closing twice is fine."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        await self._listener.close()
        await self._pool.close()

    async def __aenter__(self) -> AsyncPostgresStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- connections ------------------------------------------------------------------------------------------------

    async def _ask(self, sql: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Make a call that changes nothing when it is repeated."""
        return await self._call(self.address.sql(sql), arguments, Effort(self.address.shown, self._timeout))

    async def _call(self, sql: str, arguments: tuple[Any, ...], effort: Effort) -> list[tuple[Any, ...]]:
        while True:
            con = await self._connection(effort)
            try:
                con.deadline = effort.patience()
                return await (await con.cursor(binary=True).execute(sql, arguments)).fetchall()
            except psycopg.Error as error:
                pause = effort.failed(error, lost=dropped(con.pgconn, error))
            finally:
                await self._pool.putconn(con)
            await asyncio.sleep(pause)

    async def _connection(self, effort: Effort) -> AsyncConnection:
        while True:
            self._check_usable()
            try:
                return await self._pool.getconn(effort.slice())
            except PoolTimeout:
                continue
            except PoolClosed:
                raise Closed("this store is closed; nothing changed") from None

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed("this store is closed; nothing changed")
        if os.getpid() != self._pid:
            raise Unavailable(
                "this store was opened before a fork(); open a new one in the child process (nothing changed)",
                reason="forked",
            )


async def _finish(call: asyncio.Future[T]) -> T:
    """Wait for a call to its end, whoever cancels us meanwhile; then be cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        call.exception()  # seen: the cancellation is what the caller hears about
        raise cancelled
    return call.result()


async def _prepare(address: Address, timeout_seconds: float) -> schema.Facts:
    try:
        con = await AsyncConnection.connect(address.conninfo, **address.options(timeout_seconds))
    except psycopg.Error as error:
        raise unreachable(error, address.shown) from None
    try:
        con.deadline = time.monotonic() + timeout_seconds
        steps = schema.opening(address)
        statement = next(steps)
        while True:
            done = await con.execute(*statement)
            statement = steps.send(await done.fetchall() if done.description else [])
    except StopIteration as stop:
        facts: schema.Facts = stop.value
        return facts
    except psycopg.Error as error:
        raise translate(error) from error
    finally:
        await con.close()
