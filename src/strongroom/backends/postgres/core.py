"""What the blocking and the async store share: what to ask, what to do when no answer comes, what to remember.

Theory of operation
-------------------
* A commit and a read are one call of one SQL function each, in one round trip; each call is its own transaction, so no
  state is left on a connection and a pooler such as pgbouncer may hand every call to another one.
* `commit.sql` locks the keys it touches, in order, checks everything, and writes last. The server answers after its
  log is on disk.
* A commit whose answer is lost is sent again under the same id: the function finds the first one's receipt or applies
  it now. A copy that is refused after an earlier one was lost voids the earlier one, should it still come (commit.sql).
* The space is set inside the function for the length of the transaction, and row-level security checks it again.
* What to say and what an answer means is decided in `commits`, `reads`, `search`, `export`, `schema` and `failures`,
  which do no I/O; `link` does the I/O and decides nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

import strongroom.backends.postgres.commits as commits
import strongroom.backends.postgres.export as export
import strongroom.backends.postgres.reads as reads
import strongroom.backends.postgres.schema as schema
import strongroom.backends.postgres.search as search
from strongroom.backends.postgres.address import Address
from strongroom.backends.postgres.failures import Effort, dropped, translate, unreachable
from strongroom.backends.postgres.group_commit import GroupCommit, Ticket, few_keys
from strongroom.backends.postgres.link import AsyncLink, Link, Rows
from strongroom.backends.postgres.watch import POLL_SECONDS, WATCH, channel
from strongroom.errors import Closed, Unavailable
from strongroom.store import (
    EXPORT_BYTES,
    Answer,
    AnyQuestion,
    Commit,
    Durability,
    ExportItem,
    ExportPage,
    Find,
    Found,
    Key,
    Part,
    Range,
    Receipt,
    Slice,
    check_sizes,
)


class Core:
    """Everything a Postgres store does, over a blocking or an async link."""

    def __init__(
        self, address: Address, link: Link, *, timeout_seconds: float, max_record_bytes: int, kept_seconds: float
    ) -> None:
        self.address = address
        self.facts: schema.Facts
        self._link = link
        self._timeout = timeout_seconds
        self._limit = max_record_bytes
        self.kept_seconds = kept_seconds
        self._pid = os.getpid()
        self._closed = False
        self._group: GroupCommit | None = None
        if isinstance(link, AsyncLink):
            self._group = GroupCommit(partial(self._send_all, link), self._send_alone)

    async def open(self) -> None:
        """Connect, creating or migrating the tables if needed."""
        self.facts = await self._prepare()
        await self._link.open()

    @property
    def shown(self) -> str:
        return self.address.shown

    @property
    def durability(self) -> Durability:
        return self.facts.durability

    @property
    def needed_elsewhere(self) -> dict[str, Any]:
        return {"timeout_seconds": self._timeout}

    # ---- the verbs --------------------------------------------------------------------------------------------------

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        if not questions:
            self._check_usable()
            return []
        return reads.answers(questions, await self._ask(reads.CALL, reads.arguments(questions)))

    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        if not questions:
            self._check_usable()
            return Part([])
        return reads.part(questions, await self._ask(reads.CALL, reads.arguments(questions, max_bytes)))

    async def commit(self, commit: Commit) -> Receipt:
        check_sizes(commit, self._limit)
        effort = Effort(self.address.shown, self._timeout, commit.id, commits.new_call())
        arguments = commits.arguments(commit, self._timeout, self.kept_seconds)
        if self._group is None or (keys := few_keys(commit)) is None:
            row = await self._send_alone(arguments, effort)
        else:
            row = await self._group.settle(Ticket(keys, arguments, commits.size(commit), effort))
        return commits.settled(commit, row)

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        self._check_usable()  # before anything listens for it: nobody would stop that
        deadline = time.monotonic() + timeout_seconds
        with self._link.hearing(channel(self.address.schema, key)) as heard:
            await self._ask(WATCH, (key.space, key.kind, key.id, timeout_seconds + 1))
            while not self._closed:
                heard.clear()
                [found] = await self.read([Range(key, 0, 0)])
                if isinstance(found, Slice) and found.length > length:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                await self._link.pause(min(left, POLL_SECONDS), heard)

    async def search(self, find: Find) -> Found:
        rows = await self._ask(search.FIND, search.question(find))
        total, counts, places = search.chosen(find, rows)
        if not places:
            return Found(total, counts, ())
        rows = await self._ask(search.PLACES, search.lookup(find, places))
        return search.found(find, total, counts, places, rows)

    async def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        return export.page(await self.rows(after, limit, max_bytes))

    async def rows(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> Rows:
        """Return the next rows of everything there is."""
        return await self._ask(export.UNLOAD, export.question(after, limit, max_bytes))

    async def load(self, items: Sequence[ExportItem]) -> None:
        await self._ask(export.LOAD, export.arguments(items))

    async def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        await self._link.close()

    # ---- one answer, whatever it takes ------------------------------------------------------------------------------

    async def _ask(self, sql: str, arguments: tuple[Any, ...]) -> Rows:
        """Make a call that changes nothing when it is repeated."""
        return await self._call(self.address.sql(sql), arguments, Effort(self.address.shown, self._timeout))

    async def _call(self, sql: str, arguments: tuple[Any, ...], effort: Effort) -> Rows:
        while True:
            con = await self._connection(effort)
            try:
                con.deadline = effort.patience()
                return await self._link.execute(con, sql, (*arguments, *effort.copy()))
            except psycopg.Error as error:
                pause = effort.failed(error, lost=dropped(con.pgconn, error))
            finally:
                await self._link.give(con)
            await self._link.pause(pause)

    async def _send_alone(self, arguments: tuple[Any, ...], effort: Effort) -> tuple[Any, ...]:
        arguments = commits.while_left(arguments, effort.left)  # it may have waited for others before
        return (await self._call(self.address.sql(commits.CALL), arguments, effort))[0]

    async def _send_all(self, link: AsyncLink, tickets: list[Ticket]) -> None:
        """Send commits in one transaction. Whatever goes wrong, each goes on alone and finds out."""
        first = tickets[0].effort
        con = await self._connection(first)
        try:
            con.deadline = first.patience()
            calls = [(*commits.in_a_hurry(ticket.arguments), *ticket.effort.copy()) for ticket in tickets]
            sql = self.address.sql(commits.CALL)
            rows = await (link.execute_all(con, sql, calls) if len(calls) > 1 else link.execute(con, sql, calls[0]))
        except psycopg.Error as error:
            if dropped(con.pgconn, error):
                _lose(tickets)
        except BaseException:
            _lose(tickets)
            raise
        else:
            for ticket, row in zip(tickets, rows, strict=True):
                ticket.row = row
        finally:
            await link.give(con)

    async def _connection(self, effort: Effort) -> Any:
        while True:
            self._check_usable(writing=effort.writing)
            try:
                return await self._link.take(effort.slice())
            except PoolTimeout:
                continue
            except PoolClosed:
                raise _closed(effort.writing) from None

    async def _prepare(self) -> schema.Facts:
        try:
            con = await self._link.connect()
        except psycopg.Error as error:
            raise unreachable(error, self.address.shown) from None
        try:
            con.deadline = time.monotonic() + self._timeout
            steps = schema.opening(self.address)
            statement = next(steps)
            while True:
                statement = steps.send(await self._link.execute(con, *statement))
        except StopIteration as stop:
            facts: schema.Facts = stop.value
            return facts
        except psycopg.Error as error:
            raise translate(error) from error
        finally:
            await self._link.disconnect(con)

    def _check_usable(self, *, writing: bool = False) -> None:
        if self._closed:
            raise _closed(writing)
        if os.getpid() != self._pid:
            raise Unavailable(
                "this store was opened before a fork(); open a new one in the child process"
                + " (nothing changed)" * writing,
                reason="forked",
            )


def _lose(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        ticket.effort.lost()


def _closed(writing: bool) -> Closed:
    return Closed("this store is closed" + "; nothing changed" * writing)
