"""Which threads come first: those of each name in turn, so that no name waits for another, however many it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strongroom
from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher, mail
from strongroom.dispatch.mail import flagged
from strongroom.store import Scan

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


@pytest.fixture
def pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "PAGE", 2)
    monkeypatch.setattr(mail, "MOST", 2, raising=False)


async def looks(ctx: AsyncContext, times: int, *, skip: set[str], limit: int) -> list[list[str]]:
    """Look that many times, in turn for the names as a worker does."""
    places: dict[str, str] = {}
    found: list[list[str]] = []
    for n in range(times):
        names = NAMES if n % 2 else NAMES[::-1]
        found.append(await flagged(ctx.scope, names, skip=skip, limit=limit, places=places))
    return found


async def test_a_look_reads_the_same_however_many_threads_are_skipped(
    ctx: AsyncContext, pages_of_two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Scan] = []
    read = ctx.scope.store.read

    async def counted(questions: Any) -> Any:
        asked.extend(questions)
        return await read(questions)

    monkeypatch.setattr(ctx.scope.store, "read", counted)
    await flagged(ctx.scope, NAMES, skip={f"busy-{n}" for n in range(6)}, limit=1)
    assert [(question.tags["receiver"], question.limit) for question in asked] == [("busy", 2), ("other", 2)]


async def test_what_is_behind_many_skipped_threads_is_found_after_some_looks(
    ctx: AsyncContext, pages_of_two: None
) -> None:
    found = await looks(ctx, 3, skip={f"busy-{n}" for n in range(4)}, limit=10)
    assert found[-1] == ["other-0", "busy-4", "other-1", "busy-5"]


async def test_what_is_found_behind_skipped_threads_waits_for_the_turn_of_its_name(
    ctx: AsyncContext, pages_of_two: None
) -> None:
    found = await looks(ctx, 4, skip={f"busy-{n}" for n in range(4)}, limit=1)
    assert found == [["other-0"], ["other-0"], ["other-0"], ["busy-4"]]


async def test_what_a_look_has_passed_over_is_looked_at_again_when_it_comes_free(
    ctx: AsyncContext, pages_of_two: None
) -> None:
    skip, places = {f"busy-{n}" for n in range(6)}, dict[str, str]()
    for _ in range(2):
        await flagged(ctx.scope, ["busy"], skip=skip, limit=1, places=places)
    skip.remove("busy-2")  # on the second page, which was passed
    found = [await flagged(ctx.scope, ["busy"], skip=skip, limit=1, places=places) for _ in range(3)]
    assert ["busy-2"] in found


async def test_a_worker_with_one_place_gives_it_to_each_name_in_turn(ctx: AsyncContext) -> None:
    desk, order = AsyncDispatcher(ctx, max_concurrent=1, poll_seconds=0.001), list[str]()

    async def handle(payload: Any, call: Any) -> None:
        order.append(call.own_name)

    for name in NAMES:
        desk.handler(name)(handle)
    await desk.drain()
    assert order == ["busy", "other"] * 3 + ["busy"] * 3
