"""Erasing memories: nothing of what they said is left, in the store, its files, its index or its vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.codec import pack
from strongroom.errors import InvalidInput, NotFound
from strongroom.services.memories import keys
from strongroom.services.memories.blanking import blanked
from strongroom.services.memories.values import Memory, Revoked
from strongroom.store import Commit, Exportable, Get, Key, Put, new_id
from strongroom.values import moment
from strongroom.vectors.local import LocalVectors
from strongroom.vectors.qdrant import QdrantMemories
from tests.hashed import hashing
from tests.services.memory_samples import contents, known, mcr, settled, using

CANARY = "canaria"  # a word that no stemmer changes


async def stored(ctx: Any) -> str:
    """Return everything a store holds, as text."""
    store: Exportable = ctx.store
    exported = await settled(store.unload(None, 10_000))
    assert exported.next is None
    return str(exported.items)


async def furnished(ctx: Any) -> dict[str, str]:
    """Say the canary wherever a text can be: known, replaced, ended, pending, rejected, of an owner and of a source."""
    add = ctx.memories.add
    secret: dict[str, Any] = {"user_id": "u1", "rationale": CANARY, "metadata": {"k": CANARY}, "tags": [CANARY]}
    ids = {"one": (await add(f"{CANARY} 1", source_refs=[CANARY], **secret)).id}
    ids["two"] = (await ctx.memories.update(ids["one"], f"{CANARY} 2", rationale=CANARY)).id
    ids["ended"] = (await add(f"{CANARY} 3", user_id="u1", project_id="p1")).id
    await ctx.memories.delete(ids["ended"], reason=CANARY)
    await add(f"{CANARY} 4", proposer="agent-7", **secret)
    refused = await add(f"{CANARY} 5", proposer="agent-7", **secret)
    await ctx.memories.reject(refused.batch_id, reason=CANARY, reviewer="ana")
    edited = await add(f"{CANARY} 6", user_id="u1", proposer="agent-7")
    await ctx.memories.commit(edited, reviewer="ana", edit={0: f"{CANARY} 7"})
    ids["edited"] = edited.id
    ids["other"] = (await add("somebody else's tea", user_id="u2")).id
    return ids


async def test_nothing_of_an_owner_is_left_in_the_store(ctx: Any) -> None:
    ids = await furnished(ctx)
    assert CANARY in await stored(ctx)
    erased = await ctx.memories.erase(user_id="u1", by="ana", reason="asked to")
    assert set(erased.memories) == {ids[name] for name in ("one", "two", "ended", "edited")} and erased.batches >= 6
    assert CANARY not in await stored(ctx)
    assert await contents(ctx, "tea", user_id="u2") == ["somebody else's tea"]
    assert await ctx.memories.pending() == []


async def test_what_stays_is_the_place_the_times_and_that_it_was_erased(ctx: Any) -> None:
    ids = await furnished(ctx)
    before = await ctx.memories.get(ids["two"])
    await ctx.memories.erase(memory_id=ids["two"], by="ana")
    after = await ctx.memories.get(ids["two"])
    assert (after.status, after.content, after.user_id) == ("erased", "(erased)", None)
    assert (after.created_at, after.supersedes) == (before.created_at, before.supersedes)
    assert "erased" in [change.event for change in await ctx.memories.history(ids["two"])]


async def test_a_memory_goes_with_those_it_replaced(ctx: Any) -> None:
    ids = await furnished(ctx)
    erased = await ctx.memories.erase(memory_id=ids["two"])
    assert set(erased.memories) == {ids["one"], ids["two"]}


async def test_a_memory_goes_with_what_was_added_of_it_again(ctx: Any) -> None:
    one = await ctx.memories.add(CANARY, user_id="u1")
    assert (await ctx.memories.add(CANARY, user_id="u1")).id == one.id
    erased = await ctx.memories.erase(memory_id=one.id)
    assert len(erased.memories) == 2 and CANARY not in await stored(ctx)


async def test_a_memory_goes_with_what_was_corrected_to_say_the_same(ctx: Any) -> None:
    tea = await ctx.memories.add(f"{CANARY} tea", user_id="u1")
    milk = await ctx.memories.add(f"{CANARY} milk", user_id="u1")
    assert (await ctx.memories.update(milk.id, f"{CANARY} tea")).id == tea.id
    erased = await ctx.memories.erase(memory_id=tea.id)
    assert len(erased.memories) == 3 and CANARY not in await stored(ctx)


async def test_what_was_added_again_and_revoked_goes_too(ctx: Any) -> None:
    one = await ctx.memories.add(CANARY)
    await ctx.memories.add(CANARY, source_refs=["feed"])
    await ctx.memories.revoke(source_ref="feed")
    await ctx.memories.erase(memory_id=one.id)
    assert CANARY not in await stored(ctx)


async def test_a_memory_that_says_the_same_of_somebody_else_stays(ctx: Any) -> None:
    one, other = await ctx.memories.add("tea", user_id="u1"), await ctx.memories.add("tea", user_id="u2")
    assert (await ctx.memories.erase(memory_id=one.id)).memories == (one.id,)
    assert (await ctx.memories.get(other.id)).content == "tea"


async def test_erasing_what_is_erased_finds_what_repeated_it(ctx: Any) -> None:
    one = await ctx.memories.add(CANARY, user_id="u1")
    await ctx.memories.add(CANARY, user_id="u1")
    await alone(ctx, one.id)
    await ctx.memories.erase(memory_id=one.id)
    assert CANARY not in await stored(ctx)


async def alone(ctx: Any, id: str) -> None:
    """Erase one memory as a killed erasure left it: nothing else is gone yet."""
    key = Key(ctx.space, keys.MEMORY, id)
    [document] = await settled(ctx.store.read([Get(key)]))
    gone = keys.put_memory(key, blanked(keys.load(document, Memory), "", 0))
    await settled(ctx.store.commit(Commit(new_id(), (), (gone,))))


async def test_all_that_cites_a_source_goes(ctx: Any) -> None:
    await known(ctx, mcr("tea", source_refs=["Feed 1"]), mcr("milk", source_refs=["feed 2"]))
    await ctx.memories.revoke(source_ref="feed 1", reason=CANARY)
    await ctx.memories.erase(source_ref="feed 1")
    assert await contents(ctx, "tea milk") == ["milk"]
    assert CANARY not in await stored(ctx) and "Feed 1" not in await stored(ctx)
    with pytest.raises(InvalidInput, match="revoked"):
        await known(ctx, mcr("tea again", source_refs=["feed 1"]))


@pytest.mark.parametrize("derived", [False, True])
async def test_what_was_derived_is_named_or_goes_too(ctx: Any, derived: bool) -> None:
    await known(ctx, mcr("tea", memory_id="mem_base"))
    await known(ctx, mcr("tea and milk", memory_id="mem_made", source_refs=["mem_base"]))
    erased = await ctx.memories.erase(memory_id="mem_base", derived=derived)
    assert (erased.memories, erased.derived) == (
        (("mem_base", "mem_made"), ()) if derived else (("mem_base",), ("mem_made",))
    )
    assert await contents(ctx, "tea") == ([] if derived else ["tea and milk"])


@pytest.mark.parametrize("make", [LocalVectors, lambda: QdrantMemories(":memory:")])
async def test_no_vector_is_left(ctx: Any, make: Any) -> None:
    index = make()
    memories = await using(ctx.memories, embedder=hashing(), index=index)
    added = await memories.add("likes tea", user_id="u1")
    assert [hit.memory.id for hit in await memories.search("likes tea", mode="vector", user_id="u1")] == [added.id]
    assert "embedding" in await stored(ctx)
    await memories.erase(user_id="u1")
    assert "kind='embedding'" not in await living(ctx)
    assert await memories.search("likes tea", mode="vector", user_id="u1") == []


async def living(ctx: Any) -> str:
    exported = await settled(ctx.store.unload(None, 10_000))
    return str([item for item in exported.items if getattr(item, "value", None) is not None])


@pytest.mark.parametrize("wrong", [{}, {"memory_id": "mem_1", "user_id": "u1"}, {"source_ref": "a", "project_id": "p"}])
async def test_an_erasure_says_what_it_is_about(ctx: Any, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="nothing changed"):
        await ctx.memories.erase(**wrong)


async def test_what_is_not_there_cannot_be_erased_by_its_id(ctx: Any) -> None:
    with pytest.raises(NotFound, match="nothing changed"):
        await ctx.memories.erase(memory_id="mem_none")


def test_no_byte_of_it_is_left_in_any_file_of_a_store(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        for n in range(30):
            ctx.memories.add(f"{CANARY} number {n}", user_id="u1", rationale=CANARY, metadata={"k": CANARY})
        ctx.memories.search(CANARY, user_id="u1")  # which fills the index of words
        for memory in ctx.memories.list(user_id="u1", limit=10):
            ctx.memories.update(memory.id, f"{CANARY} once more {memory.id}")
        ctx.memories.search(CANARY, user_id="u1")
        assert canaries(tmp_path) > 0
        assert ctx.memories.erase(user_id="u1", by="ana").complete
        assert canaries(tmp_path) == 0
    assert canaries(tmp_path) == 0


def canaries(folder: Path) -> int:
    return sum(file.read_bytes().count(CANARY.encode()) for file in folder.iterdir())


ERASED_BY: dict[str, Any] = {
    "its owner": lambda ctx, _: ctx.memories.erase(user_id="u1"),
    "its id": lambda ctx, id: ctx.memories.erase(memory_id=id),
    "the person": lambda ctx, _: ctx.erase(user_id="u1"),
}


@pytest.mark.parametrize("erase", ERASED_BY.values(), ids=ERASED_BY)
def test_why_a_memory_was_revoked_by_its_id_goes_with_it(tmp_path: Path, erase: Any) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        memory = ctx.memories.add("drinks tea", user_id="u1")
        ctx.memories.revoke(source_ref=memory.id, by="bob", reason=f"Ana has {CANARY}")
        assert canaries(tmp_path) > 0
        assert erase(ctx, memory.id).complete
    assert canaries(tmp_path) == 0


@pytest.mark.parametrize("erase", ERASED_BY.values(), ids=ERASED_BY)
def test_why_the_source_of_a_memory_was_revoked_goes_with_it(tmp_path: Path, erase: Any) -> None:
    source = f"mail from {CANARY}"
    with strongroom.open(tmp_path / "agent.db") as ctx:
        memory = ctx.memories.add("drinks tea", user_id="u1", source_refs=[source.upper()])
        ctx.memories.revoke(source_ref=source, by="bob", reason=f"Ana has {CANARY}")
        assert erase(ctx, memory.id).complete
        assert canaries(tmp_path) == 0
        with pytest.raises(InvalidInput, match="revoked"):
            ctx.memories.add("milk", user_id="u2", source_refs=[source])


async def test_a_memory_that_was_revoked_and_erased_is_no_source_for_others(ctx: Any) -> None:
    memory = await ctx.memories.add("drinks tea", user_id="u1")
    await ctx.memories.revoke(source_ref=memory.id, by="bob", reason=CANARY)
    await ctx.memories.erase(user_id="u1")
    with pytest.raises(InvalidInput, match="revoked"):
        await known(ctx, mcr("tea again", source_refs=[memory.id]))


async def test_a_revocation_of_somebody_elses_memory_says_why_for_ever(ctx: Any) -> None:
    await ctx.memories.add("drinks tea", user_id="u1")
    other = await ctx.memories.add("drinks milk", user_id="u2")
    await ctx.memories.revoke(source_ref=other.id, by="bob", reason="a joke")
    await ctx.memories.erase(user_id="u1")
    assert "a joke" in await stored(ctx)


async def test_a_revocation_under_way_says_no_more_why_and_is_finished_by_a_sweep(ctx: Any) -> None:
    await known(ctx, mcr("tea", memory_id="mem_base", user_id="u1", scope="user"))
    await known(ctx, mcr("tea and milk", memory_id="mem_made", source_refs=["mem_base"]))
    await begun(ctx, "mem_base")
    await ctx.memories.erase(user_id="u1")
    assert CANARY not in await stored(ctx)
    assert await contents(ctx, "tea") == []  # before anybody has finished it
    assert await ctx.memories.sweep() > 0
    assert (await ctx.memories.get("mem_made")).status == "revoked"


async def test_a_source_that_was_erased_while_it_was_revoked_is_forgotten_when_that_is_done(ctx: Any) -> None:
    await begun(ctx, "Feed 1")
    await ctx.memories.erase(source_ref="feed 1")
    await ctx.memories.sweep()
    assert CANARY not in await stored(ctx) and "Feed 1" not in await stored(ctx)


async def begun(ctx: Any, source_ref: str) -> None:
    """Leave a revocation as somebody does who is killed after its first commit."""
    revoked = Revoked(source_ref=source_ref, by="bob", reason=CANARY, at=moment(0), done=False)
    put = Put(keys.revocation_key(ctx.space, source_ref), pack(revoked), {"status": "open"})
    await settled(ctx.store.commit(Commit(new_id(), (), (put,))))
