"""A lease is renewed while a function runs, and what goes wrong with that is never the function's failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from strongroom.bridge import Inline, run
from strongroom.context import AsyncContext
from strongroom.dispatch import delivery
from strongroom.dispatch.delivery import Round
from strongroom.dispatch.leases import LeasedThread
from strongroom.dispatch.routes import Respond, Route
from strongroom.errors import Closed, CommitUnknown, Damaged, Unavailable
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import DEAD, DELIVERY, Delivery, Retry, read_delivery
from strongroom.store import Commit, Get, Receipt, Scan, Store

LEASE = 0.03  # a renewal every hundredth of a second; nobody else's clock moves
AWAY = Unavailable("the database is busy; nothing changed", reason="locked")
Fail = Callable[[Commit], Exception | None]


class Failing(Inline):
    """A store whose commits fail when told to. `lost` says whether one that fails has landed all the same."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.fail: Fail = lambda commit: None
        self.lost = False

    async def commit(self, commit: Commit) -> Receipt:
        problem = self.fail(commit)
        if problem is not None and not self.lost:
            raise problem
        receipt = await super().commit(commit)
        if problem is not None:
            raise problem
        return receipt


class Worker:
    """One function on one thread. What it says it did is in `log`."""

    def __init__(self, store: Failing) -> None:
        self.store = store
        self.now = 1_000_000
        self.ctx = AsyncContext(Scope(store, clock=lambda: self.now))
        self.log: list[str] = []

    def round(self, function: Any) -> Round:
        return Round(
            self.ctx.threads,
            {"echo": Route("echo", lambda payload, call: None, retry=Retry(attempts=1))},
            "t",
            owner="first",
            lease_seconds=LEASE,
            run=function,
            stopping=lambda: False,
        )

    async def until(self, done: asyncio.Event, route: Route, slot: Any, attempt: int) -> list[Any]:
        """The function: it ends when something has happened, and says so if it is not let."""
        self.log.append(f"began {attempt}")
        try:
            await done.wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("paid")
        return [Respond("paid")]

    def fails(self, times: int, problem: Exception, then: asyncio.Event) -> None:
        """Let that many renewals fail; the next one, if there is one, sets an event."""
        left = times

        def fail(commit: Commit) -> Exception | None:
            nonlocal left
            if not self.log:
                return None
            left -= 1
            if left < 0:
                then.set()
                return None
            if isinstance(problem, CommitUnknown):
                return CommitUnknown(str(problem), reason=problem.reason, commit_id=commit.id)
            return problem

        self.store.fail = fail

    async def answers(self) -> list[Any]:
        return [slot.payload for slot in await (await self.ctx.threads.get("t")).sent_by("echo")]

    async def dead(self) -> int:
        return len((await self.ctx.scope.get(Scan(self.ctx.space, DEAD, limit=10))).documents)

    async def delivery(self) -> Delivery:
        return read_delivery(await self.ctx.scope.get(Get(self.ctx.scope.key(DELIVERY, "t"))))


@pytest.fixture
def worker(address: str) -> Any:
    store = open_store(address)
    yield Worker(Failing(store))
    store.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE", (0.001, 0.001))


async def begin(worker: Worker) -> asyncio.Event:
    await worker.ctx.threads.append("t", "x", from_id="user", to_id="echo")
    return asyncio.Event()


@pytest.mark.parametrize("problem", [AWAY, CommitUnknown("cut off", reason="connection")], ids=["away", "unknown"])
@pytest.mark.parametrize("lost", [False, True])
async def test_a_function_goes_on_while_its_lease_cannot_be_renewed(
    worker: Worker, problem: Exception, lost: bool
) -> None:
    done = await begin(worker)
    worker.store.lost = lost and isinstance(problem, CommitUnknown)
    worker.fails(20, problem, then=done)
    assert await worker.round(lambda *told: worker.until(done, *told))() == 0
    assert worker.log == ["began 1", "paid"]
    assert (await worker.answers(), await worker.dead()) == (["paid"], 0)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_function_that_ends_while_nobody_knows_whether_its_lease_was_renewed_has_its_effect(
    worker: Worker, lost: bool
) -> None:
    done = await begin(worker)
    worker.store.lost = lost

    def fail(commit: Commit) -> Exception | None:
        if worker.log != ["began 1"] or done.is_set():
            return None
        done.set()
        return CommitUnknown("cut off", reason="connection", commit_id=commit.id)

    worker.store.fail = fail
    assert await worker.round(lambda *told: worker.until(done, *told))() == 0
    assert worker.log == ["began 1", "paid"]
    assert await worker.answers() == ["paid"]


