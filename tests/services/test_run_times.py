"""When a run began: said by its first event, and by its document, so that a list need not read ledgers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import strongroom
from strongroom.bridge import Inline
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.scope import Scope
from strongroom.store import Commit, Get, Key, Put, Store, ask, new_id
from strongroom.values import Verification
from tests.services.pack_files import contents, write


async def first_event(run: Any) -> Any:
    [event] = await run.events(limit=1)
    return event


async def test_a_run_began_with_its_first_event(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    assert run.created_at == (await first_event(run)).at
    assert (await ctx.runs.get(run.id)).created_at == run.created_at


async def test_an_update_leaves_a_runs_beginning_as_it_was(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(status="BUSY")
    assert (await ctx.runs.get(run.id)).created_at == run.created_at


async def test_a_list_says_when_its_runs_began(ctx: Any) -> None:
    made = [await ctx.runs.create(objective="o") for _ in range(3)]
    assert [run.created_at for run in await ctx.runs.list()] == [run.created_at for run in made]


async def test_a_fork_began_when_it_was_made(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    fork = await run.fork()
    assert fork.created_at == (await first_event(fork)).at
    assert (await fork.verify()).ok


async def test_an_erased_run_still_says_when_it_began(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await ctx.runs.erase(run.id, reason="asked to")
    assert (await ctx.runs.get(run.id)).created_at == run.created_at
    assert (await run.verify()).ok


async def test_a_pack_brings_back_when_a_run_began(ctx: Any, tmp_path: Path) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    await run.export(tmp_path / "pack.zip")
    with strongroom.open("memory://", space=ctx.space) as elsewhere:
        back = elsewhere.runs.restore(tmp_path / "pack.zip", run_id="again")
        assert (back.created_at, back.verify().ok) == (run.created_at, True)


def test_a_run_from_a_pack_without_events_begins_when_it_is_brought(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r").export(tmp_path / "pack.zip")
        write(
            tmp_path / "bare.zip",
            {"working_set.json": contents(tmp_path / "pack.zip")["working_set.json"], "run.jsonl": b""},
        )
        back = ctx.runs.restore(tmp_path / "bare.zip", run_id="again")
        assert (back.created_at, back.verify().ok) == (back.events()[0].at, True)


def rewritten(store: Store, created: int | None) -> Verification:
    """Say another time in the document of a run, and verify the run."""
    with strongroom.Context(AsyncContext(Scope(Inline(store)))) as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        document = ask(store, Get(Key("default", "run", "r")))
        assert document is not None
        value = {**document.value.load(), "created": created}
        store.commit(Commit(new_id(), (), (Put(document.key, encode(value), dict(document.tags)),)))
        return run.verify()


def test_a_beginning_that_was_exchanged_beside_the_ledger_is_found(store: Store) -> None:
    found = rewritten(store, 1)
    assert (found.ok, found.field) == (False, "created_at")


def test_a_document_without_a_beginning_is_none_of_a_run(store: Store) -> None:
    found = rewritten(store, None)
    assert (found.ok, found.field) == (False, "document")
