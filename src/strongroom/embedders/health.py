"""Whether a service that vectors depend on answers: since when it does not, and what it says.

Nobody asks it for that alone. Whoever uses the service notes how it went, so what is told is what the last one saw: an
outage that nobody has run into yet is not known. Shared by all who use the same embedder or index in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from msgspec import Struct

from strongroom.errors import InvalidInput, Unavailable

MAX_ERROR_CHARS = 300


class Failing(Struct, frozen=True):
    """Since when something has failed each time, and what it said last."""

    since: datetime
    error: str


class Health:
    """How the last use went."""

    def __init__(self) -> None:
        self.failing: Failing | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note how a use goes. One that is interrupted says nothing about the service."""
        try:
            yield
        except (Unavailable, InvalidInput) as problem:
            before = self.failing
            since = datetime.now(UTC) if before is None else before.since
            self.failing = Failing(since, str(problem)[:MAX_ERROR_CHARS])
            raise
        self.failing = None
