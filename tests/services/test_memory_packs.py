"""Memories in a resume pack: all of them come back, none is believed more than a stranger."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.codec import encode, parse
from strongroom.errors import InvalidInput
from strongroom.services.memories.policy import Policy
from strongroom.store import Commit, new_id
from tests.services.memory_samples import contents, known, mcr, settled, using


@pytest.fixture
def spaces(make_ctx: Any) -> tuple[Any, Any]:
    return make_ctx(space="here"), make_ctx(space="there")


def memories_of(ctx: Any) -> Any:
    """Return the async memories of either colour: these two verbs belong to services, not to users."""
    target = getattr(ctx, "_target", ctx).memories
    return getattr(target, "_async", target)


async def packed(ctx: Any, ids: Any) -> list[Any]:
    return [parse(encode(item)) for item in await memories_of(ctx).pack_items(ids)]


async def unpack(ctx: Any, items: list[Any]) -> Any:
    plan = await memories_of(ctx).unpack_writes(items)
    if plan.writes:
        await settled(ctx.store.commit(Commit(new_id(), plan.expects, plan.writes)))
    return plan


async def test_memories_come_back_with_their_history_and_without_their_trust(spaces: tuple[Any, Any]) -> None:
    here, there = spaces
    trusting = await using(here.memories, policy=Policy(default_trust="trusted"))
    batch = await trusting.propose([mcr("alpha one"), mcr("alpha two")], proposer="user")
    ids = (await trusting.commit(batch.id, reviewer="ana")).memory_ids
    await known(here, mcr("gone", op="deprecate", target_memory_id=ids[1]))
    plan = await unpack(there, await packed(here, ids))
    assert plan.memory_ids == ids
    assert await contents(there, "alpha") == ["alpha one"]
    back = await there.memories.get(ids[0])
    assert (back.trust, back.proposer, back.reviewer) == ("untrusted", "user", "ana")
    assert (await there.memories.get(ids[1])).status == "deprecated"


async def test_what_is_already_known_stays_as_it_is(spaces: tuple[Any, Any]) -> None:
    here, _ = spaces
    ids = (await known(here, mcr("alpha one"))).memory_ids
    assert (await unpack(here, await packed(here, ids))).writes == ()


async def test_content_that_is_already_known_is_not_known_twice(spaces: tuple[Any, Any]) -> None:
    here, there = spaces
    [id] = (await known(here, mcr("alpha one"))).memory_ids
    [twin] = (await known(there, mcr("alpha one"))).memory_ids
    await unpack(there, await packed(here, [id]))
    assert (await there.memories.get(id)).superseded_by == twin
    assert [memory.id for memory in await there.memories.list()] == [twin]


async def test_what_comes_from_a_source_revoked_here_comes_back_revoked(spaces: tuple[Any, Any]) -> None:
    here, there = spaces
    [id] = (await known(here, mcr("alpha one", source_refs=["feed"]))).memory_ids
    await there.memories.revoke(source_ref="feed")
    await unpack(there, await packed(here, [id]))
    assert (await there.memories.get(id)).status == "revoked"
    assert await contents(there, "alpha") == []


@pytest.mark.parametrize(
    "damage",
    [
        {"content": ""},
        {"content": 7},
        {"confidence": 2},
        {"status": "blessed"},
        {"id": "bad\nid"},
        {"id": None},
        {"derived_from": ["mem_hidden"]},
        {"created_at": "2026-01-01T00:00:00"},
        {"expires_at": "banana"},
        {"user_id": ""},
    ],
)
async def test_a_damaged_item_is_refused(spaces: tuple[Any, Any], damage: dict[str, Any]) -> None:
    here, there = spaces
    [item] = await packed(here, (await known(here, mcr("alpha one"))).memory_ids)
    with pytest.raises(InvalidInput):
        await unpack(there, [item | damage])
