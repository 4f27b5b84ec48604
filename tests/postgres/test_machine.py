"""No sequence of commits and questions tells a Postgres store from the one in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.linearizability.lockstep import run_in_lockstep

# The pool draws jitter in threads of its own, which may well be while Hypothesis draws.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")


def test_postgres_and_memory_run_in_lockstep(connect: Callable[..., Any], postgres: str) -> None:
    run_in_lockstep(connect(postgres))
