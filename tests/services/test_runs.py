"""Runs: how they are made, named, found and listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.store import Store
from strongroom.values import Listing
from tests.awaitable import Awaitable


@pytest.fixture
def here() -> Iterator[Any]:
    """One store, for what is decided before any store is asked."""
    with strongroom.open("memory://") as ctx:
        yield Awaitable(ctx)


def item(name: str, *, priority: int = 5, words: int = 8) -> dict[str, Any]:
    content = f"{name} " * words
    return {"id": name, "content": content, "timestamp": "2026-01-01T00:00:00Z", "priority": priority}


async def types(run: Any) -> list[str]:
    return [event.type for event in await run.events()]


async def test_a_new_run_is_at_seq_0_and_its_ledger_begins(ctx: Any) -> None:
    run = await ctx.runs.create(objective="Build a scraper", constraints=["be polite"])
    assert (run.seq, run.working_set.objective, run.working_set.status) == (0, "Build a scraper", "BOOT")
    assert await types(run) == ["RUN_START"]


async def test_ids_are_generated_and_differ(ctx: Any) -> None:
    first, second = await ctx.runs.create(objective="a"), await ctx.runs.create(objective="b")
    assert first.id != second.id
    assert first.id.startswith("run_")


async def test_an_existing_id_is_refused_and_the_run_stays(ctx: Any) -> None:
    run = await ctx.runs.create(objective="first", run_id="r")
    await run.update(status="BUSY")
    with pytest.raises(Conflict) as refused:
        await ctx.runs.create(objective="second", run_id="r")
    assert refused.value.expected == 0
    found = await ctx.runs.get("r")
    assert (found.working_set.objective, found.seq) == ("first", 1)


@pytest.mark.parametrize("bad", ["", "a\nb", "x" * 161, 5, "\ud800"])
async def test_an_id_that_is_no_key_is_refused(here: Any, bad: Any) -> None:
    with pytest.raises(InvalidInput):
        await here.runs.create(objective="o", run_id=bad)


async def test_an_id_like_a_path_is_just_an_id(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="../../etc/passwd")
    assert (await ctx.runs.get("../../etc/passwd")).working_set.run_id == run.id


async def test_an_empty_objective_is_refused_and_nothing_is_there(ctx: Any) -> None:
    with pytest.raises(InvalidInput, match="objective"):
        await ctx.runs.create(objective="", run_id="r")
    with pytest.raises(NotFound):
        await ctx.runs.get("r")


async def test_an_objective_over_the_budget_is_refused(ctx: Any) -> None:
    with pytest.raises(BudgetExceeded) as refused:
        await ctx.runs.create(objective="word " * 5000)
    assert refused.value.needed > refused.value.limit == 2000


async def test_a_configuration_out_of_range_is_refused_by_name(ctx: Any) -> None:
    with pytest.raises(InvalidInput, match="pinned_context_max_items"):
        await ctx.runs.create(objective="o", config={"pinned_context_max_items": 11})


async def test_a_field_that_a_configuration_does_not_have_is_told_with_those_it_has(ctx: Any) -> None:
    told = (
        r"config: there is no field 'ws_max_tokenz', did you mean ws_max_tokens\? the fields are ws_max_tokens, "
        r"pinned_context_max_items, milestone_step_cap, milestone_error_cap, state_max_bytes; nothing changed"
    )
    with pytest.raises(InvalidInput, match=told):
        await ctx.runs.create(objective="o", config={"ws_max_tokenz": 3})


async def test_runs_are_listed_by_status_a_page_at_a_time(ctx: Any) -> None:
    made = [await ctx.runs.create(objective=str(place)) for place in range(3)]
    await made[1].update(status="DONE")
    page = await ctx.runs.list(limit=2)
    rest = await ctx.runs.list(limit=2, after=page.next)
    assert [run.id for run in [*page, *rest]] == [run.id for run in made]
    assert rest.next is None
    assert [run.id for run in await ctx.runs.list(status="DONE")] == [made[1].id]


async def test_what_a_page_calls_next_is_passed_back_as_it_is(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    for number in range(3):
        await run.record("TOOL_CALL", {"tool_name": str(number)})
        await run.milestone(str(number))
    for read in (run.events, run.episodes):
        seen, page = [], await read(limit=2)
        while page.next is not None:
            seen += page
            page = await read(after=page.next, limit=2)
        assert [*seen, *page] == list(await read())


@pytest.mark.parametrize("bad", ["", "x", "-1", -1, "1" * 30])
async def test_a_cursor_that_no_page_gave_is_refused(here: Any, bad: Any) -> None:
    run = await here.runs.create(objective="o")
    for read in (run.events, run.episodes):
        with pytest.raises(InvalidInput, match="after must be a whole number, 0 or more, or what a page calls `next`"):
            await read(after=bad)


def test_a_run_shows_what_it_is() -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        run.update(status="BUSY")
        assert repr(run) == "<Run 'r' seq=1 status=BUSY>"
        assert repr(ctx.runs.list()[0]) == repr(run)


async def test_an_async_run_shows_what_it_is() -> None:
    ctx = await strongroom.aopen("memory://")
    assert repr(await ctx.runs.create(objective="o", run_id="r")) == "<AsyncRun 'r' seq=0 status=BOOT>"
    await ctx.close()


def test_a_page_of_runs_is_a_listing_like_every_other() -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        pages: list[object] = [ctx.runs.list(), run.events(), run.episodes()]
        assert {type(page) for page in pages} == {Listing}


async def test_a_page_equals_a_list_of_the_same_things_and_no_other(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.record("TOOL_CALL", {"tool_name": "t"})
    page = await run.events(limit=1)
    same, others = list(page), [*page, *page]
    assert [page == same, same == page, page == tuple(same), page == others, others == page] == [True] * 3 + [False] * 2
    assert [page != same, same != page, page != tuple(same), page != others, others != page] == [False] * 3 + [True] * 2


async def test_a_page_without_anything_equals_an_empty_list(ctx: Any) -> None:
    pages = [await ctx.runs.list(), await ctx.sessions.list(), await ctx.threads.list(), await ctx.files.list()]
    assert [page == [] for page in pages] == [True] * 4 and [page != [] for page in pages] == [False] * 4


def test_another_space_sees_no_run(store: Store) -> None:
    mine, yours = (Context(AsyncContext(Scope(Inline(store), space))) for space in ("mine", "yours"))
    mine.runs.create(objective="secret", run_id="r")
    with pytest.raises(NotFound):
        yours.runs.get("r")
    assert list(yours.runs.list()) == []


def test_whoever_gets_a_run_and_updates_it_reads_it_once() -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r").record("TOOL_CALL", {"tool_name": "t"})
        plain, reads = ctx.store.read, list[Any]()

        def counted(questions: Any) -> Any:
            reads.append(questions)
            return plain(questions)

        ctx.store.read = counted  # type: ignore[method-assign]
        run = ctx.runs.get("r")
        assert run.update(expected_seq=0, status="BUSY").seq == 1
        assert len(reads) == 1
        assert run.verify().ok
