"""A function that is async, where there is no event loop: refused with the same sentence wherever one is passed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.errors import InvalidInput, StrongroomError
from tests.test_blocking_names import HANDLES, methods

SENTENCE = "is async, and this is the blocking API; pass a plain function, or use strongroom.aopen()"
CALLED: list[str] = []


async def asks(*given: Any) -> Any:
    CALLED.append("asks")
    await asyncio.sleep(0)


async def answers_at_once(*given: Any) -> Any:
    CALLED.append("answers_at_once")
    return "said"


class Asks:
    async def __call__(self, *given: Any) -> Any:
        CALLED.append("Asks")


WRITES: dict[str, Callable[[Context, Any], Any]] = {
    "update_with": lambda ctx, given: ctx.runs.get("r").update_with(given),
    "milestone": lambda ctx, given: ctx.runs.get("r").milestone(summarizer=given),
    "turn_with": lambda ctx, given: ctx.turn_with(given),
    "learn": lambda ctx, given: ctx.memories.learn("s", model=given),
    "consolidate": lambda ctx, given: ctx.memories.consolidate(model=given, user_id="u"),
    "reembed": lambda ctx, given: ctx.memories.reembed(lambda texts: [[1.0] for _ in texts], progress=given),
}
READS: dict[str, Callable[[Context, Any], Any]] = {
    "window": lambda ctx, given: ctx.sessions.get("s").window(100, strategy="summarize_oldest", summarizer=given),
    "window of some": lambda ctx, given: ctx.sessions.get("s").window(100, where=given),
    "limited": lambda ctx, given: ctx.threads.limited(archive=given),
}


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[Context]:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.runs.create(objective="o", run_id="r")
        ctx.sessions.open("s", user_id="u").append([{"role": "user", "content": "word " * 50}] * 9)
        CALLED.clear()
        yield ctx


@pytest.mark.parametrize(
    "given", [asks, answers_at_once, Asks(), partial(asks, 1)], ids=["waits", "", "object", "part"]
)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_refuses_an_async_function_and_says_that_nothing_changed(ctx: Context, name: str, given: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        WRITES[name](ctx, given)
    assert str(refused.value).endswith(f" {SENTENCE}; nothing changed")


@pytest.mark.parametrize(
    "given", [asks, answers_at_once, Asks(), partial(asks, 1)], ids=["waits", "", "object", "part"]
)
@pytest.mark.parametrize("name", READS)
def test_a_read_refuses_an_async_function(ctx: Context, name: str, given: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        READS[name](ctx, given)
    assert str(refused.value).endswith(f" {SENTENCE}")


@pytest.mark.parametrize("name", WRITES | READS)
def test_an_async_function_is_refused_before_it_is_called(ctx: Context, name: str) -> None:
    with pytest.raises(StrongroomError):
        (WRITES | READS)[name](ctx, asks)
    assert CALLED == []


def test_the_ledger_is_not_told_of_an_async_function(ctx: Context) -> None:
    with pytest.raises(InvalidInput):
        ctx.runs.get("r").update_with(asks)  # type: ignore[arg-type]
    assert len(ctx.runs.get("r").events()) == 1


def test_a_plain_model_that_gives_something_to_await_is_refused_with_the_same_words(ctx: Context) -> None:
    with pytest.raises(InvalidInput) as refused:
        WRITES["learn"](ctx, lambda *given: asks(*given))
    assert SENTENCE in str(refused.value)


async def test_async_functions_decide_for_async_code_of_a_program_that_is_both(ctx: Context) -> None:
    async def decide(working_set: strongroom.WorkingSet) -> strongroom.values.UpdateFields:
        await asyncio.sleep(0)
        return {"status": "BUSY"}

    assert (await (await ctx.awaitable.runs.get("r")).update_with(decide)).status == "BUSY"


async def test_async_functions_decide_where_there_is_an_event_loop() -> None:
    async def decide(working_set: strongroom.WorkingSet) -> strongroom.values.UpdateFields:
        await asyncio.sleep(0)
        return {"status": "BUSY"}

    async with strongroom.aopen("memory://") as ctx:
        assert (await (await ctx.runs.create(objective="o")).update_with(decide)).status == "BUSY"


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.__name__)
def test_no_method_of_a_blocking_class_offers_to_await(handle: type) -> None:
    offers = [name for name in methods(handle) if "Awaitable[" in str(inspect.signature(getattr(handle, name)))]
    assert offers == []


def test_what_update_with_takes_is_in_its_hints() -> None:
    assert "UpdateFields | None" in str(inspect.signature(Run.update_with))
