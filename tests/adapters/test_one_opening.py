"""One opening serves blocking and async code, from any thread and any event loop, on every store and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from tests.conftest import STORES
from tests.server.serving import served


@pytest.fixture(params=[*STORES, "http"])
def ctx(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Context]:
    if request.param == "http":
        with served(str(tmp_path / "agent.db")) as server, strongroom.connect(server.url, key=server.key()) as opened:
            yield opened
        return
    if request.param in ("memory", "sqlite"):
        address = "memory://" if request.param == "memory" else str(tmp_path / "agent.db")
    else:
        address = request.getfixturevalue(request.param)
    with strongroom.open(address) as opened:
        yield opened


def on_threads(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def test_each_sees_at_once_what_the_other_wrote(ctx: Context) -> None:
    async def both() -> None:
        session = ctx.sessions.open("s")
        session.append({"role": "user", "content": "blocking, on a running loop"})
        same = await ctx.awaitable.sessions.open("s")
        await same.append({"role": "user", "content": "async"})
        assert [one.content for one in session.load()] == ["blocking, on a running loop", "async"]
        assert [hit.path for hit in await ctx.awaitable.files.search("words")] == []

    asyncio.run(both())


def test_four_threads_and_four_loops_lose_nothing(ctx: Context) -> None:
    ctx.sessions.open("s")

    def block(name: str) -> None:
        session = ctx.sessions.open("s")
        for number in range(5):
            session.append({"role": "user", "content": f"{name} {number}"})

    async def wait(name: str) -> None:
        session = await ctx.awaitable.sessions.open("s")
        await asyncio.gather(*[session.append({"role": "user", "content": f"{name} {n}"}) for n in range(5)])

    on_threads(
        *[lambda name=f"thread {n}": block(name) for n in range(4)],
        *[lambda name=f"loop {n}": asyncio.run(wait(name)) for n in range(4)],
    )
    said = {str(one.content) for one in ctx.sessions.open("s").load()}
    assert said == {f"{kind} {n} {number}" for kind in ("thread", "loop") for n in range(4) for number in range(5)}


def test_two_loops_wait_for_one_thread_of_messages(ctx: Context) -> None:
    ctx.threads.append("t", 0, from_id="a")

    async def follow() -> list[Any]:
        seen = []
        async for slot in ctx.awaitable.threads.follow("t", idle_seconds=10):
            seen.append(slot.data)
            if len(seen) == 3:
                break
        return seen

    def write() -> None:
        for number in (1, 2):
            ctx.threads.append("t", number, from_id="a")

    first, second, _ = on_threads(lambda: asyncio.run(follow()), lambda: asyncio.run(follow()), write)
    assert first == second == [0, 1, 2]


def test_a_write_that_has_begun_ends_although_its_caller_is_cancelled(ctx: Context) -> None:
    async def cancelled() -> None:
        session = await ctx.awaitable.sessions.open("s")
        writing = asyncio.ensure_future(session.append({"role": "user", "content": "kept"}))
        for _ in range(3):  # as far as the commit, not to its end
            await asyncio.sleep(0)
        writing.cancel()
        try:
            await writing
        except asyncio.CancelledError:
            pass

    asyncio.run(cancelled())
    before = [one.content for one in ctx.sessions.open("s").load()]
    ctx.sessions.open("s").append({"role": "user", "content": "next"})
    # Whether it had begun or not, nothing comes after the cancellation was told.
    assert [one.content for one in ctx.sessions.open("s").load()] == [*before, "next"]
