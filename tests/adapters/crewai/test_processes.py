"""Two processes at once through CrewAI's storage."""

from __future__ import annotations

import pytest

from strongroom.adapters.crewai import StrongroomStorage
from tests.adapters.processes import TURNS, both, lines_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the framework's own making


def test_two_processes_save_to_one_scope(address: str) -> None:
    both("records", address)
    with StrongroomStorage(address) as storage:
        kept = storage.list_records("/team", limit=10 * TURNS)
    assert len(kept) == 2 * TURNS and {one.content for one in kept} == lines_of()
    assert all(one.embedding is not None and len(one.embedding) == 2 for one in kept)
