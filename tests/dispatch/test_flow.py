"""What went through threads: counted by the minute, and how soon answers came."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.context import AsyncContext
from strongroom.dispatch import Dispatcher, send
from strongroom.dispatch.flow import MINUTE, MINUTES, flow, handlers, joined, p95
from strongroom.scope import Scope
from strongroom.store import Record, Store

NOW = 10_000 * MINUTE
TIMES = st.lists(st.integers(0, 1_000)).map(sorted)


def message(index: int, at: int, sender: str, receiver: str | None) -> Record:
    return Record(index, "dict", None, 0, at, sender, receiver, None, None, None)


@given(asked=TIMES, said=TIMES)
def test_a_message_has_one_answer_which_is_not_before_it(asked: list[int], said: list[int]) -> None:
    pairs = joined(asked, said)
    assert all(at <= answer for at, answer in pairs)
    assert [at for at, _ in pairs] == asked[: len(pairs)]
    left = list(said)
    for _, answer in pairs:
        left.remove(answer)  # which fails if it was taken twice


def test_the_time_of_95_percent_is_the_one_that_95_percent_did_not_exceed() -> None:
    assert p95([]) is None
    assert p95([2_000_000]) == 2.0
    assert p95(list(range(1_000_000, 101_000_000, 1_000_000))) == 95.0


def test_answers_are_found_where_they_go() -> None:
    """To the caller's thread, to the same one, or to whom the handler calls next."""
    records = {
        "top": [message(0, NOW, "a", "router"), message(1, NOW + 9, "payer", "router")],
        "below": [message(0, NOW + 3, "router", "payer")],
        "alone": [message(0, NOW, "a", "echo"), message(1, NOW + 5, "echo", "a")],
    }
    found = {each.handler: each for each in handlers(records, {"below": "top"}, NOW + 10)}
    assert {name: each.p95_seconds for name, each in found.items()} == {
        "router": 3e-06, "payer": 6e-06, "echo": 5e-06, "a": None,
    }  # fmt: skip


def test_what_is_older_than_an_hour_is_not_counted() -> None:
    old, new = NOW - MINUTES * MINUTE, NOW - 2 * MINUTE
    records = {"t": [message(0, old, "a", "payer"), message(1, new, "a", "payer"), message(2, old, "a", "gone")]}
    [found] = handlers(records, {}, NOW)
    assert (found.handler, sum(found.minutes), found.minutes[-3]) == ("payer", 1, 1)


def test_a_worker_s_messages_are_counted_and_joined_to_their_chain(store: Store) -> None:
    scope = Scope(Inline(store))
    dispatcher = Dispatcher(Context(AsyncContext(scope)))

    @dispatcher.handler("router")
    def route(payload: Any, call: Any) -> Any:
        return send("payer", "pay") if payload == "order" else None

    @dispatcher.handler("payer")
    def pay(payload: Any, call: Any) -> str:
        return "paid"

    dispatcher.send("orders", "order", from_id="shop", to_id="router")
    dispatcher.drain()
    told = run(flow(scope))
    assert sum(told.minutes) == 3 and told.complete
    assert {each.handler: each.answered for each in told.handlers} == {"router": 1, "payer": 1}
    below, top = told.threads
    assert (top.thread_id, top.length, top.parent) == ("orders", 2, None)
    assert (below.names, below.parent, below.length) == (("shop", "router", "payer"), "orders", 1)


def test_only_the_newest_are_looked_at_and_it_is_said(store: Store) -> None:
    scope = Scope(Inline(store))
    threads = Context(AsyncContext(scope)).threads
    for number in range(3):
        threads.append(f"t{number}", 1, from_id="a", to_id="b")
    told = run(flow(scope, 2))
    assert [each.thread_id for each in told.threads] == ["t2", "t1"] and not told.complete
