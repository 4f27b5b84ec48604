"""Batches that were proposed here a moment ago. Whoever commits one next need not read it again: the commit expects the
version it was proposed at, and is refused if anything became of it meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from holdfast.services.memories.values import Batch

MOST = 16
LARGEST_BYTES = 64 * 1024


class Known(NamedTuple):
    """A batch, and the version of its document."""

    batch: Batch
    version: int


class Fresh:
    """The last few of them. What is kept is bounded, in number and in size."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Known] = OrderedDict()

    def keep(self, known: Known, size: int) -> None:
        """Remember a batch whose document takes `size` bytes."""
        if size <= LARGEST_BYTES:
            self._kept[known.batch.id] = known
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)

    def take(self, batch_id: str) -> Known | None:
        """Return what is known of a batch, and forget it: it is worth one attempt."""
        return self._kept.pop(batch_id, None)
