"""Workers that lease threads through a server, and vanish: the server keeps what is held against a message."""

from __future__ import annotations

import pytest

import strongroom
from strongroom.context import AsyncContext
from strongroom.dispatch.leases import Lease, LeasedThread
from strongroom.errors import Conflict
from strongroom.services.threads.deliveries import Begun, vanished
from tests.server.serving import Served

MOMENT = 0.000_001  # seconds of a lease that is over at once
LEASE = 600.0


async def took(ctx: AsyncContext, owner: str) -> tuple[LeasedThread, Lease]:
    leased = LeasedThread(ctx.threads, "t", owner)
    while not isinstance(held := await leased.take(LEASE), Lease):
        pass  # the server's clock has not moved yet
    return leased, held


async def test_a_note_that_a_worker_makes_is_found_by_the_next(shared: Served) -> None:
    async with await strongroom.aconnect(shared.url, key=shared.key("notes")) as ctx:
        await ctx.threads.append("t", "x", from_id="user", to_id="echo")
        assert isinstance(await LeasedThread(ctx.threads, "t", "gone").take(MOMENT), Lease)
        leased, held = await took(ctx, "second")
        assert held.state.begun == {}
        record = await leased.message(held, 0)
        noted = await leased.note(held, record, MOMENT)
        assert noted.state.begun == {"echo": Begun(0, 1)}
        assert vanished((await took(ctx, "third"))[1].state, record) == 1


async def test_a_note_of_a_worker_that_lost_the_thread_is_refused(shared: Served) -> None:
    async with await strongroom.aconnect(shared.url, key=shared.key("late")) as ctx:
        await ctx.threads.append("t", "x", from_id="user", to_id="echo")
        late = LeasedThread(ctx.threads, "t", "late")
        held = await late.take(MOMENT)
        assert isinstance(held, Lease)
        record = await late.message(held, 0)
        second, theirs = await took(ctx, "second")
        with pytest.raises(Conflict):
            await late.note(held, record, LEASE)
        assert await second.held(theirs.version)
