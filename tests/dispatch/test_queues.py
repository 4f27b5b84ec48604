"""What is shown of a queue is of the messages that wait in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.dispatch import queues
from strongroom.dispatch.queues import waiting
from strongroom.scope import Scope

SECOND = 1_000_000


@pytest.fixture
def ctx() -> AsyncContext:
    """A context in which each message comes a second after the one before."""
    clock: Iterator[int] = iter(range(SECOND, 10**12, SECOND))
    return AsyncContext(Scope(Inline(MemoryStore()), clock=lambda: next(clock)))


@pytest.mark.parametrize("others", [0, 1, 5])
async def test_the_oldest_message_is_one_that_waits_for_the_handler(
    ctx: AsyncContext, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(queues, "PAGE", 2)
    for n in range(others):
        await ctx.threads.append("t", "x", from_id="user", to_id="other" if n % 2 else "")
    slot = await ctx.threads.append("t", "x", from_id="user", to_id="mine")
    await ctx.threads.append("t", "x", from_id="user", to_id="mine")
    told = {queue.handler: queue.oldest for queue in (await waiting(ctx.scope)).queues}
    assert told["mine"] == slot.at


async def test_nobody_looks_through_a_whole_thread_for_the_oldest_message(
    ctx: AsyncContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "PAGE", 2)
    monkeypatch.setattr(queues, "MOST_READ", 4)
    for _ in range(5):
        await ctx.threads.append("t", "x", from_id="user")
    await ctx.threads.append("t", "x", from_id="user", to_id="mine")
    [queue] = (await waiting(ctx.scope)).queues
    assert (queue.handler, queue.threads, queue.oldest) == ("mine", 1, None)
