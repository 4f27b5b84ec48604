"""Which threads come first: those of each name in turn, so that no name waits for another, however many it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strongroom
from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher, mail
from strongroom.dispatch.mail import flagged

NAMES = ["busy", "other"]


@pytest.fixture
def ctx() -> Iterator[AsyncContext]:
    with strongroom.open("memory://") as ctx:
        for n in range(6):
            ctx.threads.append(f"busy-{n}", "x", from_id="user", to_id="busy")
        for n in range(3):
            ctx.threads.append(f"other-{n}", "x", from_id="user", to_id="other")
        yield ctx.awaitable


async def test_threads_are_taken_from_each_name_in_turn(ctx: AsyncContext) -> None:
    assert await flagged(ctx.scope, NAMES, limit=4) == ["busy-0", "other-0", "busy-1", "other-1"]


async def test_where_one_name_has_no_more_the_others_fill_the_places(ctx: AsyncContext) -> None:
    found = await flagged(ctx.scope, NAMES, limit=8)
    assert found == ["busy-0", "other-0", "busy-1", "other-1", "busy-2", "other-2", "busy-3", "busy-4"]


async def test_a_thread_that_waits_for_two_names_is_taken_once(ctx: AsyncContext) -> None:
    await ctx.threads.append("busy-0", "x", from_id="user", to_id="other")
    assert sorted(await flagged(ctx.scope, NAMES, limit=100)) == [f"busy-{n}" for n in range(6)] + [
        f"other-{n}" for n in range(3)
    ]


async def test_a_name_gets_its_turn_although_a_page_of_its_threads_is_skipped(
    ctx: AsyncContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "PAGE", 2)
    assert await flagged(ctx.scope, NAMES, skip={"other-0", "other-1"}, limit=2) == ["busy-0", "other-2"]


async def test_a_worker_with_one_place_gives_it_to_each_name_in_turn(ctx: AsyncContext) -> None:
    desk, order = AsyncDispatcher(ctx, max_concurrent=1, poll_seconds=0.001), list[str]()

    async def handle(payload: Any, call: Any) -> None:
        order.append(call.own_name)

    for name in NAMES:
        desk.handler(name)(handle)
    await desk.drain()
    assert order == ["busy", "other"] * 3 + ["busy"] * 3
