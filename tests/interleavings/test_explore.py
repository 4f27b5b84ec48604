"""The explorer runs every schedule, and finds what is wrong in the one where it goes wrong."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest

from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Conflict
from strongroom.scope import Scope
from strongroom.store import Append, AsyncStore, Commit, Entry, Expect, Get, Key, Put, Range, Receipt, new_id
from strongroom.testing import CRASHED, explore

NUMBER = Key("s", "number", "n")
OTHER = Key("s", "number", "m")
LOG = Key("s", "log", "l")


async def number(store: AsyncStore, key: Key = NUMBER) -> tuple[int, int]:
    """The number that is there, and its version."""
    found = await Scope(store).get(Get(key))
    return (found.value.load(), found.version) if found else (0, 0)


def write(value: int, *expects: Expect, key: Key = NUMBER) -> Commit:
    return Commit(new_id(), expects, (Put(key, encode(value)),))


async def increment(store: AsyncStore) -> None:
    """Add one, the right way: under an expectation, again after a conflict."""
    while True:
        value, version = await number(store)
        try:
            await store.commit(write(value + 1, Expect(NUMBER, version)))
            return
        except Conflict:
            continue


async def careless(store: AsyncStore) -> None:
    """Add one and forget the expectation."""
    value, _ = await number(store)
    await store.commit(write(value + 1))


async def persistent(store: AsyncStore) -> None:
    """Add one, and repeat the very same commit while its outcome is unknown."""
    while True:
        value, version = await number(store)
        commit = write(value + 1, Expect(NUMBER, version))
        while True:
            try:
                await store.commit(commit)
                return
            except CommitUnknown:
                continue
            except Conflict:
                break


async def impatient(store: AsyncStore) -> None:
    """Add one, and start afresh under a new id when the outcome is unknown."""
    while True:
        value, version = await number(store)
        try:
            await store.commit(write(value + 1, Expect(NUMBER, version)))
            return
        except (CommitUnknown, Conflict):
            continue


def counts_to(wanted: int) -> Any:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        value, _ = await number(store)
        assert value == wanted

    return check


async def nothing(store: AsyncStore, results: Sequence[Any]) -> None:
    """A check that is always content."""


# ---- interleavings --------------------------------------------------------------------------------------------------


def test_two_increments_lose_nothing_in_any_schedule() -> None:
    found = explore([increment, increment], counts_to(2))
    assert found.failure is None
    assert found.schedules == math.comb(4, 2)


def test_three_increments_lose_nothing_in_any_schedule() -> None:
    found = explore([increment, increment, increment], counts_to(3))
    assert found.failure is None
    assert found.schedules > 90


def test_without_the_expectation_an_update_is_lost() -> None:
    failure = explore([careless, careless], counts_to(2)).failure
    assert failure is not None
    assert [str(step) for step in failure.schedule] == ["0: read", "1: read", "0: commit", "1: commit"]
    assert "0: read, 1: read" in str(failure)


def test_one_careless_program_is_enough_to_lose_an_update() -> None:
    assert explore([increment, careless], counts_to(2)).failure is not None


def test_every_interleaving_is_run_exactly_once() -> None:
    orders: list[str] = []

    def reader(name: str, verbs: int) -> Any:
        async def program(store: AsyncStore) -> None:
            for _ in range(verbs):
                await store.read([Get(NUMBER)])
                orders[-1] += name

        return program

    async def begin(store: AsyncStore) -> None:
        orders.append("")

    found = explore([reader("a", 3), reader("b", 2), reader("c", 1)], nothing, setup=begin)
    assert found.schedules == len(orders) == len(set(orders)) == math.factorial(6) // (6 * 2)


def test_reads_in_order_leave_out_only_what_nobody_can_tell_apart() -> None:
    """Whatever three programs can see of each other, they see in the schedules that are left."""

    def outcomes(reads_in_order: bool) -> tuple[set[Any], int]:
        seen: set[Any] = set()

        async def look_write_look(store: AsyncStore) -> Any:
            before = await number(store), await number(store, OTHER)
            await store.commit(write(before[0][0] + 1))
            return before, await number(store)

        async def look(store: AsyncStore) -> Any:
            return await number(store), await number(store, OTHER)

        async def check(store: AsyncStore, results: Sequence[Any]) -> None:
            seen.add((tuple(results), await number(store)))

        programs = [look_write_look, look, look_write_look]
        return seen, explore(programs, check, reads_in_order=reads_in_order).schedules

    everything, all_of_them = outcomes(False)
    found, fewer = outcomes(True)
    assert found == everything
    assert fewer < all_of_them / 3


def test_a_program_without_verbs_needs_no_decision() -> None:
    async def idle(store: AsyncStore) -> str:
        return "done"

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results == ("done", None)

    assert explore([idle, increment], check) == explore([idle, increment], check)
    assert explore([idle, increment], check).schedules == 1


def test_setup_runs_before_every_schedule() -> None:
    async def forty(store: AsyncStore) -> None:
        await store.commit(write(40))

    assert explore([increment, increment], counts_to(42), setup=forty).failure is None


def test_strongroom_errors_are_results() -> None:
    async def create(store: AsyncStore) -> Receipt:
        return await store.commit(write(1, Expect(NUMBER, 0)))

    async def one_wins(store: AsyncStore, results: Sequence[Any]) -> None:
        assert sorted(type(result).__name__ for result in results) == ["Conflict", "Conflict", "Receipt"]

    assert explore([create] * 3, one_wins).schedules == 6
    assert explore([create] * 3, one_wins).failure is None


def test_any_other_error_of_a_program_is_a_failure() -> None:
    async def broken(store: AsyncStore) -> None:
        value, _ = await number(store)
        raise KeyError(value)

    failure = explore([broken], nothing).failure
    assert failure is not None and isinstance(failure.error, KeyError)


def test_what_must_always_hold_is_asked_between_verbs() -> None:
    """Both numbers are equal at the end, whatever the schedule; only in between they are not."""

    async def one_by_one(store: AsyncStore) -> None:
        await store.commit(write(1))
        await store.commit(write(1, key=OTHER))

    async def together(store: AsyncStore) -> None:
        await store.commit(Commit(new_id(), writes=(Put(NUMBER, encode(1)), Put(OTHER, encode(1)))))

    async def equal(store: AsyncStore) -> None:
        assert (await number(store))[0] == (await number(store, OTHER))[0]

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await equal(store)

    assert explore([one_by_one], check).failure is None
    assert explore([one_by_one], check, always=equal).failure is not None
    assert explore([together], check, always=equal).failure is None


def test_a_follower_waits_for_the_writer_in_every_schedule() -> None:
    async def follow(store: AsyncStore) -> list[int]:
        seen: list[int] = []
        while len(seen) < 2:
            await store.wait(LOG, len(seen), 60)  # type: ignore[attr-defined]
            found = await Scope(store).get(Range(LOG, len(seen)))
            seen += [record.body.load() for record in found.records if record.body]
        return seen

    async def record(store: AsyncStore) -> None:
        for n in range(2):
            await store.commit(Commit(new_id(), writes=(Append(LOG, (Entry("n", encode(n)),)),)))

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results[0] == [0, 1]

    assert explore([follow, record], check).failure is None


def test_a_wait_that_nobody_ends_times_out() -> None:
    async def wait(store: AsyncStore) -> str:
        await store.wait(LOG, 0, 60)  # type: ignore[attr-defined]
        return "woken"

    assert explore([wait, wait], nothing).failure is None


# ---- crashes --------------------------------------------------------------------------------------------------------


async def transfer_in_two(store: AsyncStore) -> None:
    """Move one from a number to the other, in two commits: a crash in between loses it."""
    value, _ = await number(store)
    await store.commit(write(value - 1))
    value, _ = await number(store, OTHER)
    await store.commit(write(value + 1, key=OTHER))


async def transfer(store: AsyncStore) -> None:
    one, other = await Scope(store).read(Get(NUMBER), Get(OTHER))
    values = [found.value.load() if found else 0 for found in (one, other)]
    puts = (Put(NUMBER, encode(values[0] - 1)), Put(OTHER, encode(values[1] + 1)))
    await store.commit(Commit(new_id(), writes=puts))


async def in_balance(store: AsyncStore, results: Sequence[Any]) -> None:
    assert (await number(store))[0] + (await number(store, OTHER))[0] == 0


def test_a_crash_between_two_commits_is_found() -> None:
    assert explore([transfer_in_two], in_balance).failure is None
    failure = explore([transfer_in_two], in_balance, crashes=1).failure
    assert failure is not None
    assert [step.what for step in failure.schedule][-2:] == ["commit", "crash"] or CRASHED in failure.results


def test_one_commit_survives_a_crash_anywhere() -> None:
    found = explore([transfer], in_balance, crashes=1)
    assert found == explore([transfer], in_balance, crashes=1)
    assert (found.schedules, found.failure) == (3, None)  # before the read, before the commit, not at all


def test_every_crash_point_is_tried() -> None:
    seen: list[tuple[int, Any]] = []

    async def look(store: AsyncStore, results: Sequence[Any]) -> None:
        seen.append(((await number(store))[0], results[0]))

    async def three(store: AsyncStore) -> str:
        for n in (1, 2, 3):
            await store.commit(write(n))
        return "ended"

    explore([three], look, crashes=1)
    assert sorted(seen) == [(0, CRASHED), (1, CRASHED), (2, CRASHED), (3, "ended")]


def test_recovery_runs_after_a_crash_and_only_then() -> None:
    ran: list[bool] = []

    async def restore(store: AsyncStore) -> None:
        ran.append(True)
        value, _ = await number(store)
        await store.commit(write(-value, key=OTHER))

    assert explore([transfer_in_two], in_balance, crashes=1, recover=[restore]).failure is None
    assert ran
    ran.clear()
    explore([transfer_in_two], in_balance, recover=[restore])
    assert not ran


def test_a_crashed_program_writes_nothing_on_its_way_out() -> None:
    async def tidy(store: AsyncStore) -> None:
        try:
            await number(store)
        finally:
            await store.commit(write(7))

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert (await number(store))[0] == (0 if results[0] == CRASHED else 7)

    found = explore([tidy], check, crashes=1)
    assert (found.schedules, found.failure) == (3, None)


def test_others_go_on_after_a_crash() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert (await number(store))[0] == sum(result is None for result in results)

    found = explore([increment, increment], check, crashes=1)
    assert found.failure is None
    assert found.schedules > explore([increment, increment], check).schedules


# ---- unknown outcomes -----------------------------------------------------------------------------------------------


def test_repeating_the_same_commit_survives_unknown_outcomes() -> None:
    assert explore([persistent, persistent], counts_to(2), unknowns=2).failure is None


def test_a_new_id_after_an_unknown_outcome_counts_twice() -> None:
    failure = explore([impatient], counts_to(1), unknowns=1).failure
    assert failure is not None
    assert failure.schedule[1].what == "commit, applied, answer lost"


def test_an_unknown_outcome_may_mean_either() -> None:
    seen: set[int] = set()

    async def once(store: AsyncStore) -> Receipt:
        return await store.commit(write(1))

    async def look(store: AsyncStore, results: Sequence[Any]) -> None:
        if isinstance(results[0], CommitUnknown):
            seen.add((await number(store))[0])

    assert explore([once], look, unknowns=1).schedules == 3
    assert seen == {0, 1}


def test_not_more_answers_are_lost_than_allowed() -> None:
    async def look(store: AsyncStore, results: Sequence[Any]) -> None:
        assert sum(isinstance(result, CommitUnknown) for result in results) <= 1

    async def once(store: AsyncStore) -> None:
        await store.commit(write(1))

    assert explore([once, once], look, unknowns=1).failure is None


# ---- what cannot be explored ---------------------------------------------------------------------------------------


def test_programs_that_never_end_are_a_failure() -> None:
    async def forever(store: AsyncStore) -> None:
        while True:
            await number(store)

    failure = explore([forever], nothing, max_steps=20).failure
    assert failure is not None and "did not end" in str(failure.error)


def test_too_many_schedules_are_an_error_and_not_a_pass() -> None:
    with pytest.raises(RuntimeError, match="shorter programs"):
        explore([increment, increment], nothing, max_schedules=3)


def test_awaiting_anything_but_the_store_is_a_failure() -> None:
    async def sleepy(store: AsyncStore) -> None:
        await asyncio.sleep(0)

    failure = explore([sleepy], nothing).failure
    assert failure is not None and "nothing but its store" in str(failure.error)


def test_programs_that_do_not_repeat_themselves_are_noticed() -> None:
    runs: list[None] = []

    async def moody(store: AsyncStore) -> None:
        runs.append(None)
        for _ in range(1 + len(runs) % 2):
            await number(store)

    async def steady(store: AsyncStore) -> None:
        for _ in range(2):
            await number(store)

    failure = explore([moody, steady], nothing).failure
    assert failure is not None and "the same thing twice" in str(failure.error)
