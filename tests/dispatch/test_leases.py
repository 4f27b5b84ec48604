"""Leases and fences: a message has its effect once, whoever crashes, pauses or is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher
from strongroom.dispatch.delivery import Round
from strongroom.dispatch.routes import Respond, Route
from strongroom.errors import Unavailable
from strongroom.opening import open_async_store, open_store
from strongroom.scope import Scope
from strongroom.store import Commit, Get, Key, Receipt, Store

LEASE = 30.0


class Crash(BaseException):
    """A process that is gone: nobody cleans up after it."""


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def pass_lease(self) -> None:
        self.now += int(LEASE * 1_000_000) + 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ctx(address: str, clock: Clock) -> Any:
    store = open_store(address)
    yield AsyncContext(Scope(Inline(store), clock=clock))
    store.close()


def round_of(ctx: AsyncContext, owner: str, run: Any) -> Round:
    route = Route("echo", lambda payload, call: None)
    return Round(
        ctx.threads,
        {"echo": route},
        "t",
        owner=owner,
        lease_seconds=LEASE,
        run=run,
        stopping=lambda: False,
    )


def answering(word: str) -> Any:
    async def run(route: Route, slot: Any, attempt: int) -> list[Any]:
        return [Respond(word)]

    return run


async def answers(ctx: AsyncContext) -> list[Any]:
    return [slot.payload for slot in await (await ctx.threads.get("t")).sent_by("echo")]


async def test_a_thread_that_is_held_is_left_alone(ctx: AsyncContext) -> None:
    await ctx.threads.append("t", "x", from_id="user", to_id="echo")

    async def meddle(route: Route, slot: Any, attempt: int) -> list[Any]:
        assert await round_of(ctx, "second", answering("second"))() > 0
        return [Respond("first")]

    assert await round_of(ctx, "first", meddle)() == 0
    assert await answers(ctx) == ["first"]


async def test_a_worker_that_was_paused_past_its_lease_cannot_write_late(ctx: AsyncContext, clock: Clock) -> None:
    await ctx.threads.append("t", "x", from_id="user", to_id="echo")

    async def sleep_too_long(route: Route, slot: Any, attempt: int) -> list[Any]:
        clock.pass_lease()
        assert await round_of(ctx, "second", answering("second"))() == 0
        return [Respond("first")]

    assert await round_of(ctx, "first", sleep_too_long)() == 0
    assert await answers(ctx) == ["second"]


async def test_a_paused_worker_cannot_even_release_what_another_holds(ctx: AsyncContext, clock: Clock) -> None:
    await ctx.threads.append("t", "x", from_id="user", to_id="echo")
    key = Key(ctx.space, "delivery", "t")

    async def hold(route: Route, slot: Any, attempt: int) -> list[Any]:
        raise Crash

    async def sleep_too_long(route: Route, slot: Any, attempt: int) -> list[Any]:
        clock.pass_lease()
        with pytest.raises(Crash):
            await round_of(ctx, "second", hold)()
        return [Respond("first")]

    await round_of(ctx, "first", sleep_too_long)()
    document = await ctx.scope.get(Get(key))
    assert document is not None and document.value.load()["owner"] == "second"
    assert await answers(ctx) == []


async def test_after_a_crash_the_message_is_delivered_again(ctx: AsyncContext, clock: Clock) -> None:
    await ctx.threads.append("t", "x", from_id="user", to_id="echo")

    async def crash(route: Route, slot: Any, attempt: int) -> list[Any]:
        raise Crash

    with pytest.raises(Crash):
        await round_of(ctx, "first", crash)()
    assert await round_of(ctx, "second", answering("early"))() > 0
    clock.pass_lease()
    assert await round_of(ctx, "second", answering("second"))() == 0
    assert await round_of(ctx, "third", answering("third"))() == 0
    assert await answers(ctx) == ["second"]


async def test_a_long_run_keeps_its_lease(address: str, clock: Clock) -> None:
    lease_seconds = 0.3
    async with AsyncContext(Scope(await open_async_store(address), clock=clock)) as ctx:
        first, second = (AsyncDispatcher(ctx, lease_seconds=lease_seconds, poll_seconds=0.01) for _ in range(2))
        runs: list[str] = []

        async def slow(payload: Any, call: Any) -> str:
            runs.append("run")
            key, seen = Key(ctx.space, "delivery", "t"), 0
            while seen < 5:
                await asyncio.sleep(0.02)
                document = await ctx.scope.get(Get(key))
                version = 0 if document is None else document.version
                if version > seen:
                    # Most of a lease passes for each renewal, however long that takes on a busy machine.
                    seen = version
                    clock.now += int(0.8 * lease_seconds * 1_000_000)
            return "done"

        for dispatcher in (first, second):
            dispatcher.handler("slow")(slow)
        await first.send("t", "x", from_id="user", to_id="slow")
        await asyncio.gather(first.drain(), second.drain())
        assert runs == ["run"]
        assert [slot.payload for slot in await (await ctx.threads.get("t")).sent_by("slow")] == ["done"]


async def test_stopping_lets_what_is_running_finish(address: str) -> None:
    async with await strongroom.aopen(address) as ctx:
        dispatcher = AsyncDispatcher(ctx, poll_seconds=0.01)

        @dispatcher.handler("last")
        async def last(payload: Any, call: Any) -> Any:
            dispatcher.stop()
            await asyncio.sleep(0)
            return payload

        for n in range(2):
            await dispatcher.send("t", n, from_id="user", to_id="last")
        await dispatcher.run()
        assert [slot.payload for slot in await (await ctx.threads.get("t")).sent_by("last")] == [0]
        await dispatcher.drain()
        assert [slot.payload for slot in await (await ctx.threads.get("t")).sent_by("last")] == [0, 1]


async def test_stopping_at_once_hands_back_what_is_running(address: str) -> None:
    async with await strongroom.aopen(address) as ctx:
        first, second = AsyncDispatcher(ctx, poll_seconds=0.01), AsyncDispatcher(ctx, poll_seconds=0.01)

        @first.handler("hang")
        async def hang(payload: Any, call: Any) -> Any:
            first.stop(drain=False)
            await asyncio.Event().wait()

        second.handler("hang")(lambda payload, call: "handled")
        await first.send("t", "x", from_id="user", to_id="hang")
        await first.run()
        await second.drain()  # at once: the lease was given back, not waited for
        assert [slot.payload for slot in await (await ctx.threads.get("t")).sent_by("hang")] == ["handled"]


async def owner_after(ctx: AsyncContext, dispatcher: AsyncDispatcher, stops: Callable[[int], bool]) -> str | None:
    """Run a dispatcher that is told to stop at once during a commit of its own; return who has the thread then."""
    store: Any = ctx.store
    made, commit = 0, store.commit

    async def stopping(given: Commit) -> Receipt:
        nonlocal made
        made += 1
        if stops(made):
            dispatcher.stop(drain=False)
        receipt: Receipt = await commit(given)
        return receipt

    store.commit = stopping
    await dispatcher.run()
    document = await ctx.scope.get(Get(Key(ctx.space, "delivery", "t")))
    owner: str | None = None if document is None else document.value.load()["owner"]
    return owner


@pytest.mark.parametrize("place", [1, 2, 3, 4])
async def test_stopping_at_once_during_a_commit_hands_the_thread_back(address: str, place: int) -> None:
    async with await strongroom.aopen(address) as ctx:
        dispatcher = AsyncDispatcher(ctx, poll_seconds=0.01)
        dispatcher.handler("h")(lambda payload, call: None)
        for _ in range(5):
            await dispatcher.send("t", "x", from_id="user", to_id="h")
        assert await owner_after(ctx, dispatcher, lambda made: made == place) is None


async def test_stopping_at_once_while_a_lease_is_renewed_hands_the_thread_back(address: str) -> None:
    async with await strongroom.aopen(address) as ctx:
        dispatcher = AsyncDispatcher(ctx, poll_seconds=0.01, lease_seconds=0.3)
        began: list[bool] = []

        @dispatcher.handler("h")
        async def hang(payload: Any, call: Any) -> None:
            began.append(True)
            await asyncio.Event().wait()

        await dispatcher.send("t", "x", from_id="user", to_id="h")
        assert await owner_after(ctx, dispatcher, lambda made: bool(began)) is None


async def test_a_message_that_arrives_while_a_thread_is_given_back_is_not_missed(ctx: AsyncContext) -> None:
    dispatcher = AsyncDispatcher(ctx, poll_seconds=0.01)
    seen: list[int] = []

    @dispatcher.handler("echo")
    async def echo(payload: int, call: Any) -> None:
        seen.append(payload)
        if payload < 5:
            await dispatcher.send("t", payload + 1, from_id="user", to_id="echo")

    await dispatcher.send("t", 0, from_id="user", to_id="echo")
    await dispatcher.drain()
    assert seen == [0, 1, 2, 3, 4, 5]


class Refusing(Inline):
    """A store that lets nobody write, for a reason."""

    def __init__(self, store: Store, reason: str) -> None:
        super().__init__(store)
        self.reason, self.tries = reason, 0

    async def commit(self, commit: Commit) -> Receipt:
        self.tries += 1
        raise Unavailable("not today", reason=self.reason)


@pytest.mark.parametrize("reason", ["permission", "unauthorised"])
async def test_what_a_store_refuses_is_not_asked_for_again(ctx: AsyncContext, reason: str) -> None:
    await ctx.threads.append("t", "x", from_id="user", to_id="echo")
    store = Refusing(ctx.scope.store.blocking, reason)  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="not today"):
        await round_of(AsyncContext(Scope(store)), "first", answering("first"))()
    assert store.tries == 1
