"""A vector index that is watched: whether it answers, and how much of each space's log it has taken in.

What it had taken in is remembered while it is away, so that it can be told how much waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from strongroom.embedders import Fingerprint
from strongroom.embedders.health import Health
from strongroom.vectors import Row, Vector, VectorIndex


class WatchedVectors:
    """Any index, asked as before; `health` says how that went, `reached` how far it is in the log of a space."""

    def __init__(self, index: VectorIndex) -> None:
        self.watched = index
        self.health = Health()
        self.reached: dict[str, int] = {}

    @classmethod
    def of(cls, index: VectorIndex) -> WatchedVectors:
        """Watch an index, unless it is watched already."""
        return index if isinstance(index, cls) else cls(index)

    @property
    def kind(self) -> str:
        """What sort of index it is, for people."""
        return str(getattr(self.watched, "kind", type(self.watched).__name__))

    def open(self, space: str, fingerprint: Fingerprint) -> int:
        with self.health.noted():
            self.reached[space] = self.watched.open(space, fingerprint)
        return self.reached[space]

    def apply(self, space: str, start: int, stop: int, rows: Sequence[Row], removed: Sequence[str]) -> None:
        with self.health.noted():
            self.watched.apply(space, start, stop, rows, removed)
        self.reached[space] = stop

    def search(self, space: str, vector: Vector, limit: int, owners: Sequence[str]) -> list[tuple[str, float]]:
        with self.health.noted():
            return self.watched.search(space, vector, limit, owners)

    def rebuild(self, space: str, fingerprint: Fingerprint) -> None:
        with self.health.noted():
            self.watched.rebuild(space, fingerprint)
        self.reached[space] = 0
