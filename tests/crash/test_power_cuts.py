"""Power cuts with lost, torn and reordered writes: everything acknowledged is there, and the file is whole."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, committer, receipts, schema
from strongroom.store import ReceiptOf, ask
from tests.crash.broken import NeverSyncing, relaxed
from tests.crash.processes import apart, ended_well, forked
from tests.crash.scale import CUTS, SEED
from tests.faults.checks import SPACE, Broken, Checkpointing, check, repeat, step
from tests.faults.power import NAME, Image, Make, Recorder, Replay, Report, cut, lay_out, record, spread

WRITERS = 4


def _several(folder: Path, cuts: int, make: Make = Checkpointing) -> Report:
    replay = record(folder, writers=WRITERS, make=make)
    return cut(replay, spread(replay, cuts, seed=SEED), seed=SEED, make=make)


def _checkpointing(folder: Path, cuts: int, make: Make = Checkpointing) -> Report:
    """Cut the power only while the log is being copied into the database file."""
    replay = record(folder, writers=2, commits=30, make=make)
    moments = [at for at, (letter, part, *_) in enumerate(replay.events) if part == "" and letter in (b"W", b"T", b"S")]
    rng = random.Random(SEED)
    return cut(replay, sorted(rng.choices(moments, k=cuts)), seed=SEED, make=make)


def _compacting(folder: Path, cuts: int, make: Make = Checkpointing) -> Report:
    replay = record(folder, writers=2, commits=30, make=make, upkeep=SqliteStore.compact)
    return cut(replay, spread(replay, cuts, seed=SEED), seed=SEED, make=make)


def _creating(folder: Path, draws: int, make: Make = Checkpointing) -> Report:
    replay = record(folder, writers=2, commits=2, make=make)
    return cut(replay, range(len(replay.events) + 1), seed=SEED, draws=draws, make=make)


def _recovering(folder: Path, rounds: int, cuts: int, again: Make = Checkpointing) -> list[Report]:
    """Cut the power, and cut it again while the store is being opened and used again."""
    rng = random.Random(SEED)
    first = record(folder, writers=WRITERS)
    reports = []
    for position in spread(first, rounds, seed=SEED):
        first.advance(position)
        image = first.survivors(rng)
        found = _found(image, first.acknowledged)
        second = record(folder, writers=WRITERS, commits=3, base=image, start=found, make=again)
        reports.append(cut(second, spread(second, cuts, seed=SEED), seed=SEED, make=again))
    return reports


def _found(image: Image, acknowledged: list[int]) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        lay_out(folder, image)
        with SqliteStore(Path(folder) / NAME) as store:
            return check(store, acknowledged)


class Migrated(Checkpointing):
    """Fails if the file has the new number without what the migration makes, or with half of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        con = self._connect_to_read()
        try:
            missing: Any = con.execute(
                "SELECT count(*) FROM head LEFT JOIN newer USING (ref) WHERE newer.version IS NULL"
            ).fetchone()
        except apsw.SQLError as error:
            raise Broken(f"the new number without the new table: {error}") from error
        finally:
            con.close()
        if missing[0]:
            raise Broken(f"{missing[0]} rows were not migrated")


class MigratedWithoutSyncing(Migrated, NeverSyncing):
    pass


def _migrating(folder: Path, draws: int, *, make: Make = Migrated, atomic: bool = True) -> Report:
    """Upgrade a store to a format that does not exist yet, and cut the power at every moment of it."""
    with SqliteStore(folder / NAME) as store:
        for number in (1, 2, 3):
            store.commit(step(0, number))
    old = {"": (folder / NAME).read_bytes()}
    copy = "INSERT INTO newer SELECT ref, version FROM head; CREATE TRIGGER follow AFTER INSERT ON head BEGIN "
    copy += "INSERT INTO newer VALUES (new.ref, new.version); END"
    between = "" if atomic else f"PRAGMA user_version = {schema.FORMAT + 1}; COMMIT; BEGIN IMMEDIATE;"
    schema.MIGRATIONS[schema.FORMAT] = f"CREATE TABLE newer (ref, version); {between} {copy}"
    schema.FORMAT += 1
    replay = record(folder, writers=1, commits=1, base=old, start=[3], make=make)
    return cut(replay, range(len(replay.events) + 1), seed=SEED, draws=draws, make=make)


def _repeating(folder: Path, honest: bool, asking: bool) -> Report:
    """Kill a writer before its fsync, let another repeat the commit and be told "done", or ask for its receipt and be
    told that there is one; then cut the power."""
    path, log = folder / NAME, folder / "log"
    if not honest:
        receipts._TOUCH = "SELECT ?, ?"
        committer.stamp = lambda con: None  # type: ignore[attr-defined]

    def first() -> None:
        with Recorder(path, log) as disk, SqliteStore(path) as store:
            store.commit(step(0, 1))
            disk.kill("sync", part="-wal")
            store.commit(step(0, 2))

    def second() -> None:
        recorder = Recorder(path, log)
        with recorder:
            if asking:
                assert ask(SqliteStore(path), ReceiptOf(SPACE, step(0, 2).id)) is not None
            else:
                repeat(SqliteStore(path), 0, 2)
            recorder.acknowledge(0, 2)

    assert not ended_well(forked(first))
    assert ended_well(forked(second))
    replay = Replay(log.read_bytes())
    return cut(replay, [len(replay.events)], draws=40, seed=SEED)


