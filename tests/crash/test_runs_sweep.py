"""A run's verbs, killed (-9) before and after every single operation on the disk: all of it is there, or none of it.

Each verb begins with a copy of the same store, in a process that dies at one operation. Then everything that is there
must agree, what was acknowledged must be there, and the same verb must lead to the same end as if nothing had happened.
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

import strongroom
from strongroom.backends.sqlite import SqliteStore
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import NotFound
from strongroom.scope import Scope
from strongroom.store import Store
from tests.crash.agreement import agree
from tests.crash.broken import Halving
from tests.crash.processes import apart, forked
from tests.crash.scale import KILLS, SEED
from tests.faults.disk import Disk
from tests.services.test_episodes import REQUEST

CANARY = "a canary that must be gone"
STRIDE = max(1, 800 // KILLS)  # every operation in the long campaign, some of them in the quick one


Make = Callable[[Path], Store]


class Verb(Struct, frozen=True):
    """Something to do to a store, and how to see that it was done."""

    act: Callable[[Context, Path], object]
    done: Callable[[Context], bool]
    repeatable: bool = False


def there(run_id: str) -> Callable[[Context], bool]:
    def look(ctx: Context) -> bool:
        try:
            return bool(ctx.runs.get(run_id))
        except NotFound:
            return False

    return look


VERBS = {
    "create": Verb(lambda ctx, pack: ctx.runs.create(objective="o", run_id="new"), there("new")),
    "update": Verb(
        lambda ctx, pack: ctx.runs.get("r").update(expected_seq=2, status="BUSY", append={"blockers": ["b"]}),
        lambda ctx: ctx.runs.get("r").seq == 3,
    ),
    "milestone": Verb(
        lambda ctx, pack: ctx.runs.get("r").milestone("second", memory_batch_id="batch", reviewer="ana"),
        lambda ctx: len(ctx.runs.get("r").episodes()) == 2,
    ),
    "restore": Verb(lambda ctx, pack: ctx.runs.restore(pack, run_id="copy"), there("copy")),
    "erase": Verb(
        lambda ctx, pack: ctx.runs.erase("r", reason="asked to"),
        lambda ctx: ctx.runs.get("r").working_set.objective == "(erased)",
        repeatable=True,  # and to be repeated: what was erased may have left traces in the file
    ),
}


def prepare(path: Path, pack: Path) -> None:
    with strongroom.open(path) as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        run.update(next_action=CANARY)
        run.attach(CANARY.encode() * 4, type="t")
        first = ctx.memories.propose([REQUEST], proposer="a", run_id="r")
        run.milestone("first", memory_batch_id=first.id, reviewer="ana")
        ctx.memories.propose([{**REQUEST, "content": "another"}], proposer="a", run_id="r", batch_id="batch")
        run.export(pack)


def die(make: Make, verb: Verb, path: Path, pack: Path, acknowledged: mmap.mmap, nth: int, after: bool) -> None:
    with Disk(path) as disk:
        disk.kill("open", "write", "truncate", "sync", "delete", nth=nth, after=after)
        with Context(AsyncContext(Scope(Inline(make(path))))) as ctx:
            verb.act(ctx, pack)
            acknowledged[0] = 1


def sweep(folder: Path, name: str, *, make: Make = SqliteStore, stride: int = STRIDE) -> int:
    """Kill a verb at one operation after another and look; return how often it was killed."""
    verb, first, pack = VERBS[name], folder / "first.db", folder / "pack.zip"
    prepare(first, pack)
    kills, rng = 0, random.Random(f"{SEED} {name}")
    for after in (False, True):
        nth, ended = 0, False
        while not ended:
            nth += rng.randint(1, stride)
            path, acknowledged = folder / f"{after}-{nth}.db", mmap.mmap(-1, 1)
            shutil.copy(first, path)
            _, status = os.waitpid(forked(die, make, verb, path, pack, acknowledged, nth, after), 0)
            ended = os.WIFEXITED(status)
            assert not ended or os.WEXITSTATUS(status) == 0, "it failed by itself; see its error above"
            with strongroom.open(path) as ctx:
                agree(ctx)
                assert verb.done(ctx) or not acknowledged[0], f"lost although acknowledged, operation {nth}"
                if verb.repeatable or not verb.done(ctx):
                    verb.act(ctx, pack)
                assert verb.done(ctx)
                agree(ctx)
                if name == "erase":
                    assert traces(path) == [], f"operation {nth}"
            for left in folder.glob(f"{path.name}*"):
                left.unlink()
            kills += not ended
    return kills


def traces(path: Path) -> list[str]:
    return [file.name for file in path.parent.glob(f"{path.name}*") if CANARY.encode() in file.read_bytes()]


@pytest.mark.parametrize("name", VERBS)
def test_killed_at_any_operation_a_verb_is_done_or_not_and_can_be_repeated(fast_folder: Path, name: str) -> None:
    assert apart(sweep, fast_folder, name) > 5


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("create", "verify"), ("update", "verify"), ("milestone", "tells of"), ("erase", "verify")],
)
def test_the_sweep_catches_a_store_that_splits_a_commit(fast_folder: Path, name: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        apart(sweep, fast_folder, name, make=Halving, stride=1)


def test_the_canary_is_really_there_before_it_is_erased(fast_folder: Path) -> None:
    prepare(fast_folder / "first.db", fast_folder / "pack.zip")
    assert traces(fast_folder / "first.db") == ["first.db"]
