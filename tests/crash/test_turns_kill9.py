"""Turns under kill -9, on every store that survives a process: there is no half turn, and a repeat makes it once.

A writer takes one turn after another, each under an id of its own, and is killed at random instants. Whoever comes next
takes the turn again that was under way. In the end every turn has happened exactly once, in all of its parts.
"""

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
from strongroom.blocking import Context
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import KILLS, SEED
from tests.services.memory_samples import mcr


def take(ctx: Context, number: int) -> None:
    """Take a turn of five parts. All of it follows from the number, so that anybody can take it again."""
    run, session = ctx.runs.open("r", objective="o", state={"turns": 0}), ctx.sessions.open("s")
    with ctx.turn(commit_id=f"turn-{number}") as turn:
        turn.append(session, {"role": "user", "content": f"{number}"})
        turn.update(run, state_patch={"turns": number + 1})
        turn.record(run, "TOOL_RESULT", {"tool_name": f"{number}", "ok": True})
        turn.send("t", number, from_id="a")
        turn.propose([mcr(f"turn {number}")], proposer=f"p{number}")


def happened(ctx: Context) -> list[list[int]]:
    """Return which turns have happened, by each of their parts."""
    run, session = ctx.runs.open("r", objective="o", state={"turns": 0}), ctx.sessions.open("s")
    assert run.verify().ok
    recorded, after = list[int](), None
    while True:
        page = run.events(types=["TOOL_RESULT"], after=after)
        recorded += [int(event.payload["tool_name"]) for event in page]
        after = page.next
        if after is None:
            break
    proposed, place = list[int](), None
    while True:
        batches = ctx.memories.pending(after=place)
        proposed += [int(batch.proposer[1:]) for batch in batches]
        place = batches.next
        if place is None:
            break
    return [
        [int(one["content"]) for one in session],
        list(range(run.state["turns"])),
        recorded,
        [slot.payload for slot in ctx.threads.get("t").slice()],
        proposed,
    ]


def work(address: str, done: mmap.mmap) -> None:
    """Go on from the turn that was not acknowledged, until killed."""
    with strongroom.open(address) as ctx:
        while True:
            number = int.from_bytes(done[:8], "big")
            take(ctx, number)
            done[:8] = (number + 1).to_bytes(8, "big")


def look(address: str, done: int) -> None:
    """Check that the turn under way is whole or absent; take it; check that each has happened once."""
    with strongroom.open(address) as ctx:
        assert [*{tuple(part) for part in happened(ctx)}] in ([tuple(range(done))], [tuple(range(done + 1))])
        take(ctx, done)
        assert all(part == list(range(done + 1)) for part in happened(ctx))


def campaign(address: str, kills: int, seed: int) -> int:
    """Kill a writer at random instants, look, go on; return how many turns were taken."""
    rng, done = random.Random(seed), mmap.mmap(-1, 8)
    for round in range(kills):
        before = int.from_bytes(done[:8], "big")
        child = forked(work, address, done)
        steps, deadline = rng.randrange(1, 4), time.monotonic() + 60
        while int.from_bytes(done[:8], "big") < before + steps and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if (round + 1) % max(4, kills // 20) == 0 or round + 1 == kills:
            assert ended_well(forked(look, address, int.from_bytes(done[:8], "big"))), f"kill {round}"
    return int.from_bytes(done[:8], "big")


@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"])
def test_a_killed_writer_leaves_no_half_turn(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    address = str(tmp_path / "agent.db") if store == "sqlite" else request.getfixturevalue(store)
    assert apart(campaign, address, max(8, KILLS // 25), SEED) > 0


def test_a_half_turn_would_be_seen_here(tmp_path: Path) -> None:
    """The negative control: one part alone, and the look finds it."""
    address: Any = str(tmp_path / "agent.db")
    with strongroom.open(address) as ctx:
        take(ctx, 0)
        ctx.sessions.open("s").append({"role": "user", "content": "1"})
    with pytest.raises(AssertionError):
        look(address, 1)
