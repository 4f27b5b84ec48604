"""No sequence of commits and questions tells a Postgres store from the one in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.linearizability.lockstep import run_in_lockstep


def test_postgres_and_memory_run_in_lockstep(connect: Callable[..., Any], postgres: str) -> None:
    run_in_lockstep(connect(postgres))
