"""A turn in which nothing is done makes nothing: over a server, in this process, and in async code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import strongroom
from strongroom.errors import InvalidInput
from tests.server.serving import Served, served

IDS = [None, "w"]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture(params=["file", "server"])
def ctx(request: pytest.FixtureRequest, server: Served) -> Iterator[strongroom.Context]:
    if request.param == "server":
        server.reset("memory://")
    with strongroom.open("memory://") if request.param == "file" else strongroom.connect(server.url) as opened:
        yield opened


@pytest.mark.parametrize("id", IDS)
def test_a_function_that_does_nothing_gives_what_it_returns(ctx: strongroom.Context, id: str | None) -> None:
    assert ctx.turn_with(lambda turn: 5, commit_id=id) == 5


def test_a_function_that_did_nothing_is_asked_again(ctx: strongroom.Context) -> None:
    ctx.turn_with(lambda turn: 5, commit_id="w")
    assert ctx.turn_with(lambda turn: 6, commit_id="w") == 6


def test_a_function_that_did_nothing_may_do_something_under_its_id_later(ctx: strongroom.Context) -> None:
    ctx.turn_with(lambda turn: 5, commit_id="w")
    ctx.turn_with(lambda turn: turn.send("t", {"text": "hi"}, from_id="a"), commit_id="w")
    assert len(ctx.threads.get("t").slice()) == 1


def test_a_function_that_did_something_is_not_asked_again(ctx: strongroom.Context) -> None:
    ctx.turn_with(lambda turn: turn.send("t", {"text": "hi"}, from_id="a"), commit_id="w")
    assert ctx.turn_with(lambda turn: 5, commit_id="w") is None


@pytest.mark.parametrize("id", IDS)
def test_an_empty_block_has_no_results(ctx: strongroom.Context, id: str | None) -> None:
    with ctx.turn(commit_id=id) as turn:
        pass
    assert turn.results() == []


def test_an_empty_block_leaves_its_id_to_another(ctx: strongroom.Context) -> None:
    with ctx.turn(commit_id="w"):
        pass
    with ctx.turn(commit_id="w") as turn:
        turn.send("t", {"text": "hi"}, from_id="a")
    assert len(ctx.threads.get("t").slice()) == 1


def test_an_empty_block_under_what_is_no_id_is_refused(ctx: strongroom.Context) -> None:
    with pytest.raises(InvalidInput, match="a commit id"), ctx.turn(commit_id=""):
        pass


@pytest.mark.parametrize("id", IDS)
async def test_an_async_function_that_does_nothing_gives_what_it_returns(server: Served, id: str | None) -> None:
    server.reset("memory://")
    async with strongroom.aconnect(server.url) as ctx:
        assert await ctx.turn_with(lambda turn: 5, commit_id=id) == 5
