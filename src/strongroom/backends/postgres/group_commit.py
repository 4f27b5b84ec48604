"""Group commit: commits that come while others are on their way share one message, one transaction, one fsync.

For an event loop, where many tasks share one process. Alone, a commit goes at once. While `LANES` messages are under
way the next commits wait; whoever is first when a lane becomes free takes along all that have come since. A connection,
a message and a transaction for each is what they save.

Commits that touch a few keys each and claim nothing share a message, in the order of their keys, so that those who
share keys seldom wait for each other in a circle; and no message waits longer than a moment for a lock, which ends a
circle and keeps a lane from being held by somebody else's lock. Each commit is still checked on its own: a refusal is
an answer, not an error. If the message fails (it had to wait for a lock, or the connection is lost), nothing of it was
applied, or nobody knows; each commit then goes on by itself, for as long as it takes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from strongroom.backends.postgres.failures import Effort
from strongroom.store import Commit, Key, claims_of

LANES = 2
MOST = 64
MOST_KEYS = 4  # as many as a message, an event, an update or a small turn is about
MOST_BYTES = 4 * 1024 * 1024


class Ticket(Struct, eq=False):
    """One commit: what to send, and what came back."""

    keys: tuple[Key, ...]  # that it is about, in order
    arguments: tuple[Any, ...]
    size: int
    effort: Effort
    turn: asyncio.Future[bool] | None = None  # True: it is yours to lead; False: you were taken along
    row: tuple[Any, ...] | None = None


class GroupCommit:
    """The queue of one store. `send` sends tickets in one message and fills in their rows; `alone` makes a single call
    for as long as it takes."""

    def __init__(
        self,
        send: Callable[[list[Ticket]], Awaitable[None]],
        alone: Callable[[tuple[Any, ...], Effort], Awaitable[tuple[Any, ...]]],
    ) -> None:
        self._send, self._alone = send, alone
        self._under_way = 0
        self._waiting: deque[Ticket] = deque()

    async def settle(self, ticket: Ticket) -> tuple[Any, ...]:
        """Return the server's answer. Not to be cancelled."""
        leads = self._under_way < LANES
        if leads:
            self._under_way += 1
        else:
            ticket.turn = asyncio.get_running_loop().create_future()
            self._waiting.append(ticket)
            leads = await ticket.turn
        if leads:
            batch = self._batch(ticket)
            try:
                await self._send(batch)
            finally:
                self._hand_over(batch)
        return ticket.row or await self._alone(ticket.arguments, ticket.effort)

    def _batch(self, first: Ticket) -> list[Ticket]:
        batch, room = [first], MOST_BYTES - first.size
        while self._waiting and len(batch) < MOST and self._waiting[0].size <= room:
            room -= self._waiting[0].size
            batch.append(self._waiting.popleft())
        return sorted(batch, key=lambda ticket: ticket.keys)

    def _hand_over(self, batch: list[Ticket]) -> None:
        for ticket in batch:
            if ticket.turn is not None and not ticket.turn.done():
                ticket.turn.set_result(False)
        while self._waiting:
            turn = self._waiting.popleft().turn
            if turn is not None and not turn.done():  # else its loop is being shut down
                turn.set_result(True)
                return
        self._under_way -= 1


def few_keys(commit: Commit) -> tuple[Key, ...] | None:
    """Return the keys that a commit is about, in order, if they are few and it claims nothing."""
    keys = {part.key for part in (*commit.expects, *commit.writes)}
    return None if len(keys) > MOST_KEYS or claims_of(commit) else tuple(sorted(keys))
