"""What was seen of batches a moment ago, so that it need not be read again.

Whoever commits a batch where it was proposed commits what is remembered of it: the commit expects the version it was
proposed at, and is refused if anything became of it meanwhile. And whoever proposes goes by the number of decided
batches that was counted last: it only grows, so by an old one a proposer has less room than there is, never more. A
refusal never follows from memory: before it, the store is asked.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from holdfast.services.memories.values import Batch

MOST = 16
LARGEST_BYTES = 64 * 1024
MOST_PROPOSERS = 256


class Known(NamedTuple):
    """A batch, and the version of its document."""

    batch: Batch
    version: int


class Fresh:
    """The last few batches and proposers. What is kept is bounded, in number and in size."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Known] = OrderedDict()
        self._decided: OrderedDict[str, int] = OrderedDict()

    def keep(self, known: Known, size: int) -> None:
        """Remember a batch whose document takes `size` bytes."""
        if size <= LARGEST_BYTES:
            self._kept[known.batch.id] = known
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)

    def take(self, batch_id: str) -> Known | None:
        """Return what is known of a batch, and forget it: it is worth one attempt."""
        return self._kept.pop(batch_id, None)

    def count(self, proposer: str, decided: int) -> None:
        """Remember how many batches of a proposer have been decided."""
        self._decided[proposer] = decided
        if len(self._decided) > MOST_PROPOSERS:
            self._decided.popitem(last=False)

    def decided(self, proposer: str) -> int | None:
        """Return how many of them had been decided when they were last counted."""
        return self._decided.get(proposer)

    def forget(self, proposer: str) -> None:
        """Let them be counted again."""
        self._decided.pop(proposer, None)
