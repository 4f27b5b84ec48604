"""Runs under many writers and under kill -9: everything acknowledged is kept, and everything kept agrees."""

from __future__ import annotations

import asyncio
import mmap
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from strongroom.store import Append, Commit, Receipt
from strongroom.values import UpdateFields, WorkingSet
from tests.crash.agreement import agree
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import KILLS, SEED
from tests.services.test_episodes import REQUEST

UPDATES = 100


def one_more(name: str) -> Callable[[WorkingSet], UpdateFields]:
    return lambda ws: {"blockers": [*ws.blockers, name]}


def add(path: Path, name: str, times: int) -> None:
    with strongroom.open(path) as ctx:
        run = ctx.runs.get("r")
        for place in range(times):
            run.update_with(one_more(f"{name}{place}"))


def two_processes(path: Path) -> bool:
    children = [forked(add, path, name, UPDATES) for name in "ab"]
    ended = [ended_well(child) for child in children]
    return all(ended)


def kept(path: Path, names: str, times: int) -> None:
    with strongroom.open(path) as ctx:
        run = ctx.runs.get("r")
        wanted = sorted(f"{name}{place}" for name in names for place in range(times))
        assert sorted(run.working_set.blockers) == wanted
        assert run.seq == len(wanted)
        assert run.verify().ok


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.runs.create(objective="o", run_id="r", config={"ws_max_tokens": 100_000})
    return tmp_path / "agent.db"


def test_two_processes_of_a_hundred_updates_each_keep_two_hundred(path: Path) -> None:
    assert apart(two_processes, path)
    kept(path, "ab", UPDATES)


def test_eight_threads_keep_every_update(path: Path) -> None:
    with strongroom.open(path) as ctx:
        run = ctx.runs.get("r")

        def work(name: str) -> None:
            for place in range(20):
                run.update_with(one_more(f"{name}{place}"))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    kept(path, "abcdefgh", 20)


def test_eight_tasks_keep_every_update(path: Path) -> None:
    async def main() -> None:
        async with strongroom.aopen(path) as ctx:
            run = await ctx.runs.get("r")

            async def work(name: str) -> None:
                for place in range(20):
                    await run.update_with(one_more(f"{name}{place}"))

            await asyncio.gather(*(work(name) for name in "abcdefgh"))

    asyncio.run(main())
    kept(path, "abcdefgh", 20)


def test_thirty_two_threads_record_without_a_retry(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with strongroom.open(path) as ctx:
        run, attempts = ctx.runs.get("r"), []
        commit = ctx.store.commit

        def counted(asked: Commit) -> Receipt:
            if any(isinstance(write, Append) for write in asked.writes):  # not the sums of usage, kept now and then
                attempts.append(asked.id)
            return commit(asked)

        monkeypatch.setattr(ctx.store, "commit", counted)

        def work(name: str) -> None:
            for place in range(10):
                run.record("TOOL_CALL", {"tool_name": f"{name}-{place}"})

        threads = [threading.Thread(target=work, args=(str(name),)) for name in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = run.events(limit=1000, types=["TOOL_CALL"])
        assert [event.sequence_id for event in told] == list(range(2, 322))
        assert len({event.payload["tool_name"] for event in told}) == 320
        assert run.verify().ok
        assert len(attempts) == 320


# ---- kill -9 --------------------------------------------------------------------------------------------------------


def work(path: Path, acknowledged: mmap.mmap, seed: int) -> None:
    """Do a bit of everything until killed; write down the last update that was acknowledged, and every step."""
    rng, pack = random.Random(seed), path.with_suffix(f".{seed}.zip")
    with strongroom.open(path) as ctx:
        run = ctx.runs.get("r")
        while True:
            acknowledged[8:16] = (int.from_bytes(acknowledged[8:16], "big") + 1).to_bytes(8, "big")
            what = rng.randrange(9)
            if what < 3:
                run.refresh()
                seq = run.update(next_action=f"{seed} {rng.random()}").seq
                acknowledged[:8] = seq.to_bytes(8, "big")
            elif what == 3:
                run.record("TOOL_CALL", {"tool_name": "t"})
            elif what == 4:
                batch = ctx.memories.propose([{**REQUEST, "content": f"{rng.random()}"}], proposer="a", run_id="r")
                run.milestone("m", memory_batch_id=batch.id, reviewer="ana")
            elif what == 5:
                run.attach(rng.randbytes(100), type="t")
                run.update_with(lambda ws: {"artifact_refs": ws.artifact_refs[-2:]})
            elif what == 6:
                run.export(pack)
                ctx.runs.restore(pack, run_id=f"copy-{rng.random()}").update(status="DONE")
            elif what == 7:
                ctx.runs.create(objective="o", run_id=f"made-{rng.random()}").update(status="DONE")
            else:
                for copy in ctx.runs.list(status="DONE", limit=3):
                    ctx.runs.erase(copy.id, reason="asked to")


def look(path: Path, acknowledged: int) -> None:
    """Check everything that is there, and that nothing acknowledged is lacking."""
    with strongroom.open(path) as ctx:
        assert ctx.runs.get("r").seq >= acknowledged
        agree(ctx)


def campaign(path: Path, kills: int, seed: int) -> int:
    """Kill a writer at a random instant, look whether everything agrees, go on; return the last acknowledged seq."""
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
    return int.from_bytes(acknowledged[:8], "big")


def test_a_writer_killed_at_random_instants_leaves_everything_in_agreement(path: Path) -> None:
    assert apart(campaign, path, max(10, KILLS // 10), SEED) > 0
