"""Every schedule of threads, chains and deliveries that race."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from strongroom.dispatch.delivery import Round
from strongroom.dispatch.leases import Lease, LeasedThread, LeaseLost
from strongroom.dispatch.mail import flagged
from strongroom.dispatch.routes import Outgoing, Respond, Route, Send
from strongroom.errors import BudgetExceeded, CommitUnknown
from strongroom.operations import Plan
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import DELIVERY, Begun, Delivery, read_delivery, suspicious
from strongroom.services.threads.plans import Writes, count_key
from strongroom.services.threads.registry import AsyncRegistry
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Limits, Slot
from strongroom.store import Append, AsyncStore, Commit, Get, Key, Range, Receipt, new_id
from strongroom.testing import explore

Program = Callable[[AsyncStore], Coroutine[Any, Any, Any]]
T = TypeVar("T")
LEASE = 30.0


def threads(store: AsyncStore, *, limits: Limits = Limits(), now: int = 1) -> AsyncThreads:
    return AsyncThreads(Scope(store, clock=lambda: now), limits=limits)


def append(thread_id: str = "t", *, limits: Limits = Limits()) -> Program:
    async def program(store: AsyncStore) -> int:
        return (await threads(store, limits=limits).append(thread_id, "x", from_id="a")).index

    return program


async def delete(store: AsyncStore) -> bool:
    return await threads(store).delete("t")


async def slots(store: AsyncStore, thread_id: str = "t") -> list[Slot]:
    return [slot async for slot in await threads(store).get(thread_id)]


async def live(store: AsyncStore) -> int:
    return (await threads(store).stats()).thread_count


def test_racing_appends_get_distinct_gapless_indexes() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert sorted(results) == [0, 1]
        assert [slot.index for slot in await slots(store)] == [0, 1]
        assert await live(store) == 1

    assert explore([append(), append()], check).failure is None


def test_racing_appends_never_pass_the_slot_limit() -> None:
    limited = append(limits=Limits(max_slots_per_thread=2))

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert [isinstance(result, BudgetExceeded) for result in results].count(True) == 1
        assert len(await slots(store)) == 2

    assert explore([limited, limited], check, setup=append()).failure is None


def test_racing_births_never_pass_the_thread_limit() -> None:
    limits = Limits(max_threads=1)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert [isinstance(result, BudgetExceeded) for result in results].count(True) == 1
        assert await live(store) == 1

    assert explore([append("t1", limits=limits), append("t2", limits=limits)], check).failure is None


def test_the_count_of_threads_is_right_after_any_race_of_birth_and_death() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        alive = len(await slots(store)) > 0
        assert await live(store) == int(alive)
        counted = await Scope(store).get(Get(count_key("default")))
        assert counted is not None and counted.value.load() == {"live": int(alive)}

    explored = explore([append(), delete, append()], check, setup=append())
    assert explored.failure is None


def test_an_append_racing_a_deletion_never_restarts_the_index() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results[0] == 1

    assert explore([append(), delete], check, setup=append()).failure is None


def test_a_repeat_after_an_unknown_outcome_appends_once() -> None:
    async def program(store: AsyncStore) -> int:
        for _ in range(4):
            try:
                return (await threads(store).append("t", "x", from_id="me", commit_id="once")).index
            except CommitUnknown:
                continue
        raise AssertionError("still unknown")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert [slot.index for slot in await slots(store) if slot.from_id == "me"] == [results[0]]

    assert explore([program, append()], check, unknowns=2).failure is None


def test_the_explorer_sees_two_step_appends_go_wrong() -> None:
    """The negative control: look at the length, then append without a limit, as two steps."""

    async def careless(store: AsyncStore) -> None:
        key = Key("default", "thread", "t")
        here = await Scope(store).get(Range(key, 0, 0))
        if here.length < 2:
            entry = threads(store).entry("x", from_id="a", to_id="")
            await store.commit(Commit(new_id(), (), (Append(key, (entry,)),)))

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert len(await slots(store)) <= 2

    assert explore([careless, careless], check, setup=append()).failure is not None


def test_racing_callers_agree_on_the_id_of_a_chain() -> None:
    async def extend(store: AsyncStore) -> str:
        registry = AsyncRegistry(Scope(store))
        return await registry.get_or_create("console.router")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results[0] == results[1]

    assert explore([extend, extend], check).failure is None


# ---- deliveries -----------------------------------------------------------------------------------------------------


class Direct(Round):
    """A round that runs its function at once: there is no clock to renew a lease by, and nobody to be cancelled by."""

    async def _finish(self, act: Coroutine[Any, Any, T]) -> T:
        return await act

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        yield

    async def _run_renewing(self, route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
        return await self._run(route, slot, attempt)


class UnfencedThread(LeasedThread):
    def _plan(
        self, lease: Lease, state: Delivery, result: Callable[[Receipt], T], more: Writes = Writes((), ())
    ) -> Plan[T]:
        fenced = super()._plan(lease, state, result, more)
        return Plan(fenced.expects[1:], fenced.writes, fenced.result)


class Unfenced(Direct):
    """The negative control: a worker that does not check whether the thread is still its own."""

    def __init__(
        self, threads: AsyncThreads, routes: dict[str, Route], thread_id: str, *, owner: str, **more: Any
    ) -> None:
        super().__init__(threads, routes, thread_id, owner=owner, **more)
        self._leased = UnfencedThread(threads, thread_id, owner)


async def answer(route: Route, slot: Slot, attempt: int) -> list[Outgoing]:
    return [Respond(slot.payload), Send("other", slot.payload)]


def worker(owner: str, *, now: int, kind: type[Round] = Direct) -> Program:
    async def program(store: AsyncStore) -> int:
        route = Route("echo", lambda payload, call: None)
        return await kind(
            threads(store, now=now),
            {"echo": route},
            "t",
            owner=owner,
            lease_seconds=LEASE,
            run=answer,
            stopping=lambda: False,
        )()

    return program


async def post(store: AsyncStore) -> None:
    await threads(store).append("t", "first", from_id="user", to_id="echo")


LATE = int(LEASE * 1_000_000) + 100


async def each_effect_once(store: AsyncStore, results: Sequence[Any]) -> None:
    found = [slot.payload for slot in await slots(store) if slot.from_id == "echo"]
    assert found == ["first"], found
    registry = AsyncRegistry(Scope(store))
    [page] = [await threads(store).list()]
    children = [info.thread_id for info in page if info.thread_id != "t"]
    assert [[slot.payload for slot in await slots(store, child)] for child in children] == [["first"]]
    assert (await registry.lookup(children[0])).names == ("user", "echo", "other")


@pytest.mark.parametrize("clocks", [(1, 1), (1, LATE)], ids=["fresh lease", "lease over"])
def test_two_workers_have_each_effect_once(clocks: tuple[int, int]) -> None:
    programs = [worker("one", now=clocks[0]), worker("two", now=clocks[1])]
    explored = explore(programs, each_effect_once, setup=post, reads_in_order=True)
    assert explored.failure is None, str(explored.failure)


def test_a_crash_at_any_point_leads_to_each_effect_once() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await each_effect_once(store, results)

    takes_over = worker("two", now=LATE)
    explored = explore([worker("one", now=1)], check, setup=post, crashes=1, recover=[takes_over])
    assert explored.failure is None, str(explored.failure)


async def abandon(store: AsyncStore) -> None:
    """Post a message, and vanish with the thread taken."""
    await post(store)
    await LeasedThread(threads(store), "t", "gone").take(0.0)


async def each_effect_once_and_no_suspicion(store: AsyncStore, results: Sequence[Any]) -> None:
    await each_effect_once(store, results)
    assert not suspicious(read_delivery(await Scope(store).get(Get(Key("default", DELIVERY, "t")))))


@pytest.mark.parametrize("clocks", [(1, 1), (1, LATE)], ids=["fresh lease", "lease over"])
def test_two_workers_that_take_a_thread_over_have_each_effect_once(clocks: tuple[int, int]) -> None:
    programs = [worker("one", now=clocks[0]), worker("two", now=clocks[1])]
    explored = explore(programs, each_effect_once_and_no_suspicion, setup=abandon, reads_in_order=True)
    assert explored.failure is None, str(explored.failure)


def test_a_crash_at_any_point_of_a_takeover_leads_to_each_effect_once() -> None:
    programs, takes_over = [worker("one", now=1)], worker("two", now=LATE)
    explored = explore(programs, each_effect_once_and_no_suspicion, setup=abandon, crashes=1, recover=[takes_over])
    assert explored.failure is None, str(explored.failure)


@pytest.mark.parametrize("kind", [LeasedThread, UnfencedThread])
def test_a_note_is_made_while_the_thread_is_held_or_not_at_all(kind: type[LeasedThread]) -> None:
    seen: set[str] = set()

    async def notes(store: AsyncStore) -> str:
        mine = kind(threads(store), "t", "one")
        lease = await mine.take(LEASE)
        if not isinstance(lease, Lease):
            return "too late to take it"
        try:
            await mine.note(lease, await mine.message(lease, 0), LEASE)
        except LeaseLost:
            return "too late to note it"
        return "noted"

    async def takes_over(store: AsyncStore) -> None:
        assert isinstance(await kind(threads(store, now=LATE), "t", "two").take(LEASE), Lease)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        seen.add(results[0])
        state = read_delivery(await Scope(store).get(Get(Key("default", DELIVERY, "t"))))
        known = {"echo": Begun(0, 1)} if results[0] == "noted" else {}
        assert (state.owner, state.begun) == ("two", known)

    explored = explore([notes, takes_over], check, setup=abandon)
    if kind is UnfencedThread:  # the negative control
        assert explored.failure is not None
    else:
        assert explored.failure is None, str(explored.failure)
        assert seen == {"too late to take it", "too late to note it", "noted"}


def test_a_message_posted_while_a_thread_is_given_back_keeps_its_flag() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        if len([slot for slot in await slots(store) if slot.from_id == "echo"]) == 1:
            assert await flagged(Scope(store), ["echo"], limit=1) == ["t"]

    explored = explore([worker("one", now=1), post], check, setup=post)
    assert explored.failure is None, str(explored.failure)


def test_the_explorer_sees_a_worker_without_a_fence_go_wrong() -> None:
    programs = [worker("one", now=1, kind=Unfenced), worker("two", now=LATE, kind=Unfenced)]
    assert explore(programs, each_effect_once, setup=post).failure is not None
