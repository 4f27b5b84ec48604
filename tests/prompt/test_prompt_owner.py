"""Whose memories a prompt shows: those of the user whose conversation and run it is, and no other's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.bridge import can_search
from strongroom.errors import InvalidInput
from tests.server.serving import served


async def furnished(ctx: Any) -> Any:
    await ctx.memories.add("ana likes tea", user_id="ana")
    await ctx.memories.add("bob hides tea", user_id="bob")
    return await ctx.sessions.open("chat", user_id="ana")


def remembered(made: Any) -> str:
    return str(made.messages)


async def test_a_session_says_whose_memories_are_seen(ctx: Any) -> None:
    made = await ctx.prompt(session=await furnished(ctx), query="tea", max_tokens=500)
    assert made.receipt.user_id == "ana"
    if can_search(ctx.store):
        assert "ana likes tea" in remembered(made) and "bob" not in remembered(made)


async def test_a_run_says_it_where_there_is_no_session_or_one_of_nobodys(ctx: Any) -> None:
    await furnished(ctx)
    run, talk = await ctx.runs.create(objective="o", user_id="ana"), await ctx.sessions.open("talk")
    for made in (
        await ctx.prompt(run=run, query="tea", max_tokens=500),
        await ctx.prompt(run=run, session=talk, query="tea", max_tokens=500),
        await ctx.prompt(run=run.id, session="chat", user_id="ana", query="tea", max_tokens=500),
    ):
        assert made.receipt.user_id == "ana"
        if can_search(ctx.store):
            assert "ana likes tea" in remembered(made)


@pytest.mark.parametrize("part", ["session", "run"])
async def test_naming_another_user_than_the_owner_is_refused(ctx: Any, part: str) -> None:
    session, run = await furnished(ctx), await ctx.runs.create(objective="o", run_id="chat", user_id="ana")
    told = f"{part} 'chat' is of user 'ana', and user_id names 'bob': leave user_id out, or name the owner"
    with pytest.raises(InvalidInput, match=told) as refused:
        await ctx.prompt(**{part: session if part == "session" else run}, query="tea", user_id="bob", max_tokens=500)
    assert refused.value.path == "user_id"


async def test_a_session_and_a_run_of_two_users_are_refused(ctx: Any) -> None:
    session, run = await furnished(ctx), await ctx.runs.create(objective="o", run_id="r", user_id="bob")
    with pytest.raises(InvalidInput, match="session 'chat' is of user 'ana', and run 'r' of user 'bob'"):
        await ctx.prompt(session=session, run=run, max_tokens=500)


async def test_an_erased_run_is_still_of_its_owner(ctx: Any) -> None:
    session, run = await furnished(ctx), await ctx.runs.create(objective="o", run_id="r", user_id="ana")
    await ctx.runs.erase("r", reason="asked to")
    run = await ctx.runs.get("r")
    assert (await ctx.prompt(session=session, run=run, max_tokens=500)).receipt.user_id == "ana"
    assert (await ctx.prompt(run=run, user_id="ana", max_tokens=500)).receipt.user_id == "ana"
    with pytest.raises(InvalidInput, match="names 'bob'"):
        await ctx.prompt(run=run, user_id="bob", max_tokens=500)


async def test_what_is_nobodys_shows_the_memories_of_whom_the_caller_names(ctx: Any) -> None:
    await furnished(ctx)
    talk = await ctx.sessions.open("talk")
    for user_id in ("ana", "bob", None):
        made = await ctx.prompt(session=talk, query="tea", user_id=user_id, max_tokens=500)
        assert made.receipt.user_id == user_id
        assert (user_id is not None and can_search(ctx.store)) == ("tea" in remembered(made))


async def test_a_session_that_was_given_to_somebody_is_theirs_for_an_older_handle_too(ctx: Any) -> None:
    talk = await ctx.sessions.open("talk")
    await ctx.sessions.open("talk", user_id="ana")
    assert (await ctx.prompt(session=talk, query="tea", max_tokens=500)).receipt.user_id == "ana"


def test_a_server_refuses_it_too_and_a_client_sees_it(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server, strongroom.connect(server.url, key=server.key()) as ctx:
        ctx.sessions.open("chat", user_id="ana").append({"role": "user", "content": "tea?"})
        ctx.memories.add("ana likes tea", user_id="ana")
        made = ctx.prompt(session="chat", max_tokens=500)
        assert made.receipt.user_id == "ana" and "ana likes tea" in remembered(made)
        with pytest.raises(InvalidInput, match="names 'bob'"):
            ctx.prompt(session="chat", user_id="bob", max_tokens=500)
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {server.key()}"}) as http:
            asked: dict[str, Any] = {"session_id": "chat", "max_tokens": 500}
            assert http.post("/prompt", json=asked).json()["receipt"]["user_id"] == "ana"
            refused = http.post("/prompt", json=asked | {"user_id": "bob"})
            assert refused.status_code == 422 and "user 'ana'" in refused.text
