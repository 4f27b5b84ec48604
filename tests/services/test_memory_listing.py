"""Listing memories: whose, in which order, and how much is read for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from strongroom.errors import InvalidInput
from tests.services.memory_samples import known, mcr


def of(user: str, *texts: str) -> list[dict[str, Any]]:
    return [mcr(text, scope="user", user_id=user) for text in texts]


async def pages(ctx: Any, limit: int, **filters: Any) -> list[list[str]]:
    found, after = [], None
    while True:
        page = await ctx.memories.list(after=after, limit=limit, **filters)
        found.append([memory.content for memory in page])
        if page.next is None:
            return found
        after = page.next


async def test_what_others_own_takes_no_place_on_a_page(ctx: Any) -> None:
    for user in ("u1", "u2", "u3"):
        await known(ctx, *of(user, f"a of {user}", f"b of {user}"))
    assert await pages(ctx, 2, user_id="u3") == [["a of u3", "b of u3"]]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
async def test_pages_go_on_from_nobodys_memories_to_those_of_the_user_named(ctx: Any, limit: int) -> None:
    await known(ctx, *of("u1", "mine 1"), mcr("ours 1"))
    await known(ctx, mcr("ours 2"), *of("u2", "not mine"), *of("u1", "mine 2", "mine 3"))
    wanted = ["ours 1", "ours 2", "mine 1", "mine 2", "mine 3"]
    found = await pages(ctx, limit, user_id="u1")
    assert [text for page in found for text in page] == wanted
    assert all(len(page) == limit for page in found[:-1])


async def test_what_has_ended_is_listed_by_its_status(ctx: Any) -> None:
    [old] = (await known(ctx, *of("u1", "tea at four"))).memory_ids
    await known(ctx, mcr("tea at five", op="supersede", supersedes=[old], scope="user", user_id="u1"))
    assert await pages(ctx, 5, user_id="u1") == [["tea at five"]]
    assert await pages(ctx, 5, user_id="u1", status="superseded") == [["tea at four"]]


async def test_what_was_known_at_a_time_comes_page_by_page_too(ctx: Any) -> None:
    await known(ctx, *of("u2", "x", "y"), mcr("ours"), *of("u1", "mine"))
    first = await ctx.memories.at(datetime.now(UTC), limit=1, user_id="u1")
    second = await ctx.memories.at(datetime.now(UTC), limit=1, user_id="u1", after=first.next)
    assert [memory.content for memory in (*first, *second)] == ["ours", "mine"]
    assert second.next is None


@pytest.mark.parametrize("after", ["", "7", "1.", "9.1", "0.x", "x.1", "-1.1"])
async def test_a_cursor_that_no_page_returned_is_refused(ctx: Any, after: str) -> None:
    with pytest.raises(InvalidInput, match="a cursor must be one that an earlier page"):
        await ctx.memories.list(after=after)


async def test_a_status_that_no_memory_can_have_is_refused(ctx: Any) -> None:
    with pytest.raises(InvalidInput, match="status must be one of active, superseded"):
        await ctx.memories.list(status="activ")
