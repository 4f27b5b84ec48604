"""Threads under many writers, in one process and in several."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.errors import BudgetExceeded

SPAWN = multiprocessing.get_context("spawn")
SHARED = ["sqlite", "postgres", "redis"]


def append_from_a_process(address: str, who: str, count: int) -> list[int]:
    with strongroom.open(address) as ctx:
        return [ctx.threads.append("t", n, from_id=who).index for n in range(count)]


@pytest.mark.parametrize("address", SHARED, indirect=True)
def test_two_processes_get_distinct_gapless_indexes(address: str) -> None:
    strongroom.open(address).close()
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        given = pool.map(append_from_a_process, [address] * 2, ["a", "b"], [500] * 2)
        indexes = sorted(index for indexes in given for index in indexes)
    assert indexes == list(range(1000))
    with strongroom.open(address) as ctx:
        for who in ("a", "b"):
            assert [slot.payload for slot in ctx.threads.get("t").sent_by(who)] == list(range(500))


def test_eight_threads_fill_a_thread_to_its_limit_and_never_more(address: str) -> None:
    with strongroom.open(address) as ctx:
        threads = ctx.threads.limited(max_slots_per_thread=100)
        start = threading.Barrier(8)

        def fill(_: int) -> int:
            start.wait()
            done = 0
            for n in range(20):
                try:
                    threads.append("t", n, from_id="a")
                    done += 1
                except BudgetExceeded:
                    pass
            return done

        with ThreadPoolExecutor(8) as pool:
            accepted = sum(pool.map(fill, range(8)))
        assert (accepted, len(threads.get("t"))) == (100, 100)


def test_eight_threads_make_as_many_threads_as_allowed_and_never_more(address: str) -> None:
    with strongroom.open(address) as ctx:
        threads = ctx.threads.limited(max_threads=5)

        def begin(number: int) -> int:
            try:
                threads.append(f"t{number}", number, from_id="a")
                return 1
            except BudgetExceeded:
                return 0

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(begin, range(16))) == 5
        assert threads.stats().thread_count == 5


def test_a_follower_sees_every_slot_of_another_thread_once_and_in_order(address: str) -> None:
    with strongroom.open(address) as ctx:
        writer = threading.Thread(target=_append_some, args=(ctx, 50))
        writer.start()
        seen = []
        for slot in ctx.threads.follow("t"):
            seen.append(slot.payload)
            if len(seen) == 50:
                break
        writer.join()
    assert seen == list(range(50))


@pytest.mark.parametrize("address", SHARED, indirect=True)
def test_a_follower_wakes_for_another_process(address: str) -> None:
    with strongroom.open(address) as ctx, ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        writing = pool.submit(append_from_a_process, address, "other", 3)
        seen = []
        for slot in ctx.threads.follow("t"):
            seen.append((slot.from_id, slot.payload))
            if len(seen) == 3:
                break
        writing.result()
    assert seen == [("other", 0), ("other", 1), ("other", 2)]


async def test_an_async_follower_does_not_keep_the_loop_from_appending(address: str) -> None:
    async with strongroom.aopen(address) as ctx:
        seen = []
        async for slot in _first_append_then_follow(ctx):
            seen.append(slot.payload)
            if len(seen) == 3:
                break
            await ctx.threads.append("t", len(seen), from_id="a")
    assert seen == [0, 1, 2]


async def _first_append_then_follow(ctx: Any) -> Any:
    await ctx.threads.append("t", 0, from_id="a")
    async for slot in ctx.threads.follow("t"):
        yield slot


def _append_some(ctx: Context, count: int) -> None:
    for n in range(count):
        ctx.threads.append("t", n, from_id="a")
