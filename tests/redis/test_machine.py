"""No sequence of commits and questions tells a Redis store from the one in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.linearizability.lockstep import run_in_lockstep


def test_redis_and_memory_run_in_lockstep(connect: Callable[..., Any], redis: str) -> None:
    run_in_lockstep(connect(redis))
