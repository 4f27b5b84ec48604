"""Erasing a whole session that belongs to nobody: `session.erase(all=True)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.errors import InvalidInput, NotFound
from tests.server.serving import served

TALK: Any = [{"role": "user", "content": "Zebrowski"}, {"role": "user", "content": "Quixotic"}]


async def test_nothing_of_a_session_is_left_also_what_was_hidden(ctx: Any) -> None:
    session = await ctx.sessions.open("s", title="Ana", metadata={"mail": "ana@example.com"})
    await session.append(TALK)
    await session.pop()
    told = await session.erase(all=True)
    assert (told.messages, told.session_id) == (2, "s")
    assert list(await ctx.sessions.list()) == []
    with pytest.raises(NotFound):
        await session.restore()
    anew = await ctx.sessions.open("s")
    assert await anew.load() == [] and (await anew.info()).title == "s"


async def test_a_repeat_answers_the_same_and_leaves_a_session_of_that_name_alone(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(TALK)
    first = await session.erase(all=True, commit_id="e")
    anew = await ctx.sessions.open("s")
    await anew.append(TALK)
    assert await session.erase(all=True, commit_id="e") == first
    assert len(await anew.load()) == 2


async def test_all_and_some_is_refused(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(TALK)
    with pytest.raises(InvalidInput, match="nothing changed"):
        await session.erase(["a"], all=True)
    assert len(await session.load()) == 2


def test_no_byte_is_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(str(path)) as ctx:
        session = ctx.sessions.open("s", title="Titlename", metadata={"mail": "metaana@example.com"})
        session.append(TALK)
        session.pop()
        assert session.erase(all=True).complete
    held = path.read_bytes()
    assert not [word for word in (b"Zebrowski", b"Quixotic", b"Titlename", b"metaana") if word in held]


def test_through_a_server_it_is_the_same(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server, strongroom.connect(server.url, key=server.key()) as ctx:
        session = ctx.sessions.open("s")
        session.append(TALK)
        assert session.erase(all=True).messages == 2
        assert list(ctx.sessions.list()) == []