def test_a_power_cut_while_several_processes_commit_and_checkpoint_loses_nothing(tmp_path: Path) -> None:
    report = apart(_several, tmp_path, CUTS)
    assert (report.cuts, report.lost, report.damaged) == (CUTS, 0, 0), report.example


def test_a_power_cut_during_a_checkpoint_loses_nothing(tmp_path: Path) -> None:
    report = apart(_checkpointing, tmp_path, max(200, CUTS // 10))
    assert (report.lost, report.damaged) == (0, 0), report.example


def test_a_power_cut_while_the_store_is_being_created_loses_nothing(tmp_path: Path) -> None:
    report = apart(_creating, tmp_path, max(2, CUTS // 1000))
    assert (report.lost, report.damaged) == (0, 0), report.example
    assert report.cuts > 100


def test_a_second_power_cut_during_recovery_loses_nothing(tmp_path: Path) -> None:
    for report in apart(_recovering, tmp_path, max(4, CUTS // 500), 60):
        assert (report.cuts, report.lost, report.damaged) == (60, 0, 0), report.example


def test_a_power_cut_while_the_file_is_being_compacted_loses_nothing(tmp_path: Path) -> None:
    report = apart(_compacting, tmp_path, max(200, CUTS // 10))
    assert (report.lost, report.damaged) == (0, 0), report.example


def test_a_power_cut_during_a_migration_leaves_the_old_format_or_the_new_one(tmp_path: Path) -> None:
    report = apart(_migrating, tmp_path, max(2, CUTS // 1000))
    assert (report.lost, report.damaged) == (0, 0), report.example
    assert report.cuts > 50


@pytest.mark.parametrize("asking", [False, True], ids=["repeated", "asked for"])
def test_a_repeated_commit_is_durable_even_if_the_first_was_never_synced(tmp_path: Path, asking: bool) -> None:
    report = apart(_repeating, tmp_path, True, asking)
    assert (report.lost, report.damaged) == (0, 0), report.example


# ---- negative controls: the same checks on stores that are known to be wrong ----------------------------------------


def test_the_check_sees_that_relaxed_durability_may_lose_the_last_commits_but_stays_whole(tmp_path: Path) -> None:
    report = apart(_several, tmp_path, 200, relaxed)
    assert report.lost > 0
    assert report.damaged == 0


def test_the_check_sees_that_without_fsync_the_file_is_lost(tmp_path: Path) -> None:
    report = apart(_several, tmp_path, 200, NeverSyncing)
    assert report.lost > 0
    assert report.damaged > 0


@pytest.mark.parametrize(("moment", "count"), [(_checkpointing, 60), (_compacting, 60), (_creating, 1)])
def test_without_fsync_the_same_cuts_do_harm(tmp_path: Path, moment: Callable[..., Report], count: int) -> None:
    report = apart(moment, tmp_path, count, NeverSyncing)
    assert report.lost + report.damaged > 0


def test_without_fsync_a_second_cut_during_recovery_does_harm(tmp_path: Path) -> None:
    reports = apart(_recovering, tmp_path, 2, 60, NeverSyncing)
    assert sum(report.lost + report.damaged for report in reports) > 0


def test_without_fsync_a_cut_during_a_migration_does_harm(tmp_path: Path) -> None:
    report = apart(_migrating, tmp_path, 2, make=MigratedWithoutSyncing)
    assert report.lost + report.damaged > 0


def test_the_check_sees_a_migration_that_is_not_one_transaction(tmp_path: Path) -> None:
    report = apart(_migrating, tmp_path, 2, atomic=False)
    assert report.damaged > 0
    assert report.lost == 0


@pytest.mark.parametrize("asking", [False, True], ids=["repeated", "asked for"])
def test_the_check_sees_a_repeat_that_is_acknowledged_without_fsync(tmp_path: Path, asking: bool) -> None:
    assert apart(_repeating, tmp_path, False, asking).lost > 0


@pytest.mark.parametrize("sector", [511, 512, 1024])
def test_a_torn_write_loses_whole_sectors_of_the_disk_only(sector: int) -> None:
    from tests.faults.power import _sectors

    data = bytes(range(256)) * 20
    pieces = list(_sectors(sector, data))
    assert b"".join(piece for _, piece in pieces) == data
    assert all(offset % 512 == 0 for offset, _ in pieces[1:])
    assert all((offset + len(piece)) % 512 == 0 for offset, piece in pieces[:-1])
