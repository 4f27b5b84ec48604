"""One request is one commit, whatever the clock of the client's machine shows, and however long that was suspended."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import msgspec
import pytest

import strongroom
from strongroom.client.retry import Request, Retry
from strongroom.client.store import HttpStore
from strongroom.client.times import FRESH_SECONDS, KNOWN_SECONDS, ServerTime
from strongroom.errors import CommitUnknown, Unavailable
from strongroom.operations import made_ns
from strongroom.protocol import wire
from strongroom.server import ids
from strongroom.store import Durability, new_id
from tests.server.line import Line
from tests.server.serving import Served, served

SECOND = 10**9
TOLD = 1_000_000 * SECOND  # in 1970, unlike the clock of this machine


@pytest.fixture
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def line(server: Served) -> Iterator[Line]:
    made = Line(server.url)
    yield made
    made.close()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Apart:
    """A server's clock that is apart from ours, and goes on by half a minute whenever it is looked at."""

    def __init__(self, seconds: float) -> None:
        self._now = time.time_ns() + round(seconds * SECOND)

    def __call__(self) -> int:
        self._now += 30 * SECOND
        return self._now


# The first try is on one side of an edge and the second on the other, by a clock that the client takes to be right.
EDGES = [pytest.param(-75 - 60, id="a minute ahead"), pytest.param(3585 - 60, id="an hour behind")]


@pytest.mark.parametrize("seconds", EDGES)
def test_a_client_whose_clock_is_wrong_makes_a_request_once(
    line: Line, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(ids, "now_ns", Apart(seconds))
    with strongroom.connect(line.url) as ctx:
        line.swallow = 1
        ctx.threads.append("t", "pay 10", from_id="a")
        assert (line.swallow, len(ctx.threads.get("t"))) == (0, 1)


@pytest.mark.parametrize("seconds", EDGES)
async def test_an_async_client_whose_clock_is_wrong_makes_a_request_once(
    line: Line, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(ids, "now_ns", Apart(seconds))
    async with strongroom.aconnect(line.url) as ctx:
        line.swallow = 1
        await ctx.threads.append("t", "pay 10", from_id="a")
        assert (line.swallow, await (await ctx.threads.get("t")).length()) == (0, 1)


@pytest.mark.parametrize("seconds", EDGES)
def test_a_turn_of_a_client_whose_clock_is_wrong_is_made_once(
    line: Line, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(ids, "now_ns", Apart(seconds))
    with strongroom.connect(line.url) as ctx:
        line.swallow = 1
        with ctx.turn() as turn:
            turn.send("t", "pay 10", from_id="a", to_id="b")
        assert (line.swallow, len(ctx.threads.get("t"))) == (0, 1)


def test_a_server_tells_its_time(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "now_ns", lambda: TOLD)
    store = HttpStore(server.url)
    assert 0 <= made_ns(f"~{store.new_id()}") - TOLD < 600 * SECOND
    store.close()


def test_a_server_of_before_is_understood() -> None:
    told = msgspec.to_builtins(wire.About("default", Durability("durable", True, True, "nothing"), True, "admin"))
    del told["now_ns"]
    assert wire.load(wire.dump(told), wire.About).now_ns == 0


# ---- the clock ------------------------------------------------------------------------------------------------------


def test_the_time_in_an_id_is_what_the_server_said_and_what_has_passed_since() -> None:
    clock = Clock()
    there = ServerTime(TOLD, clock)
    clock.now = 5.5
    assert made_ns(f"~{there.new_id()}") == TOLD + 5_500_000_000


def test_setting_the_clock_of_the_machine_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ServerTime(TOLD, Clock())
    monkeypatch.setattr(time, "time_ns", lambda: 7)
    assert there.now_ns() == TOLD


def test_the_time_of_a_server_that_does_not_say_it_is_taken_to_be_ours() -> None:
    before = time.time_ns()
    assert before <= ServerTime(0, Clock()).now_ns() <= time.time_ns()


def test_what_the_server_said_last_counts() -> None:
    clock = Clock()
    there = ServerTime(TOLD, clock)
    clock.now = 5.0
    there.told(TOLD - SECOND)
    assert there.now_ns() == TOLD - SECOND


def test_a_server_whose_clock_was_set_back_is_asked_again(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = Clock(), HttpStore(server.url)
    store._time = ServerTime(time.time_ns(), clock)
    monkeypatch.setattr(ids, "now_ns", lambda: TOLD)
    clock.now = FRESH_SECONDS + 1
    assert made_ns(f"~{store.new_id()}") == TOLD
    store.close()


def test_the_time_is_asked_for_only_now_and_then(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = Clock(), HttpStore(server.url)
    store._time = ServerTime(TOLD, clock)
    monkeypatch.setattr(store, "send", None)
    clock.now = FRESH_SECONDS
    assert made_ns(f"~{store.new_id()}") == TOLD + FRESH_SECONDS * SECOND
    store.close()


# ---- how long a repeat is known as one ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "known"),
    [(0, KNOWN_SECONDS), (60, KNOWN_SECONDS - 60), (3599, 0), (3601, math.inf)],
)
def test_a_repeat_under_an_id_of_ours_is_known_for_less_than_an_hour(age: int, known: float) -> None:
    assert ServerTime(TOLD, Clock()).known_seconds(f"~{new_id(TOLD - age * SECOND)}") == known


def test_a_repeat_under_an_id_that_was_chosen_is_known_for_longer() -> None:
    assert ServerTime(TOLD, Clock()).known_seconds("turn-7") == math.inf


def test_what_may_have_happened_is_not_sent_again_when_its_id_is_forgotten() -> None:
    clock = Clock()
    life = Retry(Request("/store/perform", commit_id="c", known_seconds=KNOWN_SECONDS), 15.0, clock)
    life.lost(OSError(), sent=True)
    clock.now = 8 * 3600.0  # the lid was closed
    with pytest.raises(CommitUnknown):
        life.rested()


def test_what_was_never_sent_may_be_sent_however_late() -> None:
    clock = Clock()
    life = Retry(Request("/store/perform", commit_id="c", known_seconds=KNOWN_SECONDS), 15.0, clock)
    life.lost(OSError(), sent=False)
    clock.now = 8 * 3600.0
    life.rested()


def test_patience_ends_in_a_suspended_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [0.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _: shown[-1])
    monkeypatch.setattr("strongroom.elapsed._CLOCK", 7)
    life = Retry(Request("/store/read"), 15.0)
    shown.append(3600.0)
    with pytest.raises(Unavailable):
        life.lost(OSError(), sent=True)
