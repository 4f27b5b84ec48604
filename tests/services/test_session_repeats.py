"""Repeating a write of a session by its id: one effect, and the first answer again."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.errors import InvalidInput, NotFound
from strongroom.services.sessions import writes
from strongroom.tokens import Custom
from tests.repeats.rows import Row
from tests.repeats.sessions_rows import ROWS, no_other_content, said, two_sessions, whole

IDS = [f"{place}-{row.name}" for place, row in enumerate(ROWS)]
WITH_CONTENT = [row for row in ROWS if row.other_content is not no_other_content]
LETTERS = Custom(len, name="letters")


async def everything(ctx: Any) -> Any:
    """Return all that can be seen of every session."""
    found = []
    for info in await ctx.sessions.list():
        session = await ctx.sessions.get(info.id)
        found.append((info, [(dict(one), one.id, one.at) for one in await session.load()]))
    return found


@pytest.mark.parametrize("row", ROWS, ids=IDS)
async def test_a_repeat_changes_nothing_and_gives_the_first_answer(ctx: Any, row: Row) -> None:
    state = await row.prepare(ctx)
    first = await row.call(ctx, state, "turn-7")
    before = await everything(ctx)
    assert await row.call(ctx, state, "turn-7") == first
    assert await everything(ctx) == before


@pytest.mark.parametrize("row", WITH_CONTENT, ids=[f"{place}-{row.name}" for place, row in enumerate(WITH_CONTENT)])
async def test_an_id_that_was_used_for_something_else_is_refused(ctx: Any, row: Row) -> None:
    state = await row.prepare(ctx)
    await row.call(ctx, state, "turn-7")
    before = await everything(ctx)
    with pytest.raises(InvalidInput, match="'turn-7' was used before with other content; nothing changed"):
        await row.other_content(ctx, state, "turn-7")
    assert await everything(ctx) == before


@pytest.mark.parametrize("row", ROWS, ids=IDS)
async def test_the_same_id_for_another_session_is_another_operation(ctx: Any, row: Row) -> None:
    state = await row.prepare(ctx)
    await row.call(ctx, state, "turn-7")
    before = await everything(ctx)
    await row.other_target(ctx, state, "turn-7")
    if row.name != "session.unpin":
        assert await everything(ctx) != before


@pytest.mark.parametrize("gone", [False, True], ids=["hidden", "deleted"])
async def test_an_append_is_told_again_as_it_was_whatever_happened_since(ctx: Any, gone: bool) -> None:
    session = await ctx.sessions.open("s")
    messages = [said("one two"), {**said("three"), "id": "mine"}]
    first = await whole(session.append(messages, commit_id="turn-1"))
    await session.count_with(LETTERS)
    await (session.delete() if gone else session.truncate_from("mine"))
    assert await whole(session.append(messages, commit_id="turn-1")) == first


async def test_an_append_too_long_for_its_answer_to_be_kept_is_told_from_its_records(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "MAX_ANSWER", 10)
    session = await ctx.sessions.open("s")
    first = await whole(session.append([said("a"), said("b")], commit_id="turn-1"))
    await session.count_with(LETTERS)
    assert await whole(session.append([said("a"), said("b")], commit_id="turn-1")) == first
    await session.delete()
    with pytest.raises(NotFound):
        await session.append([said("a"), said("b")], commit_id="turn-1")


async def test_one_message_and_a_list_of_it_are_the_same_content(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    first = await whole(session.append(said("a"), commit_id="turn-1"))
    assert await whole(session.append([said("a")], commit_id="turn-1")) == first


async def test_an_append_of_nothing_uses_up_its_id(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    assert await session.append([], commit_id="turn-1") == []
    with pytest.raises(InvalidInput, match="other content"):
        await session.append(said("a"), commit_id="turn-1")
    assert await session.load() == []


async def test_what_is_already_so_uses_up_an_id_too(ctx: Any) -> None:
    await two_sessions(ctx)
    session = await ctx.sessions.get("one")
    await session.pin("b", commit_id="p")
    await session.unpin("b")
    await session.pin("b", commit_id="p")
    assert (await session.info()).pinned == ()


async def test_a_session_opened_by_an_id_is_not_made_again_once_it_is_deleted(ctx: Any) -> None:
    session = await ctx.sessions.open("s", commit_id="start")
    await session.delete()
    with pytest.raises(NotFound):
        await ctx.sessions.open("s", commit_id="start")
    assert list(await ctx.sessions.list()) == []
