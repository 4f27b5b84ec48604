"""A store that is away while a worker looks for messages ends nothing that runs; who waits for an end hears of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher, dispatcher
from strongroom.errors import Unavailable
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import MAIL
from strongroom.store import Answer, AnyQuestion, Scan

AWAY = Unavailable("the store is away; nothing changed", reason="unreachable")


class Leaving(OnLoop):
    """A store that fails a worker that looks for messages, when told to."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.fail: Callable[[], Exception | None] = lambda: None

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        looking = any(isinstance(question, Scan) and question.kind == MAIL for question in questions)
        problem = self.fail() if looking else None
        if problem is not None:
            raise problem
        return await super().read(questions)

    def away(self, times: int, then: Callable[[], object] = lambda: None) -> None:
        """Fail that many looks; then do something, and be there again."""
        left = times

        def fail() -> Exception | None:
            nonlocal left
            left -= 1
            if left == 0:
                then()
            return AWAY if left >= 0 else None

        self.fail = fail


class Desk:
    """A dispatcher on such a store with a function that ends when it is told, and what it says it did."""

    def __init__(self) -> None:
        self.store = Leaving()
        self.ctx = AsyncContext(Scope(self.store))
        self.dispatcher = AsyncDispatcher(self.ctx, poll_seconds=0.0001)
        self.log: list[str] = []
        self.done = asyncio.Event()
        self.when_begun: Callable[[], object] = lambda: None
        self.dispatcher.handler("slow")(self.slow)

    async def slow(self, payload: Any, call: Any) -> None:
        self.log.append("began")
        self.when_begun()
        try:
            await self.done.wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("ended")

    async def send(self) -> None:
        await self.ctx.threads.append("t", "x", from_id="user", to_id="slow")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(dispatcher, "RECHECK_SECONDS", 0.0001)
    return Desk()


async def test_a_function_goes_on_while_its_worker_cannot_look_for_messages(desk: Desk) -> None:
    desk.when_begun = lambda: desk.store.away(3, then=desk.done.set)
    await desk.send()
    await desk.dispatcher.drain()
    assert desk.log == ["began", "ended"]


async def test_a_worker_that_could_not_look_for_messages_handles_them_when_the_store_is_back(desk: Desk) -> None:
    desk.done.set()
    desk.when_begun = desk.dispatcher.stop
    await desk.send()
    desk.store.away(3)
    await desk.dispatcher.run()
    assert desk.log == ["began", "ended"]


async def test_a_drain_of_which_nothing_runs_ends_with_what_keeps_it_from_looking(desk: Desk) -> None:
    desk.store.fail = lambda: AWAY
    with pytest.raises(Unavailable, match="the store is away"):
        await asyncio.wait_for(desk.dispatcher.drain(), 10)


async def test_a_drain_that_cannot_ask_whether_all_is_done_ends_with_the_reason(desk: Desk) -> None:
    looks = iter([None, AWAY])  # at the first of the two nothing waits
    desk.store.fail = lambda: next(looks, None)
    with pytest.raises(Unavailable, match="the store is away"):
        await desk.dispatcher.drain()


async def test_a_drain_that_meets_an_outage_ends_when_its_last_function_has_ended(desk: Desk) -> None:
    looks = 0

    def fail() -> Exception:
        nonlocal looks
        looks += 1
        if looks == 3:
            desk.done.set()
        return AWAY

    desk.when_begun = lambda: setattr(desk.store, "fail", fail)
    await desk.send()
    with pytest.raises(Unavailable, match="the store is away"):
        await asyncio.wait_for(desk.dispatcher.drain(), 10)
    assert desk.log == ["began", "ended"]


async def test_an_outage_is_told_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.store.away(2)
    desk.done.set()
    desk.when_begun = lambda: desk.store.away(2, then=desk.dispatcher.stop)  # the second outage
    await desk.send()
    with caplog.at_level(logging.WARNING, "strongroom.dispatch"):
        await desk.dispatcher.run()
    assert len([record for record in caplog.records if "the store is away" in record.getMessage()]) == 2


async def test_a_worker_is_stopped_in_an_outage_as_at_any_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "RECHECK_SECONDS", 3600.0)

    def fail() -> Exception:
        desk.dispatcher.stop()
        return AWAY

    desk.store.fail = fail
    await desk.dispatcher.run()


@pytest.mark.parametrize("reason", ["permission", "unauthorised"])
async def test_a_store_that_turns_a_worker_away_ends_it(desk: Desk, reason: str) -> None:
    desk.store.fail = lambda: Unavailable("not for you; nothing changed", reason=reason)
    with pytest.raises(Unavailable, match="not for you"):
        await desk.dispatcher.drain()
