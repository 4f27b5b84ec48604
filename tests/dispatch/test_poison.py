"""Messages that make a function fail in ways no program expects: each ends as a dead letter, and the worker goes on."""

from __future__ import annotations

import asyncio
import concurrent.futures
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom.dispatch import Dispatcher, Retry, send
from tests.dispatch.conftest import Desk

ONCE = Retry(attempts=1)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Strange(BaseException):
    pass


class Picky(msgspec.Struct):
    """A message that some contents cannot be made of."""

    key: str

    def __post_init__(self) -> None:
        {"known": 1}[self.key]


Plain = msgspec.defstruct("Picky", [("key", str)])  # the same name, from a program that lets everything through
PROBLEMS = [
    (ValueError("unit \ud800"), "ValueError: unit \\ud800"),
    (ValueError("\ud800" * 1_000_000), ("ValueError: " + "\\ud800" * 1_000)[:2_000]),
    (Unspeakable(), "Unspeakable, which cannot be shown"),
    (SystemExit(3), "SystemExit: 3"),
    (GeneratorExit(), "GeneratorExit: "),
    (Strange("x"), "Strange: x"),
    (asyncio.CancelledError(), "CancelledError: "),
    (concurrent.futures.CancelledError(), "CancelledError: "),
]


async def letter(ctx: Any, desk: Desk) -> str:
    """Deliver a message that fails and one that does not, and return what the dead letter says."""

    @desk.handler("well")
    def well(payload: Any, call: Any) -> str:
        return "well"

    await desk.send("poison", "message", from_id="user", to_id="ill")
    await desk.drain()
    await desk.send("other", "message", from_id="user", to_id="well")
    await desk.drain()
    assert [slot.payload for slot in await (await ctx.threads.get("other")).slice()] == ["message", "well"]
    [dead] = await desk.dead_letters()
    return str(dead.error)


@pytest.mark.parametrize(("problem", "error"), [*PROBLEMS, (StopIteration(1), "StopIteration: 1")])
async def test_whatever_a_function_raises_is_a_dead_letter(
    ctx: Any, desk: Desk, problem: BaseException, error: str
) -> None:
    @desk.handler("ill", retry=ONCE)
    def ill(payload: Any, call: Any) -> None:
        raise problem

    assert await letter(ctx, desk) == error


@pytest.mark.parametrize(("problem", "error"), PROBLEMS)
async def test_whatever_an_async_function_raises_is_a_dead_letter(
    ctx: Any, desk: Desk, problem: BaseException, error: str
) -> None:
    @desk.handler("ill", retry=ONCE)
    async def ill(payload: Any, call: Any) -> None:
        raise problem

    assert await letter(ctx, desk) == error


async def test_a_function_that_cancels_its_own_task_has_failed(ctx: Any, desk: Desk) -> None:
    @desk.handler("ill", retry=ONCE)
    async def ill(payload: Any, call: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    assert await letter(ctx, desk) == "CancelledError: "


@pytest.mark.parametrize("to", ["\ud800", "a\nb", None, 5, [], {"a": 1}], ids=repr)
async def test_an_answer_to_what_is_no_name_is_a_dead_letter(ctx: Any, desk: Desk, to: Any) -> None:
    @desk.handler("ill", retry=ONCE)
    def ill(payload: Any, call: Any) -> Any:
        return send(to, "x")

    assert (await letter(ctx, desk)).startswith("its answer was refused: ")


async def test_an_answer_that_cannot_be_looked_at_is_a_dead_letter(ctx: Any, desk: Desk) -> None:
    class Torn(dict[str, Any]):
        def __iter__(self) -> Any:
            raise KeyError("torn")

        items = keys = __iter__

    @desk.handler("ill", retry=ONCE)
    def ill(payload: Any, call: Any) -> Any:
        return {"a": Torn(b=1)} if payload else None

    assert (await letter(ctx, desk)).startswith("its answer was refused: ")


def test_a_message_that_its_class_refuses_is_a_dead_letter(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "a.db") as ctx:
        ctx.threads.append("picky", Plain("unknown"), from_id="user", to_id="ill")
    with strongroom.open(tmp_path / "a.db") as ctx:
        dispatcher = Dispatcher(ctx)

        @dispatcher.handler("ill", accepts=Picky, retry=ONCE)
        def ill(payload: Picky, call: Any) -> None: ...

        dispatcher.drain()
        [dead] = dispatcher.dead_letters()
    assert "'unknown'" in dead.error
