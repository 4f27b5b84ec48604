"""Sessions under kill -9: a turn that was acknowledged is kept, one that was not is made once when it is repeated.

A writer does one turn after another, each under an id of its own, and is killed at random instants. Whoever comes next
repeats the turn that was under way. In the end every turn has happened exactly once, and whatever the kills cut short
(a deletion of many steps, a fork with pins) is whole.
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
from strongroom.services.sessions import writes
from strongroom.store import Key, Range, Scan, ask
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import KILLS, SEED

EACH = 10  # so many turns make a round: everything is done to a session, and then it is deleted
LONG = 25


def turn(ctx: Context, number: int) -> None:
    """Do what is due at this turn. All of it depends on the number alone, so that anybody can repeat it."""
    session, id, what = ctx.sessions.open("s"), f"turn-{number}", number % EACH
    text: Any = {"role": "user", "content": f"turn {number}", "id": f"m{number}"}
    other = f"round-{number // EACH}"
    if what in (0, 1, 2, 3):
        session.append([text, {"role": "assistant", "content": "noted"}], commit_id=id)
    elif what == 4:
        session.pin(f"m{number - 1}", commit_id=id)
    elif what == 5:
        session.truncate_from(f"m{number - 3}", commit_id=id)
    elif what == 6:
        session.restore(commit_id=id)
    elif what == 7:
        session.fork(f"m{number - 4}", session_id=other, commit_id=id)
    elif what == 8:
        ctx.sessions.get(other).append([text] + [{"role": "user", "content": "filler"}] * LONG, commit_id=id)
    else:
        ctx.sessions.delete(other, commit_id=id)


def work(path: Path, done: mmap.mmap) -> None:
    """Go on from the turn that was not acknowledged, until killed."""
    writes.DELETED_AT_ONCE = 4
    with strongroom.open(path) as ctx:
        while True:
            number = int.from_bytes(done[:8], "big")
            turn(ctx, number)
            done[:8] = (number + 1).to_bytes(8, "big")


def look(path: Path, done: int) -> None:
    """Repeat the turn that may be half done, and check that every turn has happened once."""
    writes.DELETED_AT_ONCE = 4
    with strongroom.open(path) as ctx:
        turn(ctx, done)
        whole, rest = divmod(done + 1, EACH)
        spoken = [number for number in range(done + 1) if number % EACH < 4]
        hidden = [number for number in spoken if rest == 6 and number >= done - 3]
        session = ctx.sessions.open("s")
        assert [one.id for one in session.load() if one.content != "noted"] == [
            f"m{number}" for number in spoken if number not in hidden
        ]
        messages = ask(ctx.store, Range(Key("default", "message", "s"))).records
        assert len(messages) == 2 * len(spoken)
        assert len(session.info().pinned) == whole + (rest > 4)
        forks = [info.id for info in ctx.sessions.list() if info.id != "s"]
        assert forks == ([f"round-{whole}"] if rest in (8, 9) else [])
        for name in forks:
            fork = ctx.sessions.get(name)
            assert len(fork.info().pinned) == whole + 1  # those of the original, in the same commit
            assert len(fork) == 8 * whole + 7 + (LONG + 1 if rest == 9 else 0)
        for number in range(whole):
            assert ask(ctx.store, Range(Key("default", "message", f"round-{number}"))).records == ()
        assert ask(ctx.store, Scan("default", "session")).next is None


def campaign(path: Path, kills: int, seed: int) -> int:
    """Kill a writer at random instants, look, go on; return how many turns were done."""
    rng, done = random.Random(seed), mmap.mmap(-1, 8)
    every = max(5, kills // 20)
    for round in range(kills):
        before = int.from_bytes(done[:8], "big")
        child = forked(work, path, done)
        steps, deadline = rng.randrange(6), time.monotonic() + 60
        while int.from_bytes(done[:8], "big") < before + steps and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if (round + 1) % every == 0 or round + 1 == kills:
            assert ended_well(forked(look, path, int.from_bytes(done[:8], "big"))), f"kill {round}"
    return int.from_bytes(done[:8], "big")


@pytest.mark.parametrize("kills", [max(20, KILLS // 10)])
def test_a_writer_killed_at_random_instants_does_every_turn_once(tmp_path: Path, kills: int) -> None:
    assert apart(campaign, tmp_path / "agent.db", kills, SEED) > 0


def test_a_turn_repeated_under_another_id_would_be_seen_here(tmp_path: Path) -> None:
    """The negative control: without the id a repeat is another turn, and the look finds it."""
    with strongroom.open(tmp_path / "agent.db") as ctx:
        turn(ctx, 0)
        ctx.sessions.open("s").append({"role": "user", "content": "turn 0"})
    with pytest.raises(AssertionError):
        look(tmp_path / "agent.db", 0)
