"""A session that was deleted, and another one of its name: an id stands for something in one of them alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.errors import InvalidInput, NotFound
from strongroom.services.sessions.begun import append_to
from tests.turning import raw, turned

PAY: Any = {"role": "user", "content": "pay 100"}
TWICE: dict[str, Callable[[Any], Awaitable[object]]] = {
    "append": lambda chat: chat.append(PAY, commit_id="x"),
    "append with an id": lambda chat: chat.append({**PAY, "id": "m-1"}, commit_id="x"),
    "replace": lambda chat: chat.replace([PAY], commit_id="x"),
    "pop": lambda chat: chat.pop(commit_id="x"),
    "fork": lambda chat: chat.fork(session_id="copy", commit_id="x"),
}


async def two_lives(ctx: Any) -> tuple[Any, Any]:
    """Return a handle on a session that is gone, and one on the session that has its name now."""
    old = await ctx.sessions.open("s")
    await old.append({"role": "user", "content": "before"})
    await old.delete()
    new = await ctx.sessions.open("s")
    await new.append([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
    return old, new


async def said(ctx: Any) -> list[Any]:
    return [message["content"] for message in await (await ctx.sessions.get("s")).load()]


@pytest.mark.parametrize("call", TWICE.values(), ids=TWICE)
async def test_what_is_asked_for_by_a_handle_of_before_is_a_repeat_by_a_new_one(
    ctx: Any, call: Callable[[Any], Awaitable[object]]
) -> None:
    old, new = await two_lives(ctx)
    await call(old)
    once = await said(ctx)
    await call(new)
    assert await said(ctx) == once


async def test_what_a_session_was_told_before_it_was_deleted_says_nothing_to_the_next_one(ctx: Any) -> None:
    old = await ctx.sessions.open("s")
    await old.append(PAY, commit_id="x")
    await old.delete()
    new = await ctx.sessions.open("s")
    await new.append(PAY, commit_id="x")
    assert await said(ctx) == ["pay 100"]


async def test_a_handle_of_before_goes_on_with_the_session_that_has_its_name(ctx: Any) -> None:
    old, _ = await two_lives(ctx)
    await old.append({"role": "user", "content": "three"})
    await old.append({"role": "user", "content": "four"}, commit_id="x")
    await old.append({"role": "user", "content": "four"}, commit_id="x")
    assert await said(ctx) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "opened anew"])
async def test_a_repeat_by_a_handle_of_before_gets_the_first_answer_and_writes_nothing(ctx: Any, anew: bool) -> None:
    old = await ctx.sessions.open("s")
    first = await old.append([PAY, PAY], commit_id="a")
    await old.delete()
    if anew:
        await (await ctx.sessions.open("s")).append(PAY)
    assert await old.append([PAY, PAY], commit_id="a") == first
    if anew:
        assert await said(ctx) == ["pay 100"]


async def test_what_came_back_from_a_pack_is_another_session_than_what_went_into_it(ctx: Any, tmp_path: Path) -> None:
    session = await ctx.sessions.open("s")
    await ctx.export(tmp_path / "pack.zip")
    await session.append(PAY, commit_id="x")
    await ctx.sessions.delete("s")
    await ctx.restore(tmp_path / "pack.zip")
    await (await ctx.sessions.get("s")).append(PAY, commit_id="x")
    assert await said(ctx) == ["pay 100"]


async def test_a_repeated_open_gives_nobody_the_session_that_has_the_name_since(ctx: Any) -> None:
    await ctx.sessions.open("s", user_id="ana", commit_id="k")
    await ctx.sessions.delete("s")
    await ctx.sessions.open("s", user_id="bob")
    with pytest.raises(NotFound, match="was deleted since this was done, and another one has its name"):
        await ctx.sessions.open("s", user_id="ana", commit_id="k")


async def test_a_repeated_fork_gives_nobody_the_session_that_has_the_name_since(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.fork(session_id="copy", commit_id="k")
    await ctx.sessions.delete("copy")
    await ctx.sessions.open("copy", user_id="bob")
    with pytest.raises(NotFound, match="was deleted since this was done, and another one has its name"):
        await session.fork(session_id="copy", commit_id="k")


@pytest.mark.parametrize("first", ["some", "all"])
async def test_an_id_under_which_some_was_erased_erases_not_all_and_the_other_way_round(ctx: Any, first: str) -> None:
    session = await ctx.sessions.open("s")
    [one, _] = await session.append([PAY, PAY])
    some, everything = partial(session.erase, [one.id], commit_id="k"), partial(session.erase, all=True, commit_id="k")
    done, refused = (some, everything) if first == "some" else (everything, some)
    await done()
    with pytest.raises(InvalidInput, match="'k' was used before with other content; nothing changed"):
        await refused()


async def test_messages_that_can_be_gone_through_once_are_all_appended_by_a_handle_of_before(ctx: Any) -> None:
    old, _ = await two_lives(ctx)
    many: Any = ({"role": "user", "content": text} for text in "abc")
    await old.append(many, commit_id="x")
    assert (await said(ctx))[2:] == ["a", "b", "c"]


async def test_an_id_under_which_some_was_erased_erases_nothing_of_the_next_session_of_that_name(ctx: Any) -> None:
    old = await ctx.sessions.open("s")
    await old.append({**PAY, "id": "m"})
    await old.erase(["m"], commit_id="k")
    await ctx.sessions.erase("s")
    new = await ctx.sessions.open("s")
    await new.append({**PAY, "id": "m"})
    for again in (partial(new.erase, ["m"], commit_id="k"), partial(ctx.sessions.erase, "s", commit_id="k")):
        with pytest.raises(InvalidInput, match="'k' was used before with other content; nothing changed"):
            await again()
    assert await said(ctx) == ["pay 100"]


async def test_a_turn_is_not_made_again_for_one_of_its_sessions_that_was_opened_anew(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    for refused in (False, True):
        session = await ctx.sessions.open("s")

        def fill(turn: Any, session: Any = session) -> None:
            turn.append(raw(session), PAY)
            turn.update(raw(run), status="BUSY")

        if refused:
            with pytest.raises(InvalidInput, match=r"'t' was .*; nothing changed"):
                await turned(ctx, fill, "t")
        else:
            await turned(ctx, fill, "t")
            await ctx.sessions.delete("s")
    assert await said(ctx) == [] and (await ctx.runs.get("r")).seq == 1


async def test_a_turn_with_a_handle_of_before_is_refused_and_makes_nothing(ctx: Any) -> None:
    old, new = await two_lives(ctx)
    with pytest.raises(NotFound, match="was deleted since this handle was opened"):
        await turned(ctx, lambda turn: turn.append(raw(old), PAY), "t")
    await turned(ctx, lambda turn: turn.append(raw(new), PAY), "t")
    assert await said(ctx) == ["one", "two", "pay 100"]


async def test_a_title_that_changes_keeps_no_append_from_its_place(ctx: Any) -> None:
    chat = await ctx.sessions.open("s")
    other = await ctx.sessions.get("s")
    await other.rename("Another title")
    await chat.append(PAY, commit_id="x")
    await chat.append(PAY, commit_id="x")
    assert await said(ctx) == ["pay 100"]


async def test_a_session_that_is_deleted_and_begun_anew_by_the_same_key_gets_the_message_once(address: str) -> None:
    """Whoever lost time between looking for the session and appending to it finds another one there."""
    async with strongroom.aopen(address) as ctx:
        sessions: Any = ctx.sessions
        late, looked = await sessions.open("s"), sessions.get

        async def get(id: str) -> Any:
            sessions.get = looked
            await late.delete()
            await append_to(sessions, "s", [PAY], commit_id="k")  # the twin, which is faster
            return late

        sessions.get = get
        await append_to(sessions, "s", [PAY], commit_id="k")
        assert await said(ctx) == ["pay 100"]


async def test_calls_that_share_a_handle_of_before_are_known_again_by_a_new_one(address: str) -> None:
    async with strongroom.aopen(address) as ctx:
        old, new = await two_lives(ctx)
        calls = [partial(each.append, PAY, commit_id=f"x{place}") for each in (old, new) for place in range(8)]
        await asyncio.gather(*[call() for call in calls[:8]])
        for call in calls[8:]:
            await call()
        assert len(await said(ctx)) == 2 + 8


async def test_the_key_that_began_a_session_is_known_to_whoever_appends_to_it(address: str) -> None:
    async with strongroom.aopen(address) as ctx:
        begun = await append_to(ctx.sessions, "s", [PAY], commit_id="k")
        assert await (await ctx.sessions.get("s")).append(PAY, commit_id="k") == begun
        assert await said(ctx) == ["pay 100"]


async def test_the_key_that_began_a_session_is_refused_with_other_messages(address: str) -> None:
    async with strongroom.aopen(address) as ctx:
        await append_to(ctx.sessions, "s", [PAY], commit_id="k")
        with pytest.raises(InvalidInput, match="'k' was used before with other content; nothing changed"):
            await (await ctx.sessions.get("s")).append([PAY, PAY], commit_id="k")
