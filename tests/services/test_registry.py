"""The registry: opaque ids, call chains, and conversations that never meet."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import strongroom
from strongroom.errors import InvalidInput, NotFound
from strongroom.services.threads.registry import Caller


async def test_the_root_is_the_same_each_time(ctx: Any) -> None:
    assert await ctx.registry.root() == await ctx.registry.root()
    assert await ctx.registry.root("other") != await ctx.registry.root()


async def test_a_chain_is_found_again_by_its_names(ctx: Any) -> None:
    id = await ctx.registry.get_or_create("console.router")
    assert await ctx.registry.get_or_create(["console", "router"]) == id
    assert (await ctx.registry.lookup(id)).names == ("console", "router")


async def test_ids_tell_nothing_about_their_chain(ctx: Any) -> None:
    id = await ctx.registry.get_or_create("console.router")
    assert len(id) == 32 and int(id, 16) >= 0


async def test_a_name_may_contain_dots(ctx: Any) -> None:
    id = await ctx.registry.get_or_create(["console", "calculator.add"])
    assert await ctx.registry.get_or_create("console.calculator.add") != id
    assert (await ctx.registry.lookup(id)).names == ("console", "calculator.add")
    assert await ctx.registry.prune(id) == Caller("console", (await ctx.registry.lookup(id)).parent)


async def test_extending_twice_leads_to_the_same_id(ctx: Any) -> None:
    id = await ctx.registry.start("console.front")
    further = await ctx.registry.extend(id, "back")
    assert await ctx.registry.extend(id, "back") == further
    assert (await ctx.registry.lookup(further)).names == ("console", "front", "back")


async def test_a_response_goes_to_the_caller_on_the_callers_thread(ctx: Any) -> None:
    id = await ctx.registry.start("console.front")
    further = await ctx.registry.extend(id, "back")
    assert await ctx.registry.prune(further) == Caller("front", id)
    console = await ctx.registry.prune(id)
    assert console.name == "console"
    assert await ctx.registry.prune(console.thread_id) is None


async def test_conversations_on_the_same_route_never_share_an_id(ctx: Any) -> None:
    ids = [await ctx.registry.start("console.front") for _ in range(3)]
    further = [await ctx.registry.extend(id, "back") for id in ids]
    assert len({*ids, *further}) == 6
    assert [(await ctx.registry.prune(id)).thread_id for id in further] == ids


async def test_roots_keep_conversations_apart(ctx: Any) -> None:
    ana, bob = await ctx.registry.root("ana"), await ctx.registry.root("bob")
    ids = {await ctx.registry.get_or_create("console.router", root=root) for root in (ana, bob)}
    assert len(ids) == 2


async def test_an_unknown_id_is_not_found(ctx: Any) -> None:
    for call in (ctx.registry.lookup, ctx.registry.prune):
        with pytest.raises(NotFound):
            await call("unknown")
    with pytest.raises(NotFound):
        await ctx.registry.extend("unknown", "next")
    with pytest.raises(NotFound):
        await ctx.registry.get_or_create("console", root="unknown")


async def test_cleanup_forgets_a_chain_and_what_was_called_from_it(ctx: Any) -> None:
    id = await ctx.registry.start("console.front")
    further = [await ctx.registry.extend(await ctx.registry.extend(id, name), "deep") for name in ("x", "y")]
    assert await ctx.registry.cleanup(id) == 5
    assert await ctx.registry.cleanup(id) == 0
    for gone in (id, *further):
        with pytest.raises(NotFound):
            await ctx.registry.lookup(gone)


async def test_a_wide_and_deep_tree_of_calls_is_forgotten_whole(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.services.threads.registry.PAGE", 2)
    id = await ctx.registry.start("console")
    for name in "abc":
        called = await ctx.registry.extend(id, name)
        for further in "xyz":
            await ctx.registry.extend(called, further)
    assert await ctx.registry.cleanup(id, commit_id="once") == 13
    assert await ctx.registry.cleanup(id, commit_id="once") == 13
    assert await ctx.registry.cleanup(id) == 0


async def test_a_repeat_gives_the_first_id_although_it_is_forgotten(ctx: Any) -> None:
    id = await ctx.registry.start("console.front", commit_id="once")
    further = await ctx.registry.extend(id, "back", commit_id="once")
    await ctx.registry.cleanup(id)
    assert await ctx.registry.start("console.front", commit_id="once") == id
    assert await ctx.registry.extend(id, "back", commit_id="once") == further
    with pytest.raises(NotFound, match="nothing changed"):
        await ctx.registry.extend(id, "back")


async def test_after_cleanup_a_call_gets_a_fresh_id(ctx: Any) -> None:
    id = await ctx.registry.start("console.front")
    further = await ctx.registry.extend(id, "back")
    await ctx.registry.cleanup(further)
    assert await ctx.registry.extend(id, "back") != further


@pytest.mark.parametrize("chain", ["", "a..b", [], [""], ["a\n"], ["x" * 256]])
def test_a_chain_needs_proper_names(chain: Any) -> None:
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput):
        ctx.registry.get_or_create(chain)


def test_racing_callers_agree_on_the_id(address: str) -> None:
    with strongroom.open(address) as ctx:
        start = ctx.registry.start("console.front")
        with ThreadPoolExecutor(8) as pool:
            ids = set(pool.map(lambda _: ctx.registry.extend(start, "back"), range(16)))
    assert len(ids) == 1


async def test_racing_tasks_agree_on_the_id(address: str) -> None:
    async with strongroom.aopen(address) as ctx:
        ids = await asyncio.gather(*(ctx.registry.get_or_create("console.router") for _ in range(8)))
    assert len(set(ids)) == 1
