"""Erasing slots of a thread: nothing of them is left, and nothing brings them back."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import strongroom
from strongroom.bridge import run
from strongroom.dispatch import Dispatcher, Retry
from strongroom.dispatch.leases import Lease, LeasedThread
from strongroom.errors import InvalidInput, NotFound
from strongroom.services.threads import erasure
from strongroom.store import Exportable
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import DURABLE, start_or_skip
from tests.services.memory_samples import settled

CANARY = "canary-7f3a"
IN_FILES = "canary-of-slots-5b1d"  # no other test says it, also not on a server that several share


async def stored(ctx: Any) -> str:
    """Return everything a store holds, as text."""
    store: Exportable = ctx.store
    exported = await settled(store.unload(None, 10_000))
    assert exported.next is None
    return str(exported.items)


async def filled(ctx: Any, count: int = 4) -> None:
    for n in range(count):
        await ctx.threads.append("t", {"n": n, "text": CANARY}, from_id=CANARY, to_id=f"to-{CANARY}")


async def left(ctx: Any) -> list[int]:
    """Return the places of the slots that still say something."""
    slots = await (await ctx.threads.get("t")).slice()
    return [slot.index for slot in slots if slot.record.body is not None]


@pytest.mark.parametrize(
    ("which", "stay"),
    [
        ({"start": 0}, []),
        ({"start": 1, "stop": 3}, [0, 3]),
        ({"stop": 2}, [2, 3]),
        ({"start": 3, "stop": 99}, [0, 1, 2]),
        ({"start": 2, "stop": 2}, [0, 1, 2, 3]),
        ({"start": 9}, [0, 1, 2, 3]),
    ],
)
async def test_slots_are_erased_by_their_places(ctx: Any, which: dict[str, int], stay: list[int]) -> None:
    await filled(ctx)
    told = await ctx.threads.erase("t", **which)
    assert (told.thread_id, told.slots) == ("t", 4 - len(stay))
    assert await left(ctx) == stay


async def test_slots_are_erased_by_their_time(ctx: Any) -> None:
    await filled(ctx, 3)
    times = [slot.at for slot in await (await ctx.threads.get("t")).slice()]
    assert (await ctx.threads.erase("t", before=times[0])).slots == 0
    earlier = len([at for at in times if at < times[2]])
    assert (await ctx.threads.erase("t", before=times[2])).slots == earlier
    assert (await ctx.threads.erase("t", before=datetime.now(UTC) + timedelta(days=1), start=1, stop=3)).slots == 2
    assert 0 not in await left(ctx) or earlier == 0


async def test_places_types_and_times_stay_and_the_thread_goes_on(ctx: Any) -> None:
    await filled(ctx, 2)
    thread = await ctx.threads.get("t")
    before = (await thread.slice())[0]
    await ctx.threads.erase("t", start=0)
    after = (await thread.slice())[0]
    assert (after.index, after.type, after.at) == (0, before.type, before.at)
    assert (after.from_id, after.to_id) == ("", "")
    with pytest.raises(NotFound, match="erased"):
        _ = after.payload
    assert (await ctx.threads.append("t", "next", from_id="a")).index == 2
    assert await thread.length() == 3


async def test_nothing_is_left_in_the_store(ctx: Any) -> None:
    await filled(ctx)
    assert CANARY in await stored(ctx)
    await ctx.threads.erase("t", start=0)
    texts = (await stored(ctx)).replace(f"to-{CANARY}", "")
    assert CANARY not in texts


async def test_a_long_thread_is_erased_in_bounded_commits(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "AT_ONCE", 3)
    await filled(ctx, 10)
    assert (await ctx.threads.erase("t", start=1)).slots == 9
    assert await left(ctx) == [0]


async def test_a_repeat_says_the_same_and_other_content_is_refused(ctx: Any) -> None:
    await filled(ctx, 2)
    first = await ctx.threads.erase("t", start=0, commit_id="e")
    await ctx.threads.append("t", "new", from_id="a")
    again = await ctx.threads.erase("t", start=0, commit_id="e")
    assert (again.slots, await left(ctx)) == (first.slots, [2])
    with pytest.raises(InvalidInput, match="nothing changed"):
        await ctx.threads.erase("t", stop=1, commit_id="e")


WRONG = [{}, {"start": -1}, {"stop": -1}, {"before": datetime(2026, 1, 1)}, {"start": "0"}]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
async def test_somebody_must_say_what_to_erase(ctx: Any, wrong: dict[str, Any]) -> None:
    await filled(ctx, 1)
    with pytest.raises(InvalidInput, match="nothing changed"):
        await ctx.threads.erase("t", **wrong)
    assert await left(ctx) == [0]


async def test_a_thread_that_is_not_there_has_nothing_to_erase(ctx: Any) -> None:
    assert (await ctx.threads.erase("nowhere", start=0)).slots == 0


# ---- workers --------------------------------------------------------------------------------------------------------


def test_what_nobody_has_handled_is_not_delivered_any_more() -> None:
    with strongroom.open("memory://") as ctx:
        dispatcher, seen = Dispatcher(ctx), list[Any]()
        dispatcher.handler("b")(lambda payload, call: seen.append(payload))
        for n in range(3):
            dispatcher.send("t", n, from_id="a", to_id="b")
        ctx.threads.erase("t", start=1, stop=2)
        dispatcher.drain()
        assert seen == [0, 2]


def test_dead_letters_go_with_their_messages() -> None:
    with strongroom.open("memory://") as ctx:
        dispatcher = Dispatcher(ctx)

        @dispatcher.handler("b", retry=Retry(attempts=1))
        def broken(payload: Any, call: Any) -> None:
            raise ValueError(CANARY)

        for n in range(2):
            dispatcher.send("t", n, from_id="a", to_id="b")
        dispatcher.drain()
        assert [letter.index for letter in dispatcher.dead_letters()] == [0, 1]
        ctx.threads.erase("t", stop=1)
        assert [letter.index for letter in dispatcher.dead_letters()] == [1]


def test_why_a_message_failed_is_forgotten_with_it() -> None:
    with strongroom.open("memory://") as ctx:
        slot = ctx.threads.append("t", "hello", from_id="a", to_id="b")
        leased = LeasedThread(ctx._async.threads, "t", "worker")
        lease = run(leased.take(60))
        assert isinstance(lease, Lease)
        run(leased.put_off(lease, slot.record, f"ValueError: {CANARY}", 3_600))
        store: Any = ctx.store
        assert CANARY in str(store.unload(None, 1_000).items)
        ctx.threads.erase("t", start=0)
        assert CANARY not in str(store.unload(None, 1_000).items)


def test_whoever_handles_a_message_while_it_is_erased_stores_nothing_of_it() -> None:
    with strongroom.open("memory://") as ctx:
        dispatcher = Dispatcher(ctx)

        @dispatcher.handler("b")
        def answers(payload: Any, call: Any) -> Any:
            if payload == CANARY:
                ctx.threads.erase("t", stop=1)
            return f"you said {payload}"

        dispatcher.send("t", CANARY, from_id="a", to_id="b")
        dispatcher.send("t", "tea", from_id="a", to_id="b")
        dispatcher.drain()
        said = [slot.payload for slot in ctx.threads.get("t") if slot.record.body is not None and slot.from_id == "b"]
        assert said == ["you said tea"]
        store: Any = ctx.store
        assert CANARY not in str(store.unload(None, 1_000).items)


# ---- in files -------------------------------------------------------------------------------------------------------


def bytes_in(folder: Path, *parts: str) -> int:
    files = [file for part in parts or ("",) for file in (folder / part).rglob("*") if file.is_file()]
    return sum(file.read_bytes().count(IN_FILES.encode()) for file in files)


def fill(ctx: Any) -> None:
    for n in range(30):
        ctx.threads.append("t", {"n": n, "text": IN_FILES * 20}, from_id=IN_FILES, metadata={"more": IN_FILES})


def test_no_byte_is_left_in_any_file_of_a_sqlite_store(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        fill(ctx)
        assert bytes_in(tmp_path) > 0
        told = ctx.threads.erase("t", start=0)
        assert told.complete, told.pending
        assert bytes_in(tmp_path) == 0
    assert bytes_in(tmp_path) == 0


def test_no_byte_is_left_in_the_tables_of_postgres_after_a_vacuum(postgres_server: PostgresServer) -> None:
    address = postgres_server.new_database()
    database = address.rpartition("/")[2]

    def vacuum() -> None:
        with psycopg.connect(postgres_server.superuser(database), autocommit=True) as con:
            con.execute("VACUUM FULL")
            con.execute("CHECKPOINT")

    with strongroom.open(address) as ctx:
        fill(ctx)
        vacuum()
        assert bytes_in(postgres_server.data, "base") > 0
        ctx.threads.erase("t", start=0)
        vacuum()
        assert bytes_in(postgres_server.data, "base") == 0


def test_no_byte_is_left_in_the_log_of_valkey_after_it_was_rewritten() -> None:
    with start_or_skip(*DURABLE) as server, strongroom.open(server.address()) as ctx:
        fill(ctx)
        assert bytes_in(server.folder) > 0
        ctx.threads.erase("t", start=0)
        with server.client() as client:
            client.bgrewriteaof()
            while any(client.info("persistence")[f"aof_rewrite_{state}"] for state in ("in_progress", "scheduled")):
                time.sleep(0.01)
        assert bytes_in(server.folder) == 0
