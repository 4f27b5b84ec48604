"""A blocking dispatcher has an event loop of its own, and nobody stops it: leases are renewed on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom import config
from strongroom.dispatch import Dispatcher

SHARED = ["sqlite", "postgres", "redis"]


class Text(msgspec.Struct, frozen=True):
    message: str


def noting(function: Callable[..., Any], callers: set[int]) -> Callable[..., Any]:
    """Return the same function, which notes the threads that call it."""

    def noted(*given: Any) -> Any:
        callers.add(threading.get_ident())
        return function(*given)

    return noted


def served(ctx: strongroom.Context, verb: str) -> tuple[set[int], set[int]]:
    """Serve a function that follows its thread; return the thread of the loop, and those that a verb was called in."""
    callers, loops, store = set[int](), set[int](), ctx.store
    setattr(store, verb, noting(getattr(store, verb), callers))
    dispatcher = Dispatcher(ctx, poll_seconds=0.01)

    @dispatcher.handler("follower")
    def follower(payload: Any, call: Any) -> None:
        assert [*call.thread.follow(after=call.slot_index, idle_seconds=0.5)] == []

    @dispatcher.handler("quick")
    async def quick(payload: Any, call: Any) -> None:
        loops.add(threading.get_ident())

    for name in ("follower", "quick"):
        ctx.threads.append(name, "x", from_id="user", to_id=name)
    callers.clear()
    dispatcher.drain()
    during = set(callers)
    assert dispatcher.dead_letters() == ()
    return loops, during


def test_a_function_that_follows_its_thread_does_not_stop_the_loop(address: str) -> None:
    with strongroom.open(address) as ctx:
        loops, callers = served(ctx, "wait")
        assert loops and loops.isdisjoint(callers)


@pytest.mark.parametrize("address", SHARED, indirect=True)
def test_no_commit_waits_for_a_disk_or_a_server_on_the_loop(address: str) -> None:
    with strongroom.open(address) as ctx:
        loops, callers = served(ctx, "commit")
        assert loops and loops.isdisjoint(callers)


@pytest.mark.parametrize("address", ["postgres", "redis"], indirect=True)
def test_no_read_waits_for_a_server_on_the_loop(address: str) -> None:
    with strongroom.open(address) as ctx:
        loops, callers = served(ctx, "read")
        assert loops and loops.isdisjoint(callers)


def test_a_message_sent_from_a_plain_function_wakes_the_loop(address: str) -> None:
    with strongroom.open(address) as ctx:
        dispatcher = Dispatcher(ctx, poll_seconds=3600)
        seen: list[Any] = []

        @dispatcher.handler("first")
        def first(payload: Any, call: Any) -> None:
            dispatcher.send("second", payload, from_id="first", to_id="second")
            for slot in call.thread.follow(after=call.slot_index):
                seen.append(slot.payload)
                break

        @dispatcher.handler("second")
        def second(payload: Any, call: Any) -> None:
            dispatcher.send("first", "answer", from_id="second", to_id="")

        dispatcher.send("first", "question", from_id="user", to_id="first")
        dispatcher.drain()
        assert seen == ["answer"]


async def test_what_was_registered_comes_back_to_async_code_on_the_same_opening(address: str) -> None:
    with strongroom.open(address) as ctx:
        ctx.threads.register(Text)
        ctx.threads.append("t", Text("hi"), from_id="user")
        thread = await ctx.awaitable.threads.get("t")
        assert [slot.payload async for slot in thread] == [Text("hi")]


async def test_limits_that_a_context_was_opened_with_hold_for_async_code_too() -> None:
    with config.load(environ={}, backend={"url": "memory://", "max_slots_per_thread": 1}).open() as ctx:
        await ctx.awaitable.threads.append("t", "x", from_id="user")
        with pytest.raises(strongroom.BudgetExceeded):
            await ctx.awaitable.threads.append("t", "y", from_id="user")
