"""Waking the loop that serves: it may end meanwhile, and a message that is stored is not refused for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom.dispatch import AsyncDispatcher


class Ending(AsyncDispatcher):
    """A dispatcher that stops to serve as soon as somebody has seen that it does."""

    seen = False

    @property
    def _wake(self) -> Callable[[], object] | None:
        if self.seen:
            return None
        self.seen = True
        return lambda: None

    @_wake.setter
    def _wake(self, wake: Any) -> None: ...


class Ended(AsyncDispatcher):
    """A dispatcher whose loop is closed already."""

    @property
    def _wake(self) -> Callable[[], object] | None:
        loop = asyncio.new_event_loop()
        loop.close()
        return lambda: loop.call_soon_threadsafe(print)

    @_wake.setter
    def _wake(self, wake: Any) -> None: ...


@pytest.mark.parametrize("kind", [Ending, Ended])
async def test_a_message_is_sent_although_the_loop_that_serves_ends(kind: type[AsyncDispatcher]) -> None:
    async with strongroom.aopen("memory://") as ctx:
        assert (await kind(ctx).send("t", "x", from_id="user", to_id="echo")).index == 0


@pytest.mark.parametrize("kind", [Ending, Ended])
def test_a_dispatcher_is_stopped_although_the_loop_that_serves_ends(kind: type[AsyncDispatcher]) -> None:
    kind().stop()
