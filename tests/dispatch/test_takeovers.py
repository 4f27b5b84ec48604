"""Workers that vanish: a message that takes them along is given up, and no other is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.dispatch import DeadLetter, DeliveryFailed, Dispatcher, Retry
from strongroom.dispatch.delivery import TOGETHER, Round
from strongroom.dispatch.mail import Mail
from strongroom.dispatch.routes import Outgoing, Respond, Route
from strongroom.errors import CommitUnknown, Unavailable
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import DELIVERY
from strongroom.services.threads.values import Slot
from strongroom.store import Commit, Get, Receipt
from tests.dispatch.test_leases import LEASE, Clock, Crash

ROOT = Path(__file__).parents[2]
MOST = 3


class Watched(Inline):
    """A store that counts its commits, and lets a test do something else instead."""

    commits = 0
    instead: Callable[[Commit], Awaitable[Receipt]] | None = None

    async def commit(self, commit: Commit) -> Receipt:
        self.commits += 1
        return await (self.instead or super().commit)(commit)

    async def really(self, commit: Commit) -> Receipt:
        return await super().commit(commit)


class Workers:
    """Workers that come one after the other to a thread, each with a name of its own."""

    def __init__(self, store: Watched) -> None:
        self.store, self.clock = store, Clock()
        self.ctx = AsyncContext(Scope(store, clock=self.clock))
        self.ran: list[Any] = []
        self.last = ""
        self._come = 0

    async def send(self, *payloads: Any, to: str = "echo", thread: str = "t") -> None:
        for payload in payloads:
            await self.ctx.threads.append(thread, payload, from_id="user", to_id=to)

    def round(
        self, run: Any = None, *, name: str = "echo", thread: str = "t", takeovers: int = MOST, **options: Any
    ) -> Round:
        self._come += 1
        self.last = f"worker {self._come}"
        retry = Retry(first_seconds=0, takeovers=takeovers)
        settings = {"owner": self.last, "lease_seconds": LEASE, "stopping": lambda: False, **options}
        routes = {name: Route(name, lambda payload, call: None, retry=retry)}
        return Round(self.ctx.threads, routes, thread, run=run or self.answers, **settings)

    async def answers(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        self.ran.append(slot.payload)
        return [Respond(f"{slot.payload} done")]

    async def dies(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        raise Crash

    async def poisoned(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        """The function: it kills its process on one message."""
        if slot.payload == "poison":
            raise Crash
        return await self.answers(route, slot, attempt)

    async def vanish(self, times: int = 1, *, at: Any = None, name: str = "echo") -> None:
        """Let workers be killed at a message, one after the other, and their leases run out."""

        async def run(route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
            if at in (None, slot.payload):
                raise Crash
            return await self.answers(route, slot, attempt)

        for _ in range(times):
            with pytest.raises(Crash):
                await self.round(run, name=name)()
            self.clock.pass_lease()

    async def letters(self) -> list[DeadLetter]:
        return list(await Mail(self.ctx.threads).dead(handler=None, after=None, limit=10))

    async def taken(self) -> None:
        """Wait until the last worker has the thread."""
        while (await self.stored())["owner"] != self.last:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def stored(self) -> dict[str, Any]:
        document = await self.ctx.scope.get(Get(self.ctx.scope.key(DELIVERY, "t")))
        assert document is not None
        state: dict[str, Any] = document.value.load()
        return state


@pytest.fixture
def workers(address: str) -> Iterator[Workers]:
    store = open_store(address)
    yield Workers(Watched(store))
    store.close()


async def test_a_message_that_kills_every_worker_is_given_up_and_the_next_are_handled_in_order(
    workers: Workers,
) -> None:
    await workers.send("before", "poison", "first", "second")
    await workers.vanish(1 + MOST, at="poison")
    await workers.round(workers.poisoned)()
    assert workers.ran == ["before", "first", "second"]
    [letter] = await workers.letters()
    assert (letter.index, letter.error) == (1, "3 workers in a row began it and vanished before it ended")


async def test_a_dead_letter_counts_the_workers_that_vanished_and_the_attempts_that_raised(workers: Workers) -> None:
    async def fails(*told: Any) -> list[Any]:
        raise ValueError("no luck")

    await workers.send("poison")
    assert await workers.round(fails)()
    await workers.vanish(1 + MOST)
    await workers.round()()
    assert [letter.attempts for letter in await workers.letters()] == [1 + MOST]


async def test_the_caller_of_a_message_that_kills_is_told(workers: Workers) -> None:
    await workers.send("poison")
    workers.ctx.threads.register(DeliveryFailed)
    await workers.vanish(1 + MOST)
    await workers.round()()
    [told] = [slot.payload for slot in await (await workers.ctx.threads.get("t")).sent_by("echo")]
    assert told == DeliveryFailed("echo", 0, "3 workers in a row began it and vanished before it ended", MOST)


async def test_a_message_is_handled_by_the_last_worker_it_may_take_along(workers: Workers) -> None:
    await workers.send("slow")
    await workers.vanish(MOST)
    await workers.round()()
    assert (workers.ran, await workers.letters()) == (["slow"], [])


async def test_messages_that_end_are_not_held_against_each_other(workers: Workers) -> None:
    messages = [f"message {n}" for n in range(4 * MOST)]
    await workers.send(*messages)
    for message in messages:
        await workers.vanish(at=message)
    await workers.round()()
    assert (workers.ran[-1], await workers.letters()) == (messages[-1], [])


async def test_a_worker_that_vanishes_before_it_begins_is_not_held_against_a_message(workers: Workers) -> None:
    await workers.send("innocent")

    async def crash_after(given: Commit) -> Receipt:
        await workers.store.really(given)
        raise Crash

    workers.store.instead = crash_after
    for _ in range(3 * MOST):
        with pytest.raises(Crash):
            await workers.round()()
        workers.clock.pass_lease()
    workers.store.instead = None
    await workers.round()()
    assert (workers.ran, await workers.letters()) == (["innocent"], [])


async def test_a_worker_that_is_told_to_stop_clears_what_it_was_at(workers: Workers) -> None:
    async def stopped(*told: Any) -> list[Any]:
        task.cancel()
        await asyncio.Event().wait()
        return []

    await workers.send("poison")
    await workers.vanish(MOST)
    task = asyncio.ensure_future(workers.round(stopped)())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "begun" not in await workers.stored()
    await workers.vanish(MOST)
    assert await workers.letters() == []


async def test_an_attempt_that_raises_clears_its_message(workers: Workers) -> None:
    async def fails(*told: Any) -> list[Any]:
        raise ValueError("no luck")

    await workers.send("poison")
    await workers.vanish(MOST)
    assert await workers.round(fails)()
    assert "begun" not in await workers.stored()
    await workers.vanish(MOST)
    await workers.round()()
    assert (workers.ran, await workers.letters()) == (["poison"], [])


async def test_a_worker_that_was_cut_off_and_comes_back_has_not_vanished(workers: Workers) -> None:
    await workers.send("paid")
    await workers.vanish()

    async def away(given: Commit) -> Receipt:
        raise Unavailable("not today", reason="permission")

    async def cut_off(*told: Any) -> list[Any]:
        workers.store.instead = away
        return []

    for _ in range(3 * MOST):
        with pytest.raises(Unavailable):
            await workers.round(cut_off, owner="the same")()
        workers.store.instead = None
        workers.clock.pass_lease()
    await workers.round(owner="the same")()
    assert (workers.ran, await workers.letters()) == (["paid"], [])


async def test_workers_of_another_program_on_the_same_thread_do_not_clear_a_message(workers: Workers) -> None:
    await workers.send("poison")
    await workers.vanish(2)
    for n in range(MOST - 1):
        await workers.send(f"other {n}", to="other")
        await workers.round(name="other")()
        await workers.vanish()
    await workers.round()()
    assert workers.ran == [f"other {n}" for n in range(MOST - 1)]
    assert [letter.index for letter in await workers.letters()] == [0]


@pytest.mark.parametrize("lost", [False, True])
async def test_a_note_of_which_nobody_knows_whether_it_was_made_counts_once(workers: Workers, lost: bool) -> None:
    await workers.send("poison")
    await workers.vanish()
    made = 0

    async def unsure(given: Commit) -> Receipt:
        nonlocal made
        made += 1
        if made != 2:  # the first one takes the thread
            return await workers.store.really(given)
        if not lost:
            await workers.store.really(given)
        raise CommitUnknown("cut off", reason="connection", commit_id=given.id)

    workers.store.instead = unsure
    await workers.vanish()
    assert (await workers.stored())["begun"] == {"echo": {"index": 0, "times": 1}}


# ---- side by side ---------------------------------------------------------------------------------------------------


async def killed_together(workers: Workers, *threads: str, times: int = MOST) -> None:
    """Let workers in a row be killed while they are at a message of each thread."""
    for thread in threads:
        await workers.send("message", thread=thread)
    for _ in range(times):
        for thread in threads:
            with pytest.raises(Crash):
                await workers.round(workers.dies, thread=thread, takeovers=20)()
        workers.clock.pass_lease()


@pytest.mark.parametrize(("times", "takeovers"), [(1 + TOGETHER, 20), (MOST, MOST), (2, 2), (1, 1)])
async def test_nothing_is_given_up_that_did_not_run_alone(workers: Workers, times: int, takeovers: int) -> None:
    threads, suspects = ("t", "u", "v"), asyncio.Lock()
    await killed_together(workers, *threads, times=times)
    running = most = ran = 0

    async def run(*told: Any) -> list[Any]:
        nonlocal running, most, ran
        running, ran = running + 1, ran + 1
        most = max(most, running)
        for _ in range(10):
            await asyncio.sleep(0)
        running -= 1
        return []

    rounds = [workers.round(run, thread=thread, suspects=suspects, takeovers=takeovers) for thread in threads]
    await asyncio.gather(*[round() for round in rounds])
    assert (most, ran) == (1, len(threads))


@pytest.mark.parametrize(("times", "takeovers"), [(1, 20), (TOGETHER, 20), (MOST - 1, MOST), (1, 2)])
async def test_what_was_killed_a_few_times_runs_side_by_side(workers: Workers, times: int, takeovers: int) -> None:
    both = asyncio.Barrier(2)

    async def run(*told: Any) -> list[Any]:
        await both.wait()
        return []

    threads, suspects = ("t", "u"), asyncio.Lock()
    await killed_together(workers, *threads, times=times)
    rounds = [workers.round(run, thread=thread, suspects=suspects, takeovers=takeovers) for thread in threads]
    await asyncio.gather(*[round() for round in rounds])


async def test_what_waits_for_its_turn_has_not_begun(workers: Workers) -> None:
    await killed_together(workers, "t")
    suspects = asyncio.Lock()
    await suspects.acquire()  # somebody else's turn
    waiting = asyncio.ensure_future(workers.round(suspects=suspects)())
    await workers.taken()
    assert (await workers.stored())["begun"] == {"echo": {"index": 0, "times": MOST - 1}}
    suspects.release()
    await waiting
    assert workers.ran == ["message"]


async def test_what_waits_for_others_of_its_function_has_not_begun(workers: Workers) -> None:
    await workers.send("message")
    await workers.vanish(2)
    few = asyncio.Semaphore(1)
    await few.acquire()  # as many run as may
    waiting = asyncio.ensure_future(workers.round(turn=lambda route: few)())
    await workers.taken()
    for _ in range(100):
        await asyncio.sleep(0)
    assert (await workers.stored())["begun"] == {"echo": {"index": 0, "times": 1}}
    few.release()
    await waiting
    assert workers.ran == ["message"]


async def test_what_waits_for_its_turn_keeps_its_lease(workers: Workers) -> None:
    await killed_together(workers, "t")
    suspects = asyncio.Lock()
    await suspects.acquire()
    waiting = asyncio.ensure_future(workers.round(suspects=suspects, lease_seconds=0.03)())
    renewals: set[int] = set()
    while len(renewals) < 4:
        renewals.add((await workers.stored())["until"])
        await asyncio.sleep(0.001)
    suspects.release()
    await waiting
    assert workers.ran == ["message"]


async def test_what_waits_for_its_turn_is_given_back_when_its_worker_is_cancelled(workers: Workers) -> None:
    await killed_together(workers, "t")
    suspects = asyncio.Lock()
    await suspects.acquire()
    waiting = asyncio.ensure_future(workers.round(suspects=suspects)())
    await workers.taken()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    suspects.release()
    assert ((await workers.stored())["owner"], workers.ran) == (None, [])
    assert await suspects.acquire(), "nobody keeps a turn that was not taken"


async def test_what_waits_for_its_turn_is_given_back_when_its_worker_is_told_to_stop(workers: Workers) -> None:
    await killed_together(workers, "t")
    suspects = asyncio.Lock()
    await suspects.acquire()
    stops: list[bool] = []
    waiting = asyncio.ensure_future(workers.round(suspects=suspects, stopping=lambda: bool(stops))())
    await workers.taken()
    stops.append(True)
    suspects.release()
    assert await waiting == 0
    assert ((await workers.stored())["owner"], workers.ran) == (None, [])


# ---- what it costs --------------------------------------------------------------------------------------------------


async def test_where_nobody_vanished_there_is_a_commit_for_each_message_and_two_for_the_thread(
    workers: Workers,
) -> None:
    await workers.send("a", "b", "c")
    workers.store.commits = 0
    await workers.round()()
    assert workers.store.commits == 2 + 3


async def test_where_nobody_vanished_nothing_more_is_stored(workers: Workers) -> None:
    seen: list[set[str]] = []

    async def looks(*told: Any) -> list[Any]:
        seen.append(set(await workers.stored()))
        return []

    await workers.send("a")
    await workers.round(looks)()
    assert [*seen, set(await workers.stored())] == [{"owner", "until", "next", "put_off"}] * 2


async def test_after_a_worker_has_vanished_one_message_takes_a_commit_more(workers: Workers) -> None:
    await workers.send("a", "b", "c")
    await workers.vanish()
    workers.store.commits = 0
    await workers.round()()
    assert workers.store.commits == 2 + 3 + 1
    assert "begun" not in await workers.stored()


# ---- processes ------------------------------------------------------------------------------------------------------


def worked(address: str) -> int:
    """Let a worker process handle what there is. Return how it ended."""
    code = f"from strongroom.dispatch import work; work('tests.dispatch.program:deadly', url={address!r}, drain=True)"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120).returncode


def ended(address: str) -> list[int]:
    """Start workers until one lives to the end. Return how the others ended."""
    codes: list[int] = []
    while code := worked(address):
        codes.append(code)
        assert len(codes) < 20
    return codes


def test_a_message_that_takes_its_process_down_is_given_up_and_the_next_are_handled_in_order(tmp_path: Path) -> None:
    address = str(tmp_path / "agent.db")
    with strongroom.open(address) as ctx:
        for payload in ("before", "poison", "first", "second"):
            Dispatcher(ctx).send("t", payload, from_id="user", to_id="deadly")
    assert ended(address) == [9] * 3  # one of which nobody knew what it was at, and two
    with strongroom.open(address) as ctx:
        told = [slot.data for slot in ctx.threads.get("t").sent_by("deadly") if slot.type != "DeliveryFailed"]
        assert told == ["before", "first", "second"]
        [letter] = Dispatcher(ctx).dead_letters()
        assert (letter.index, letter.attempts) == (1, 2)


def test_slow_messages_that_are_killed_along_with_it_are_not_given_up(tmp_path: Path) -> None:
    address = str(tmp_path / "agent.db")
    with strongroom.open(address) as ctx:
        for n in range(3):
            Dispatcher(ctx).send(f"slow {n}", n, from_id="user", to_id="slow")
        Dispatcher(ctx).send("t", "poison", from_id="user", to_id="deadly")
    ended(address)
    with strongroom.open(address) as ctx:
        assert [letter.handler for letter in Dispatcher(ctx).dead_letters()] == ["deadly"]
        for n in range(3):
            assert [slot.data for slot in ctx.threads.get(f"slow {n}").sent_by("slow")] == [n]
