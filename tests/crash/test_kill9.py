"""kill -9 at any instant: nothing acknowledged is lost, nothing is half there, a repeat is applied once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.broken import Forgetful, Halving, Hasty
from tests.crash.processes import apart
from tests.crash.scale import KILLS, SEED
from tests.faults.checks import Broken, Checkpointing
from tests.faults.kill9 import campaign, sweep


def test_a_writer_killed_at_random_instants_loses_nothing_it_was_told(path: Path) -> None:
    report = apart(campaign, path, kills=KILLS, seed=SEED)
    assert report.kills == KILLS
    assert report.commits > KILLS // 4  # about half of the kills wait for a commit first


def test_killing_one_of_eight_processes_neither_stops_nor_harms_the_others(path: Path) -> None:
    report = apart(campaign, path, kills=max(20, KILLS // 10), writers=8, seed=SEED)
    assert report.commits > report.kills * 7  # each kill waited for a commit of each of the seven others


def test_a_writer_killed_before_and_after_each_single_operation_loses_nothing(fast_folder: Path) -> None:
    report = apart(sweep, fast_folder)
    assert report.kills > 100


BROKEN = [(Hasty, "were acknowledged"), (Halving, "half a commit"), (Forgetful, "got the receipt|are there")]


@pytest.mark.parametrize(("make", "complaint"), BROKEN)
def test_the_campaign_catches_a_broken_store(path: Path, make: type[Checkpointing], complaint: str) -> None:
    with pytest.raises(Broken, match=complaint):
        apart(campaign, path, kills=2000, seed=SEED, make=make)


@pytest.mark.parametrize(("make", "complaint"), BROKEN)
def test_the_campaign_of_eight_processes_catches_a_broken_store(
    path: Path, make: type[Checkpointing], complaint: str
) -> None:
    with pytest.raises(Broken, match=complaint):
        apart(campaign, path, kills=2000, writers=8, seed=SEED, make=make)


@pytest.mark.parametrize(("make", "complaint"), BROKEN)
def test_the_sweep_catches_a_broken_store(fast_folder: Path, make: type[Checkpointing], complaint: str) -> None:
    with pytest.raises(Broken, match=complaint):
        apart(sweep, fast_folder, commits=2, make=make)
