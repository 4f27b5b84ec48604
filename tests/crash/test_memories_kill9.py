"""Long-term memory under kill -9: a batch is wholly committed or pending, never half, never twice.

Two ways to choose the moment, as in `tests.faults.kill9`: just before or just after a single operation on the
disk of each verb, and at random instants while two workers go through the same batches. `STRONGROOM_KILLS` how many.
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

import strongroom
from strongroom.blocking import Context
from strongroom.services.memories.policy import Policy
from strongroom.store import Commit, new_id
from tests.cli.program import repeating
from tests.crash.memory_world import agree, batch
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import KILLS, SEED
from tests.faults.disk import Disk, Kind
from tests.hashed import hashing
from tests.services.memory_samples import mcr

OPERATIONS: tuple[Kind, ...] = ("open", "write", "truncate", "sync", "delete")
PATIENCE_SECONDS = 120.0


def nothing(ctx: Context) -> None:
    pass


class Verb(Struct, frozen=True):
    """What is there before, what is done, and what must be so once it has been done again after a crash."""

    setup: Callable[[Context], object]
    act: Callable[[Context], object]
    done: Callable[[Context], object]
    whole: Callable[[Context], object] = nothing


# ---- the verbs ------------------------------------------------------------------------------------------------------


def propose(ctx: Context) -> None:
    ctx.memories.propose([mcr(f"alpha {n}") for n in range(3)], proposer="agent-7", batch_id="b")


def proposed(ctx: Context) -> None:
    [waiting] = ctx.memories.pending()
    assert waiting.id == "b"
    assert len(waiting.proposals) == 3


def propose_under_an_id(ctx: Context) -> None:
    ctx.memories.propose([mcr(f"alpha {n}") for n in range(3)], proposer="agent-7", commit_id="turn-7")


def proposed_once(ctx: Context) -> None:
    [waiting] = ctx.memories.pending()
    assert len(waiting.proposals) == 3


def propose_at_once(ctx: Context) -> None:
    trusting = ctx.memories.using(policy=Policy(auto_commit=frozenset({"agent-7"})))
    trusting.propose([mcr(f"alpha {n}") for n in range(3)], proposer="agent-7", batch_id="b")


def known_at_once(ctx: Context) -> None:
    assert ctx.memories.batch("b").status == "committed"
    assert len(ctx.memories.list()) == 3


def stage_changes(ctx: Context) -> None:
    old = [mcr("alpha old", memory_id="mem_old"), mcr("alpha gone", memory_id="mem_gone")]
    ctx.memories.commit(ctx.memories.propose(old, proposer="agent-7").id, reviewer="ana")
    changes = [
        mcr("alpha one", memory_id="mem_one"),
        mcr("alpha new", memory_id="mem_new", op="supersede", supersedes=["mem_old"]),
        mcr("alpha gone", op="deprecate", target_memory_id="mem_gone"),
    ]
    ctx.memories.propose(changes, proposer="agent-7", batch_id="b")


def commit(ctx: Context) -> None:
    assert ctx.memories.commit("b", reviewer="ana") == ctx.memories.commit("b", reviewer="ben")


def commit_in_two_steps(ctx: Context, id: str = "b") -> None:
    plan = ctx.memories.batch_writes(id, reviewer="ana")
    if plan.writes:
        ctx.store.commit(Commit(new_id(), plan.expects, plan.writes[:1]))
        ctx.store.commit(Commit(new_id(), (), plan.writes[1:]))


def changed_or_not(ctx: Context) -> None:
    active = {memory.id for memory in ctx.memories.list()}
    assert active == ({"mem_one", "mem_new"} if _status(ctx) == "committed" else {"mem_old", "mem_gone"})


def committed(ctx: Context) -> None:
    assert _status(ctx) == "committed"
    assert ctx.memories.get("mem_old").superseded_by == "mem_new"


def reject(ctx: Context) -> None:
    ctx.memories.reject("b", reason="hearsay", reviewer="ben")


def rejected(ctx: Context) -> None:
    assert _status(ctx) == "rejected"


def make_chain(ctx: Context) -> None:
    chain = [
        mcr("alpha one", memory_id="mem_0", source_refs=["feed"]),
        mcr("alpha two", memory_id="mem_1", source_refs=["mem_0"]),
        mcr("alpha three", memory_id="mem_2", source_refs=["mem_1"]),
        mcr("alpha four", memory_id="mem_3"),
    ]
    ctx.memories.commit(ctx.memories.propose(chain, proposer="agent-7").id, reviewer="ana")


def revoke(ctx: Context) -> None:
    ctx.memories.revoke(source_ref="feed", by="ana")


def revoke_under_an_id(ctx: Context) -> None:
    first = ctx.memories.revoke(source_ref="feed", by="ana", commit_id="turn-7")
    assert ctx.memories.revoke(source_ref="feed", by="ana", commit_id="turn-7") == first


def all_or_nothing(ctx: Context) -> None:
    hits = sorted(hit.memory.id for hit in ctx.memories.search("alpha", k=100))
    assert hits in (["mem_0", "mem_1", "mem_2", "mem_3"], ["mem_3"])


def revoked(ctx: Context) -> None:
    assert [memory.id for memory in ctx.memories.list()] == ["mem_3"]
    assert ctx.memories.revoke(source_ref="feed").memories == 3


def index_chain(ctx: Context) -> None:
    make_chain(ctx)
    ctx.memories.using(embedder=hashing()).index()


def reembed(ctx: Context) -> None:
    ctx.memories.using(embedder=hashing()).reembed(hashing(revision="2"))


def reembedded(ctx: Context) -> None:
    hits = ctx.memories.using(embedder=hashing(revision="2")).search("alpha one", mode="vector")
    assert hits[0].memory.id == "mem_0"


def say_things(ctx: Context) -> None:
    session = ctx.sessions.open("s1", user_id="u1")
    session.append([{"role": "user", "content": f"alpha {n}"} for n in range(3)])


def learn(ctx: Context) -> None:
    while ctx.memories.learn("s1", model=repeating, limit=2).left:
        pass


def learnt_or_not(ctx: Context) -> None:
    proposed = [one.request.content for waiting in ctx.memories.pending() for one in waiting.proposals]
    assert sorted(proposed) == [f"alpha {n}" for n in range(len(proposed))]
    assert len(proposed) in (0, 2, 3)


def learnt(ctx: Context) -> None:
    assert sum(len(waiting.proposals) for waiting in ctx.memories.pending()) == 3


def _status(ctx: Context) -> str:
    found = batch(ctx, "b")
    return found.status if found else ""


VERBS = {
    "propose": Verb(nothing, propose, proposed),
    "propose under an id": Verb(nothing, propose_under_an_id, proposed_once),
    "propose and commit at once": Verb(nothing, propose_at_once, known_at_once),
    "commit": Verb(stage_changes, commit, committed, changed_or_not),
    "reject": Verb(stage_changes, reject, rejected, changed_or_not),
    "revoke": Verb(make_chain, revoke, revoked, all_or_nothing),
    "revoke under an id": Verb(make_chain, revoke_under_an_id, revoked, all_or_nothing),
    "reembed": Verb(index_chain, reembed, reembedded),
    "learn": Verb(say_things, learn, learnt, learnt_or_not),
    "commit in two steps": Verb(stage_changes, commit_in_two_steps, committed, changed_or_not),
}


# ---- before and after each operation --------------------------------------------------------------------------------


def sweep(folder: Path, name: str, kills: int, seed: int) -> int:
    """Kill a process before or after single operations of a verb: each one if `kills` allows, else some of them."""
    verb, template = VERBS[name], folder / "template.db"
    with strongroom.open(template) as ctx:
        verb.setup(ctx)
    count = mmap.mmap(-1, 8)
    assert ended_well(forked(_act, _copied(template, folder / "counted.db"), verb, None, count))
    moments = [(nth, after) for nth in range(1, int.from_bytes(count[:8], "big") + 1) for after in (False, True)]
    random.Random(seed).shuffle(moments)
    for nth, after in moments[:kills]:
        path = _copied(template, folder / f"{nth}-{after}.db")
        _, status = os.waitpid(forked(_act, path, verb, (nth, after), count), 0)
        assert os.WIFSIGNALED(status), f"{name}: operation {nth} was never reached"
        with strongroom.open(path) as ctx:
            agree(ctx)
            verb.whole(ctx)
            verb.act(ctx)
            agree(ctx)
            verb.done(ctx)
        for file in folder.glob(f"{path.name}*"):
            file.unlink()
    return len(moments[:kills])


def _act(path: Path, verb: Verb, moment: tuple[int, bool] | None, count: mmap.mmap) -> None:
    with Disk(path) as disk, strongroom.open(path) as ctx:
        before = disk.count(*OPERATIONS)
        if moment is not None:
            disk.kill(*OPERATIONS, nth=moment[0], after=moment[1])
        verb.act(ctx)
        count[:8] = (disk.count(*OPERATIONS) - before).to_bytes(8, "big")


def _copied(template: Path, path: Path) -> Path:
    for file in template.parent.glob(f"{template.name}*"):
        shutil.copy(file, str(path) + file.name.removeprefix(template.name))
    return path


@pytest.mark.parametrize("name", [name for name in VERBS if name != "commit in two steps"])
def test_a_kill_before_or_after_any_operation_leaves_it_undone_or_whole(fast_folder: Path, name: str) -> None:
    assert apart(sweep, fast_folder, name, KILLS // 10, SEED) >= min(20, KILLS // 10)


def test_the_sweep_catches_a_commit_in_two_steps(fast_folder: Path) -> None:
    with pytest.raises(AssertionError, match="'b', 'committed'"):
        apart(sweep, fast_folder, "commit in two steps", 1_000, SEED)


# ---- at random instants ---------------------------------------------------------------------------------------------

PROPOSED, REJECTED, COMMITTED, REVOKED = 1, 2, 3, 4
BATCHES = 400


def work(path: Path, told: mmap.mmap, start: int, committing: Callable[[Context, str], object]) -> None:
    """Go through the batches from `start`, writing down the last thing that was acknowledged of each."""
    with strongroom.open(path) as ctx:
        for n in range(start, BATCHES):
            id, source = f"b{n}", f"feed-{n}"
            requests = [
                mcr(f"alpha {n}", memory_id=f"mem_{n}_0", source_refs=[source]),
                mcr(f"alpha also {n}", memory_id=f"mem_{n}_1", source_refs=[f"mem_{n}_0"]),
                mcr(f"alpha again {n // 4}", memory_id=f"mem_{n}_2"),
            ]
            ctx.memories.propose(requests, proposer="agent-7", batch_id=id)
            told[n] = max(told[n], PROPOSED)
            if n % 4 == 3:
                ctx.memories.reject(id, reason="hearsay")
                told[n] = REJECTED
                continue
            committing(ctx, id)
            told[n] = max(told[n], COMMITTED)
            if n % 4 == 1:
                ctx.memories.revoke(source_ref=source, by="ana")
                told[n] = REVOKED
            if n % 4 == 2:
                ctx.memories.reembed(hashing(revision=str(n)))


def look(path: Path, told: mmap.mmap) -> None:
    """Check that everything agrees, and that what was acknowledged is so."""
    with strongroom.open(path) as ctx:
        memories = agree(ctx)
        for n in range(BATCHES):
            found = batch(ctx, f"b{n}")
            if found is None:
                assert told[n] == 0, f"b{n} was acknowledged and is gone"
                continue
            assert told[n] != REJECTED or found.status == "rejected"
            assert told[n] not in (COMMITTED, REVOKED) or found.status == "committed"
            if told[n] == REVOKED:
                assert {memories[f"mem_{n}_{k}"].status for k in (0, 1)} == {"revoked"}


def committing(ctx: Context, id: str) -> None:
    ctx.memories.commit(id, reviewer="ana")


def campaign(
    folder: Path, kills: int, seed: int, workers: int = 2, commit: Callable[[Context, str], object] = committing
) -> int:
    """Let workers go through the same batches and kill them at random instants, again and again."""
    rng, done, acknowledged = random.Random(seed), 0, 0
    while done < kills:
        path, told = folder / f"{done}.db", mmap.mmap(-1, BATCHES)
        while done < kills and not told[BATCHES // 4]:
            start = max(0, len(told[:].rstrip(b"\0")) - 2)
            crew = [forked(work, path, told, start, commit) for _ in range(workers)]
            for worker in crew:
                _kill(worker, told, rng)
            done += workers
            assert ended_well(forked(look, path, told)), f"broken after {done} kills"
        acknowledged += len(told[:].rstrip(b"\0"))
    return acknowledged


def _kill(worker: int, told: mmap.mmap, rng: random.Random) -> None:
    """Kill a worker a little after some more was acknowledged, to it or to the others."""
    steps, before, deadline = rng.randrange(8), sum(told[:]), time.monotonic() + PATIENCE_SECONDS
    while sum(told[:]) < before + steps and time.monotonic() < deadline:
        assert os.waitpid(worker, os.WNOHANG) == (0, 0), "a worker ended by itself; see its error above"
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, 0.02))
    os.kill(worker, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(worker, 0)[1]), "a worker ended by itself; see its error above"


def test_two_workers_killed_at_random_instants_leave_everything_whole(fast_folder: Path) -> None:
    assert apart(campaign, fast_folder, max(20, KILLS // 5), SEED) > 0


def test_the_campaign_catches_a_commit_in_two_steps(fast_folder: Path) -> None:
    with pytest.raises(AssertionError, match="broken after"):
        apart(campaign, fast_folder, 2_000, SEED, 1, commit_in_two_steps)