async def test_an_outage_that_outlasts_a_function_is_told_and_is_not_an_attempt(worker: Worker) -> None:
    done = await begin(worker)

    def fail(commit: Commit) -> Exception | None:
        if worker.log:
            done.set()
            return AWAY
        return None

    worker.store.fail = fail
    with pytest.raises(Unavailable, match="busy"):
        await worker.round(lambda *told: worker.until(done, *told))()
    assert worker.log == ["began 1", "paid"]
    worker.store.fail = lambda commit: None
    assert await worker.round(lambda *told: worker.until(done, *told))() == 0
    assert worker.log == ["began 1", "paid", "began 1", "paid"]
    assert (await worker.answers(), await worker.dead()) == (["paid"], 0)


async def test_a_function_whose_lease_is_lost_is_stopped_and_nothing_is_held_against_its_message(
    worker: Worker,
) -> None:
    never = await begin(worker)

    async def loses(*told: Any) -> list[Any]:
        worker.now += 60_000_000
        run(LeasedThread(worker.ctx.threads, "t", "second").take(LEASE))
        return await worker.until(never, *told)

    assert await worker.round(loses)() == 0
    await asyncio.sleep(0)  # the function hears of it
    assert worker.log == ["began 1", "cancelled"]
    assert (await worker.answers(), await worker.dead()) == ([], 0)
    left = await worker.delivery()
    assert (left.owner, left.put_off) == ("second", {})


@pytest.mark.parametrize("problem", [Closed("closed"), Damaged("not what was written", reason="corrupt")])
async def test_what_no_repeat_mends_ends_the_turn_as_itself(worker: Worker, problem: Exception) -> None:
    await begin(worker)
    worker.fails(10**9, problem, then=asyncio.Event())
    with pytest.raises(type(problem), match=str(problem)):
        await worker.round(lambda *told: worker.until(asyncio.Event(), *told))()
    assert await worker.dead() == 0
    assert (await worker.delivery()).put_off == {}


@pytest.mark.parametrize("problem", [AWAY, Closed("closed")])
async def test_what_a_function_hears_from_a_store_is_its_own_failure(worker: Worker, problem: Exception) -> None:
    await begin(worker)

    async def fails(*told: Any) -> list[Any]:
        raise problem

    assert await worker.round(fails)() == 0
    assert await worker.dead() == 1


@pytest.mark.parametrize("lost", [False, True])
async def test_a_turn_that_is_cancelled_while_nobody_knows_of_its_renewal_gives_the_thread_back(
    worker: Worker, lost: bool
) -> None:
    await begin(worker)
    worker.store.lost = lost
    turn = asyncio.ensure_future(worker.round(lambda *told: worker.until(asyncio.Event(), *told))())

    def fail(commit: Commit) -> Exception | None:
        if not worker.log or turn.cancelling():
            return None
        turn.cancel()
        return CommitUnknown("cut off", reason="connection", commit_id=commit.id)

    worker.store.fail = fail
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (await worker.delivery()).owner is None


async def test_a_turn_that_is_cancelled_while_it_takes_the_thread_does_not_keep_it(worker: Worker) -> None:
    await begin(worker)

    async def never(*told: Any) -> list[Any]:
        raise AssertionError("must not run")

    turn = asyncio.ensure_future(worker.round(never)())

    def fail(commit: Commit) -> Exception | None:
        if turn.cancelling():
            return None
        turn.cancel()
        return AWAY

    worker.store.fail = fail
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (await worker.delivery()).owner is None
