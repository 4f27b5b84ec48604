"""What is remembered of messages that failed: of each receiver its own, whoever else is served in the thread."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.bridge import Inline
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.dispatch.delivery import Round
from strongroom.dispatch.queues import waiting
from strongroom.dispatch.routes import Outgoing, Route
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import (
    DEAD,
    DELIVERY,
    Delivery,
    Retry,
    attempts,
    blocked_until,
    failed,
    handled,
    interrupted,
    read_delivery,
)
from strongroom.services.threads.values import Slot
from strongroom.store import Document, Key, Record, Scan

KEY = Key("s", DELIVERY, "t")


def message(index: int, to: str) -> Record:
    return Record(index, "str", encode("x"), 0, 0, "user", to, None, None, None)


def fail(state: Delivery, record: Record, not_before: int = 0) -> Delivery:
    return failed(state, record, error="no luck", not_before=not_before)


def test_attempts_are_counted_on_while_messages_of_others_are_handled() -> None:
    state = handled(fail(Delivery(), message(0, "a")), message(1, "b"), until=0)
    assert attempts(state, message(0, "a")) == 2


def test_attempts_are_counted_on_while_messages_of_others_fail() -> None:
    state = fail(fail(Delivery(), message(0, "a")), message(1, "b"))
    assert [attempts(state, message(0, "a")), attempts(state, message(1, "b"))] == [2, 2]


def test_the_attempts_of_a_message_that_was_handled_are_not_those_of_the_next() -> None:
    state = handled(fail(Delivery(), message(0, "a")), message(0, "a"), until=0)
    assert attempts(state, message(1, "a")) == 1


def test_a_message_that_failed_holds_up_its_thread_until_its_time_has_come() -> None:
    state = fail(fail(Delivery(), message(0, "a"), not_before=9), message(1, "b"), not_before=5)
    assert [blocked_until(state, owner="w", now=now) for now in (1, 5, 8, 9)] == [9, 9, 9, 0]


def test_what_is_erased_is_forgotten_and_why_others_failed_is_not() -> None:
    state = interrupted(fail(fail(Delivery(), message(0, "a")), message(1, "b")), {0})
    assert [attempts(state, message(0, "a")), attempts(state, message(1, "b"))] == [1, 2]


@pytest.mark.parametrize("failing", [None, {"index": 1, "attempts": 2, "not_before": 0, "error": "no luck"}])
def test_what_was_stored_when_a_thread_had_one_failure_can_be_read(failing: Any) -> None:
    stored = encode({"owner": None, "until": 0, "next": {"a": 1}, "failing": failing})
    assert read_delivery(Document(KEY, 1, stored)) == Delivery(next={"a": 1})


@pytest.mark.parametrize(("first", "delay"), [(0.1, 30.0), (0.0, 0.0)])
def test_a_retry_waits_for_its_longest_time_however_often_it_was(first: float, delay: float) -> None:
    retry = Retry(attempts=10**6, first_seconds=first)
    assert [retry.delay_seconds(failed) for failed in (1024, 1025, 10**6)] == [delay] * 3


class Desk:
    """Workers on one thread that run one function each. Each time that is looked at is later than all before."""

    def __init__(self, store: Any) -> None:
        self.now = 0
        self.ctx = AsyncContext(Scope(Inline(store), clock=self._later))
        self.tried: list[int] = []

    def _later(self) -> int:
        self.now += 3_600_000_000
        return self.now

    async def run(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        if slot.to_id == "a":
            self.tried.append(attempt)
            raise ValueError("no luck")
        return []

    async def turn(self, name: str) -> None:
        route = Route(name, lambda payload, call: None, retry=Retry(attempts=3))
        more: dict[str, Any] = {"lease_seconds": 30.0, "run": self.run, "stopping": lambda: False}
        await Round(self.ctx.threads, {name: route}, "t", owner=name, **more)()


@pytest.fixture
def desk(address: str) -> Any:
    store = open_store(address)
    yield Desk(store)
    store.close()


async def test_a_message_that_keeps_failing_is_given_up_although_another_worker_serves_its_thread(desk: Desk) -> None:
    await desk.ctx.threads.append("t", "poison", from_id="user", to_id="a")
    for n in range(5):
        await desk.turn("a")
        await desk.ctx.threads.append("t", n, from_id="user", to_id="b")
        await desk.turn("b")
    assert desk.tried == [1, 2, 3]
    assert len((await desk.ctx.scope.get(Scan(desk.ctx.space, DEAD))).documents) == 1


async def test_the_attempts_that_are_shown_are_those_of_the_handler(desk: Desk) -> None:
    for name in "ab":
        await desk.ctx.threads.append("t", "x", from_id="user", to_id=name)
    await desk.turn("a")
    told = await waiting(desk.ctx.scope)
    assert {each.handler: each.attempts for each in told.waiting} == {"a": 1, "b": 0}
