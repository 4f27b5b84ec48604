"""Whose a run is: said once, kept in its chain, found by it, and gone with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.bridge import Inline, can_search
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.errors import Conflict, InvalidInput
from strongroom.scope import Scope
from strongroom.services.owning import unnamed
from strongroom.store import Commit, Get, Key, Put, Store, ask, new_id
from tests.services.pack_files import contents, mended, write


async def test_a_run_is_its_owners(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", user_id="ana")
    assert (run.user_id, (await ctx.runs.get(run.id)).user_id) == ("ana", "ana")
    assert (await run.verify()).ok


async def test_a_run_needs_no_owner(ctx: Any) -> None:
    assert (await ctx.runs.create(objective="o")).user_id is None


async def test_runs_are_listed_by_their_owner_and_status(ctx: Any) -> None:
    for name, user_id in (("a", "ana"), ("b", "bob"), ("c", "ana"), ("d", None)):
        await ctx.runs.create(objective="o", run_id=name, user_id=user_id)
    await (await ctx.runs.get("c")).update(status="DONE")
    assert [run.id for run in await ctx.runs.list(user_id="ana")] == ["a", "c"]
    assert [run.id for run in await ctx.runs.list(user_id="ana", status="DONE")] == ["c"]
    assert list(await ctx.runs.list(user_id="nobody")) == []


def test_a_list_does_not_take_who_acts_for_a_filter() -> None:
    with strongroom.open("memory://") as ctx, pytest.raises(TypeError, match="unexpected keyword argument 'actor'"):
        ctx.runs.list(actor="ana")  # type: ignore[call-arg]


async def test_an_update_leaves_a_run_its_owners(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", user_id="ana")
    await run.update(status="BUSY")
    assert [one.user_id for one in await ctx.runs.list(user_id="ana")] == [run.user_id] == ["ana"]


async def test_a_fork_is_its_owners_too(ctx: Any) -> None:
    fork = await (await ctx.runs.create(objective="o", user_id="ana")).fork()
    assert (fork.user_id, (await fork.verify()).ok) == ("ana", True)
    assert len(await ctx.runs.list(user_id="ana")) == 2


async def test_an_owner_is_no_part_of_the_working_set(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", user_id="ana")
    assert "ana" not in str(run.working_set.to_dict())


async def test_opening_a_run_that_is_nobodys_gives_it_an_owner(ctx: Any) -> None:
    before = await ctx.runs.create(objective="o", run_id="r")
    opened = await ctx.runs.open("r", objective="other", user_id="ana", actor="agent-7")
    assert (opened.user_id, opened.seq, opened.working_set.objective) == ("ana", 0, "o")
    assert [run.id for run in await ctx.runs.list(user_id="ana")] == ["r"]
    last = (await opened.events())[-1]
    assert (last.type, last.payload, last.actor) == ("OWNED", {"user_id": "ana"}, "agent-7")
    await before.update(expected_seq=0, status="BUSY")  # what others expect of it is as it was
    assert (before.user_id, (await before.verify()).ok) == ("ana", True)


async def test_opening_a_run_of_somebody_elses_is_refused(ctx: Any) -> None:
    await ctx.runs.create(objective="o", run_id="r", user_id="ana")
    with pytest.raises(Conflict, match="run 'r' is of another user; nothing changed"):
        await ctx.runs.open("r", objective="o", user_id="bob")
    assert (await ctx.runs.open("r", objective="o")).user_id == "ana"
    assert len(await (await ctx.runs.open("r", objective="o", user_id="ana")).events()) == 1


@pytest.mark.parametrize("wrong", ["", "\n", "x" * 300, 5])
async def test_an_owner_has_a_name(ctx: Any, wrong: Any) -> None:
    for call in (ctx.runs.create(objective="o", user_id=wrong), ctx.runs.list(user_id=wrong)):
        with pytest.raises(InvalidInput, match="user_id"):
            await call


@pytest.mark.parametrize("after", [None, "scraper-2"])
async def test_a_pack_brings_the_owner_back(ctx: Any, tmp_path: Path, after: str | None) -> None:
    run = await ctx.runs.create(objective="o", run_id="scraper", user_id="ana")
    await run.export(tmp_path / "pack.zip")
    with strongroom.open("memory://", space=ctx.space) as elsewhere:
        back = elsewhere.runs.restore(tmp_path / "pack.zip", run_id=after)
        assert (back.user_id, back.verify().ok) == ("ana", True)
        assert len(elsewhere.runs.list(user_id="ana")) == 1


def test_a_pack_of_everything_brings_owners_back(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx, strongroom.open("memory://") as elsewhere:
        ctx.runs.create(objective="o", run_id="r", user_id="ana")
        ctx.export(tmp_path / "all.zip")
        elsewhere.restore(tmp_path / "all.zip")
        assert elsewhere.runs.get("r").user_id == "ana"


@pytest.mark.parametrize("lie", ["bob", None, "", 5])
def test_a_pack_that_names_another_owner_than_its_ledger_is_refused(tmp_path: Path, lie: Any) -> None:
    path = tmp_path / "pack.zip"
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r", user_id="ana").export(path)
        entries = contents(path)
        manifest = json.loads(entries["manifest.json"])
        assert manifest.pop("user_id") == "ana"
        manifest |= {} if lie is None else {"user_id": lie}
        write(path, mended({**entries, "manifest.json": json.dumps(manifest).encode()}))
        with pytest.raises(InvalidInput, match=r"owner|user_id"):
            ctx.runs.restore(path, run_id="copy")


@pytest.mark.parametrize("thief", ["bob", None])
@pytest.mark.parametrize("where", ["document", "tag"])
def test_an_owner_that_was_exchanged_beside_the_ledger_is_found(store: Store, thief: str | None, where: str) -> None:
    with strongroom.Context(AsyncContext(Scope(Inline(store)))) as ctx:
        run = ctx.runs.create(objective="o", run_id="r", user_id="ana")
        document = ask(store, Get(Key("default", "run", "r")))
        assert document is not None
        value, tags = document.value.load(), dict(document.tags)
        if where == "document":
            value["user_id"] = thief
        tags.pop("user_id")
        tags |= {} if thief is None else {"user_id": thief}
        store.commit(Commit(new_id(), (), (Put(document.key, encode(value), tags),)))
        found = run.verify()
        assert (found.ok, found.field) == (False, "user_id" if where == "document" else "document")


async def test_an_erased_run_no_longer_says_the_name_of_its_owner(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", user_id="ana@example.com")
    await ctx.runs.erase(run.id, reason="asked to")
    await run.refresh()
    assert (run.user_id, (await run.verify()).ok) == (unnamed("ana@example.com"), True)
    assert list(await ctx.runs.list(user_id="ana@example.com")) == []


async def test_an_erased_run_can_be_opened_again_by_its_owner_and_by_nobody_else(ctx: Any) -> None:
    await ctx.runs.create(objective="o", run_id="r", user_id="ana")
    await ctx.runs.erase("r", reason="asked to")
    with pytest.raises(Conflict, match="of another user"):
        await ctx.runs.open("r", objective="o", user_id="bob")
    run = await ctx.runs.open("r", objective="o", user_id="ana")
    assert (run.user_id, (await run.verify()).ok) == ("ana", True)


async def test_a_brief_shows_the_memories_of_the_runs_owner_and_of_no_other(ctx: Any) -> None:
    await ctx.memories.add("tea is for guests", user_id="ana")
    await ctx.memories.add("tea is a secret", user_id="bob")
    run = await ctx.runs.create(objective="Make tea", run_id="r", user_id="ana")
    if can_search(ctx.store):
        assert "tea is for guests" in (await run.brief(min_confidence=0)).text
    with pytest.raises(InvalidInput, match="run 'r' is of user 'ana', and user_id names 'bob'"):
        await run.brief(user_id="bob")
