"""A thread that cannot be handled for a reason of its own, like a document that is none, is told and ends nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import strongroom
from strongroom.bridge import run
from strongroom.codec import encode
from strongroom.dispatch import Dispatcher, dispatcher
from strongroom.dispatch.delivery import Round
from strongroom.dispatch.queues import waiting
from strongroom.errors import Damaged
from strongroom.services.threads.deliveries import DEAD, DELIVERY, read_dead_letter, read_delivery
from strongroom.services.threads.plans import THREAD
from strongroom.store import Append, Commit, Document, Entry, Key, Put, new_id

ODD = encode({"next": []})


@pytest.mark.parametrize(("kind", "read"), [(DELIVERY, read_delivery), (DEAD, read_dead_letter)])
def test_a_document_that_is_none_is_damage(kind: str, read: Any) -> None:
    with pytest.raises(Damaged, match="is not one") as told:
        read(Document(Key("s", kind, "t"), 1, ODD))
    assert (told.value.reason, told.value.id) == ("corrupt", "t")


class Stopping(logging.Handler):
    """Stops a dispatcher as soon as it tells of something, and keeps what it told."""

    def __init__(self, desk: Dispatcher) -> None:
        super().__init__()
        self.desk = desk
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())
        self.desk.stop()


@pytest.fixture
def ctx() -> Iterator[Any]:
    with strongroom.open("memory://") as ctx:
        for name in ("bad", "good"):
            ctx.threads.append(name, "x", from_id="user", to_id="echo")
        yield ctx


def spoil(ctx: Any) -> None:
    ctx.store.commit(Commit(new_id(), (), (Put(Key(ctx.space, DELIVERY, "bad"), ODD),)))


def served(ctx: Any) -> tuple[list[str], list[str]]:
    """Run a worker until it tells of something. Return what it handled, and what it told."""
    handled: list[str] = []
    desk = Dispatcher(ctx, poll_seconds=0.001)
    desk.handler("echo")(lambda payload, call: handled.append(call.thread_id))
    stopping = Stopping(desk)
    dispatcher.logger.addHandler(stopping)
    try:
        desk.run()
    finally:
        dispatcher.logger.removeHandler(stopping)
    return handled, stopping.told


def test_a_worker_goes_on_where_the_delivery_of_one_thread_cannot_be_read(ctx: Any) -> None:
    spoil(ctx)
    handled, [told] = served(ctx)
    assert (handled, told.split(":")[0]) == (["good"], "thread 'bad' could not be handled")


def test_a_worker_goes_on_whatever_is_raised_at_one_thread(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Torn(Round):
        async def _take(self) -> int:
            if self._thread_id == "bad":
                raise KeyError("torn")
            return await super()._take()

    monkeypatch.setattr(dispatcher, "Round", Torn)
    handled, [told] = served(ctx)
    assert (handled, "KeyError: 'torn'" in told) == (["good"], True)


def test_a_worker_ends_with_what_is_no_mistake(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(BaseException): ...

    class Ending(Round):
        async def _take(self) -> int:
            raise Ended

    monkeypatch.setattr(dispatcher, "Round", Ending)
    with pytest.raises(Ended):
        served(ctx)


CHAINS: list[Any] = [[1, 2], "user", 5, {"user": 1}, None, ["a\nb", "echo"], ["", "echo"], ["a" * 3_000, "echo"]]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: str(chain)[:20])
def test_a_message_whose_call_chain_is_none_is_a_dead_letter_at_once(chain: Any) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.threads.append("t", "x", from_id="user", to_id="echo")
        entry = Entry("str", encode(["x", {"chain": chain}]), sender="user", receiver="echo")
        ctx.store.commit(Commit(new_id(), (), (Append(Key(ctx.space, THREAD, "t"), (entry,)),)))
        desk = Dispatcher(ctx)
        desk.handler("echo")(lambda payload, call: None)
        desk.drain()
        [letter] = desk.dead_letters()
    assert (letter.index, letter.attempts, letter.error) == (1, 1, "the call chain of a slot is not one")


def test_what_waits_is_shown_although_the_delivery_of_one_thread_cannot_be_read(ctx: Any) -> None:
    spoil(ctx)
    told = run(waiting(ctx._async.scope))
    assert sorted(each.thread_id for each in told.waiting) == ["bad", "good"]
