"""Learning under kill -9: two workers say things and learn from them, are killed at random instants and begin again.

Whatever was acknowledged is learnt from, once: not twice by the two of them, and not left out by the dead.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import strongroom
from strongroom.errors import Conflict
from tests.cli.program import repeating
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import KILLS, SEED

ENOUGH = 100  # then a new store is begun
MESSAGES = 100 * ENOUGH  # more than anybody says before the kill, however late that comes
PATIENCE_SECONDS = 120.0
WORKERS = 2


def work(path: Path, told: mmap.mmap, start: int) -> None:
    """Say one thing after the other, and learn from what is new after each."""
    with strongroom.open(path) as ctx:
        session = ctx.sessions.open("s1", user_id="u1")
        for n in range(start, MESSAGES):
            try:
                session.append({"role": "user", "content": f"fact {n}", "id": f"m{n}"})
            except Conflict:
                pass  # the other one said it
            told[n] = 1
            ctx.memories.learn(session, model=repeating, limit=3)


def look(path: Path, told: mmap.mmap) -> None:
    """Learn what is left, and find each message among the proposals, once."""
    with strongroom.open(path) as ctx:
        ctx.sessions.open("s1", user_id="u1")  # they may have died before they did
        while ctx.memories.learn("s1", model=repeating).left:
            pass
        messages = [message["id"] for message in ctx.sessions.get("s1").load()]
        assert {f"m{n}" for n in range(MESSAGES) if told[n]} <= set(messages)
        proposals = [one.request for batch in ctx.memories.pending(limit=1_000) for one in batch.proposals]
        sources = Counter(request.source_refs[1] for request in proposals)
        assert sources == Counter(f"message:s1#{id}" for id in messages)


def campaign(folder: Path, kills: int, seed: int) -> int:
    rng, done, learnt = random.Random(seed), 0, 0
    while done < kills:
        path, told = folder / f"{done}.db", mmap.mmap(-1, MESSAGES)
        while done < kills and not told[ENOUGH]:
            start = max(0, len(told[:].rstrip(b"\0")) - 2)
            crew = [forked(work, path, told, start) for _ in range(WORKERS)]
            for worker in crew:
                _kill(worker, told, rng)
            done += WORKERS
        assert ended_well(forked(look, path, told)), f"broken after {done} kills"
        learnt += len(told[:].rstrip(b"\0"))
    return learnt


def _kill(worker: int, told: mmap.mmap, rng: random.Random) -> None:
    """Kill a worker a little after some more was acknowledged, to it or to the other."""
    steps, before, deadline = rng.randrange(4), sum(told[:]), time.monotonic() + PATIENCE_SECONDS
    while sum(told[:]) < before + steps and time.monotonic() < deadline:
        assert os.waitpid(worker, os.WNOHANG) == (0, 0), "a worker ended by itself; see its error above"
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, 0.01))
    os.kill(worker, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(worker, 0)[1]), "a worker ended by itself; see its error above"


def test_two_learners_killed_at_random_instants_learn_from_every_message_once(fast_folder: Path) -> None:
    # A fifth of what the long campaign asks for: a thousand of its five thousand.
    assert apart(campaign, fast_folder, KILLS // 5 if KILLS > 200 else 10, SEED) > 0
