"""In which life of a session something is asked for is said by the caller: saying it wrong does nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.codec import encode
from strongroom.errors import InvalidInput, NotFound
from strongroom.operations import Operation
from strongroom.store import Key
from tests.server.serving import Served, served

PAY: Any = {"role": "user", "content": "pay 100"}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def ctx(server: Served) -> Iterator[Context]:
    server.reset("memory://")
    with strongroom.connect(server.url, key=server.key("default")) as connected:
        yield connected


def asked(ctx: Context, name: str, content: object, life: str = "") -> Any:
    store: Any = ctx.store
    target = Key("default", "session", "s")
    return store.perform(Operation(name, target, encode(content), "k", encode({"parts": [None]}), life=life))


@pytest.mark.parametrize("before", ["0", "00", "+", " "])
def test_a_life_in_another_spelling_is_refused(ctx: Context, before: str) -> None:
    session = ctx.sessions.open("s")
    session.append(PAY, commit_id="k")
    with pytest.raises(InvalidInput, match=r"no session has a life .*; nothing changed"):
        asked(ctx, "session.append", {"messages": [PAY]}, before + session._async._state.life)
    assert len(session) == 1


@pytest.mark.parametrize("life", ["1", "5", "9999999999999999999"])
def test_a_life_that_never_was_is_the_one_that_is_there(ctx: Context, life: str) -> None:
    session = ctx.sessions.open("s")
    session.append(PAY, commit_id="k")
    asked(ctx, "session.append", {"messages": [PAY]}, life)
    assert len(session) == 1


def test_a_part_of_a_turn_that_has_no_lives_takes_none(ctx: Context) -> None:
    ctx.runs.create(objective="o", run_id="r")
    part = ["run.record", "r", "a", {"type": "TOOL_CALL", "payload": {"tool_name": "pay"}}]
    with pytest.raises(InvalidInput, match="there are no lives; nothing changed"):
        asked(ctx, "turn", {"parts": [part]})


def test_a_turn_in_a_life_that_never_was_is_refused(ctx: Context) -> None:
    session = ctx.sessions.open("s")
    with pytest.raises(NotFound, match="was deleted since this handle was opened"):
        asked(ctx, "turn", {"parts": [["session.append", "s", "5", {"messages": [PAY]}]]})
    assert len(session) == 0
