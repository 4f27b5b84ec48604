"""The Postgres store for blocking code.

Theory of operation
-------------------
* A commit and a read are one call of one SQL function each, in one round trip; each call is its own transaction, so no
  state is left on a connection and a pooler such as pgbouncer may hand every call to another one.
* `commit.sql` locks the keys it touches, in order, checks everything, and writes last. The server answers after its
  log is on disk.
* The space is set inside the function for the length of the transaction, and row-level security checks it again.
* What to say and what an answer means is decided in `commits`, `reads`, `schema` and `failures`, which do no I/O and
  serve the async store as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from holdfast.backends.postgres import commits, moving, reads, schema, search
from holdfast.backends.postgres.address import Address, parse
from holdfast.backends.postgres.failures import Effort, bounded, dropped, translate, unreachable
from holdfast.backends.postgres.upkeep import Check, check
from holdfast.backends.postgres.watch import POLL_SECONDS, WATCH, Listener, channel
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

STEP = 1_000  # how much of everything one call carries


class Connection(psycopg.Connection[Any]):
    """A connection on which no call waits longer than it may."""

    deadline = float("inf")

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        return super().wait(bounded(gen, self.deadline), *args, **kwargs)


class PostgresStore:
    """Keep everything in a Postgres database. Safe across threads, processes and machines, not across fork()."""

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
        self._facts = _prepare(self.address, timeout_seconds)
        self._pool = ConnectionPool(
            self.address.conninfo,
            connection_class=Connection,
            kwargs=self.address.options(timeout_seconds),
            min_size=1,
            max_size=max_connections,
            reconnect_timeout=0,
            num_workers=2,
            open=True,
        )
        self._listener = Listener(self.address, timeout_seconds)

    @property
    def durability(self) -> Durability:
        return self._facts.durability

    def __repr__(self) -> str:
        return f"PostgresStore({self.address.shown!r})"

    # ---- the two verbs ----------------------------------------------------------------------------------------------

    def read(self, questions: Sequence[Question]) -> list[Any]:
        """Answer all questions from one snapshot."""
        if not questions:
            self._check_usable()
            return []
        return reads.answers(questions, self._ask(reads.CALL, reads.arguments(questions)))

    def commit(self, commit: Commit) -> Receipt:
        """Apply a commit. After a lost connection it is sent again, which its id makes safe."""
        check_sizes(commit, self._limit)
        effort = Effort(self.address.shown, self._timeout, commit.id)
        return commits.settled(
            commit, self._call(self.address.sql(commits.CALL), commits.arguments(commit, self._timeout), effort)[0]
        )

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        deadline = time.monotonic() + timeout_seconds
        question = [Range(key, 0, 0)]
        name = channel(self.address.schema, key)
        with self._listener.hearing(name) as heard:
            watch = (key.space, key.kind, key.id, timeout_seconds + 1)
            self._ask(WATCH, watch)
            while not self._closed:
                heard.clear()
                if self.read(question)[0].length > length:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                heard.wait(min(left, POLL_SECONDS))

    # ---- searching and moving ---------------------------------------------------------------------------------------

    def search(self, find: Find) -> Found:
        """Return where any of the words stand. What was committed is found at once."""
        rows = self._ask(search.FIND, search.question(find))
        total, counts, places = search.chosen(find, rows)
        if not places:
            return Found(total, counts, ())
        return search.found(find, total, counts, self._ask(search.PLACES, search.lookup(find, places)))

    def unload(self, after: str | None, limit: int) -> Shipment:
        """Return the next parcels of everything there is; see `holdfast.store.Movable`."""
        return moving.shipment(self._ask(moving.UNLOAD, moving.question(after, limit)), limit)

    def load(self, parcels: Sequence[Parcel]) -> None:
        """Put parcels in place as they are; see `holdfast.store.Movable`."""
        self._ask(moving.LOAD, moving.arguments(parcels))

    def check(self) -> Check:
        """Follow every stream and its hash chain, in all spaces. Reads everything; changes nothing."""
        return check(self._everything())

    def close(self) -> None:
        """Let go of the database. Closing twice is fine."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._listener.close()
        self._pool.close()

    def __enter__(self) -> PostgresStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- connections ------------------------------------------------------------------------------------------------

    def _everything(self) -> Iterator[tuple[Any, ...]]:
        after: str | None = None
        while True:
            rows = self._ask(moving.UNLOAD, moving.question(after, STEP))
            yield from rows
            after = moving.shipment(rows, STEP).next
            if after is None:
                return

    def _ask(self, sql: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Make a call that changes nothing when it is repeated."""
        return self._call(self.address.sql(sql), arguments, Effort(self.address.shown, self._timeout))

    def _call(self, sql: str, arguments: tuple[Any, ...], effort: Effort) -> list[tuple[Any, ...]]:
        while True:
            con = self._connection(effort)
            try:
                con.deadline = effort.patience()
                return con.cursor(binary=True).execute(sql, arguments).fetchall()
            except psycopg.Error as error:
                pause = effort.failed(error, lost=dropped(con.pgconn, error))
            finally:
                self._pool.putconn(con)
            time.sleep(pause)

    def _connection(self, effort: Effort) -> Connection:
        while True:
            self._check_usable()
            try:
                return self._pool.getconn(effort.slice())
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


def _prepare(address: Address, timeout_seconds: float) -> schema.Facts:
    try:
        con = Connection.connect(address.conninfo, **address.options(timeout_seconds))
    except psycopg.Error as error:
        raise unreachable(error, address.shown) from None
    try:
        con.deadline = time.monotonic() + timeout_seconds
        steps = schema.opening(address)
        statement = next(steps)
        while True:
            done = con.execute(*statement)
            statement = steps.send(done.fetchall() if done.description else [])
    except StopIteration as stop:
        facts: schema.Facts = stop.value
        return facts
    except psycopg.Error as error:
        raise translate(error) from error
    finally:
        con.close()
