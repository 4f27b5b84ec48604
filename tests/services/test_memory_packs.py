"""Memories in a resume pack: all of them come back, none is believed more than a stranger."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.codec import encode, pack, parse
from strongroom.errors import InvalidInput
from strongroom.services.memories import keys
from strongroom.services.memories import packs as memory_packs
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import Revoked
from strongroom.store import Commit, Put, new_id
from strongroom.values import moment
from tests.services.memory_samples import contents, known, mcr, settled, using


@pytest.fixture
def spaces(make_ctx: Any) -> tuple[Any, Any]:
    return make_ctx(space="here"), make_ctx(space="there")


def memories_of(ctx: Any) -> Any:
    """Return the async memories of a blocking or an async context: these two verbs belong to services, not to users."""
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


async def test_an_edited_memory_comes_back_with_what_it_was_edited_from(spaces: tuple[Any, Any]) -> None:
    here, there = spaces
    batch = await here.memories.propose(mcr("alpha one"), proposer="user")
    ids = (await here.memories.commit(batch.id, reviewer="ana", edit={0: "alpha two"})).memory_ids
    await unpack(there, await packed(here, ids))
    assert [step.content for step in await there.memories.history(ids[0])] == ["alpha one", "alpha two"]


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


MEMORY = {
    "id": "mem_1",
    "type": "fact",
    "scope": "global",
    "content": "alpha one",
    "rationale": "it was said",
    "confidence": 0.9,
    "status": "active",
    "trust": "trusted",
    "proposer": "user",
    "reviewer": "ana",
    "batch_id": "batch_1",
    **dict.fromkeys(("proposed_at", "created_at", "updated_at"), "2026-01-01T00:00:00Z"),
}
UNPROPOSABLE: list[dict[str, Any]] = [
    {"scope": "user", "user_id": None},
    {"scope": "project", "user_id": "ana"},
    {"scope": "global", "user_id": "ana"},
    {"content": "x" * 8_001},
    {"content": "\u200b"},
    {"rationale": "x" * 8_001},
    {"rationale": ""},
    {"source_refs": [f"source {n}" for n in range(65)]},
    {"source_refs": ["x" * 2_001]},
    {"tags": ["x" * 101]},
    {"tags": [str(n) for n in range(33)]},
    {"metadata": {"note": "x" * 1_001}},
    {"valid_from": "2026-02-01T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"},
    {"status": "erased", "scope": "user"},
    {"edited_from": "x" * 8_001},
    {"edited_from": "\u200b"},
    {"status": "erased", "content": "(erased)", "rationale": "(erased)", "edited_from": "tea", "scope": "user"},
]


@pytest.mark.parametrize("lie", UNPROPOSABLE)
def test_what_nobody_could_propose_does_not_come_in_a_pack(lie: dict[str, Any]) -> None:
    assert memory_packs.read(MEMORY, 0, Policy()).content == "alpha one"
    with pytest.raises(InvalidInput, match="nobody could propose"):
        memory_packs.read(MEMORY | lie, 0, Policy())


async def test_the_limits_are_those_of_the_policy_that_takes_it_in(spaces: tuple[Any, Any]) -> None:
    here, there = spaces
    [item] = await packed(here, (await known(here, mcr("alpha one"))).memory_ids)
    with pytest.raises(InvalidInput, match="limited to 5 characters"):
        await memories_of(there).using(policy=Policy(max_content_chars=5)).unpack_writes([item])
    owned = item | {"scope": "user", "user_id": None}
    lax = memories_of(there).using(policy=Policy(require_owner=False))
    assert (await lax.unpack_writes([owned])).memory_ids == (item["id"],)


async def test_what_was_erased_comes_back_erased(spaces: tuple[Any, Any]) -> None:
    here, there = spaces
    [id] = (await known(here, mcr("alpha one", scope="user", user_id="ana", source_refs=["feed"]))).memory_ids
    await here.memories.erase(memory_id=id)
    await unpack(there, await packed(here, [id]))
    assert (await there.memories.get(id)).status == "erased"


async def test_what_has_expired_since_comes_back(spaces: tuple[Any, Any]) -> None:
    here, there = spaces
    [item] = await packed(here, (await known(here, mcr("alpha one"))).memory_ids)
    await unpack(there, [item | {"expires_at": "2001-01-01T00:00:00Z"}])
    assert (await there.memories.get(item["id"])).content == "alpha one"


async def test_a_pack_exported_after_a_revocation_does_not_hold_what_was_revoked(ctx: Any, tmp_path: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    told = [mcr("the poisoned well", source_refs=["feed"]), mcr("the clean well", source_refs=["guide"])]
    batch = await ctx.memories.propose(told, proposer="agent", run_id="r")
    committed = await run.milestone("m", memory_batch_id=batch.id, reviewer="ana")
    derived = mcr("drawn from it", source_refs=[committed.memory_commits[0]])
    second = await ctx.memories.propose([derived], proposer="agent", run_id="r")
    await run.milestone("n", memory_batch_id=second.id, reviewer="ana")
    await ctx.memories.revoke(source_ref="feed", by="ana", reason="poisoned")
    await run.export(tmp_path / "pack.zip")
    raw = (tmp_path / "pack.zip").read_bytes()
    assert b"poisoned well" not in raw and b"drawn from it" not in raw and b"clean well" in raw
    back = await ctx.runs.restore(tmp_path / "pack.zip", run_id="back")
    assert (await back.verify()).ok


async def test_nor_while_the_revocation_is_still_under_way(ctx: Any) -> None:
    [id] = (await known(ctx, mcr("the poisoned well", source_refs=["feed"]))).memory_ids
    memories = memories_of(ctx)
    scope = memories._scope
    begun = Revoked(source_ref="feed", by="ana", reason="poisoned", at=moment(0), done=False)
    put = Put(keys.revocation_key(scope.space, "feed"), pack(begun), {"status": "open"})
    await settled(ctx.store.commit(Commit(new_id(), (), (put,))))
    assert (await ctx.memories.get(id)).status == "active"
    assert await packed(ctx, [id]) == []
