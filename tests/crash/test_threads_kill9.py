"""Threads, chains and deliveries under kill -9: what was acknowledged is there, once, and what is due is found."""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.bridge import Inline, run
from strongroom.dispatch import Dispatcher, send
from strongroom.opening import open_store
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import KILLS, SEED
from tests.interleavings.test_threads_all import agree

MESSAGE: Any = {"from_id": "user", "to_id": "echo"}


def desk(ctx: Any) -> Dispatcher:
    dispatcher = Dispatcher(ctx, lease_seconds=0.05, poll_seconds=0.005)

    @dispatcher.handler("echo")
    def echo(payload: Any, call: Any) -> Any:
        return [payload, send("log", payload)] if call.from_id == "user" else None

    dispatcher.handler("log")(lambda payload, call: None)
    return dispatcher


def work(path: Path, acknowledged: mmap.mmap, seed: int) -> None:
    """Do a bit of everything until killed; write down the last message that was acknowledged, and every step."""
    rng = random.Random(seed)
    with strongroom.open(path) as ctx:
        dispatcher = desk(ctx)
        while True:
            acknowledged[8:16] = (int.from_bytes(acknowledged[8:16], "big") + 1).to_bytes(8, "big")
            what = rng.randrange(9)
            if what < 3:
                number = int.from_bytes(acknowledged[:8], "big")  # repeated if the one before us was killed at it
                ctx.threads.append("kept", number, **MESSAGE, commit_id=f"message-{number}")
                acknowledged[:8] = (number + 1).to_bytes(8, "big")
            elif what == 3:
                dispatcher.drain()
            elif what == 4:
                dispatcher.send(None, rng.random(), **MESSAGE)
            elif what == 5:
                ctx.threads.append_many(f"t{rng.randrange(3)}", [1, 2], **MESSAGE)
            elif what == 6:
                ctx.threads.delete(f"t{rng.randrange(3)}")
            elif what == 7:
                room = ctx.threads.limited(max_threads=3, archive=lambda thread_id, pack: None)
                ctx.threads.append("kept", "used just now", from_id="user")
                room.append(f"t{rng.randrange(3)}", "x", from_id="user")
            else:
                id = ctx.registry.start("console.front")
                ctx.registry.extend(ctx.registry.extend(id, "back"), "store")
                ctx.registry.cleanup(id)


def look(path: Path, acknowledged: int) -> None:
    """Check everything that is there, and that every message acknowledged is there once."""
    store = open_store(path)
    run(agree(Inline(store)))
    store.close()
    with strongroom.open(path) as ctx:
        kept = [slot.payload for slot in ctx.threads.get("kept").sent_by("user") if isinstance(slot.payload, int)]
        assert kept in (list(range(acknowledged)), list(range(acknowledged + 1))), (kept[-3:], acknowledged)


def finish(path: Path) -> None:
    """Handle what is left, and check that each message was answered once and in order."""
    with strongroom.open(path) as ctx:
        desk(ctx).drain()
        slots = list(ctx.threads.get("kept"))
        asked = [slot.payload for slot in slots if slot.to_id == "echo" and slot.from_id == "user"]
        assert [slot.payload for slot in slots if slot.from_id == "echo"] == asked


def campaign(path: Path, kills: int, seed: int) -> int:
    """Kill a writer at a random instant, look whether everything agrees, go on; return how much was acknowledged."""
    rng, acknowledged = random.Random(seed), mmap.mmap(-1, 16)
    every = max(5, kills // 20)  # there is ever more to look at
    for round in range(kills):
        before = int.from_bytes(acknowledged[8:16], "big")
        child = forked(work, path, acknowledged, seed * 1_000_000 + round)
        steps, deadline = rng.randrange(12), time.monotonic() + 60
        while int.from_bytes(acknowledged[8:16], "big") < before + steps and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if (round + 1) % every == 0 or round + 1 == kills:
            assert ended_well(forked(look, path, int.from_bytes(acknowledged[:8], "big"))), f"round {round}"
    assert ended_well(forked(finish, path))
    return int.from_bytes(acknowledged[:8], "big")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.threads.append("kept", "begin", from_id="user")
    return tmp_path / "agent.db"


def test_writers_killed_at_random_instants_lose_no_message_and_answer_each_once(path: Path) -> None:
    assert apart(campaign, path, max(10, KILLS // 10), SEED) > 0
