"""What was seen of batches a moment ago, so that it need not be read again.

Whoever commits a batch where it was proposed commits what is remembered of it: the commit expects the version it was
proposed at, and is refused if anything became of it meanwhile. And whoever proposes goes by the number of decided
batches that was counted last: it only grows, so by an old one a proposer has less room than there is, never more. A
refusal never follows from memory: before it, the store is asked.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple
from weakref import WeakKeyDictionary

from strongroom.scope import Scope
from strongroom.services.memories.values import Batch
from strongroom.store import AsyncStore

MOST = 16
LARGEST_BYTES = 64 * 1024
MOST_PROPOSERS = 256


class Known(NamedTuple):
    """A batch, and the version of its document."""

    batch: Batch
    version: int


class Kept:
    """The last few batches and proposers of a store. A server has a thousand spaces: they share the room there is."""

    def __init__(self) -> None:
        self.batches: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self.decided: OrderedDict[tuple[str, str], int] = OrderedDict()


_kept: WeakKeyDictionary[AsyncStore, Kept] = WeakKeyDictionary()


class Fresh:
    """What is kept of one space. Another space's batch of the same name is another batch."""

    def __init__(self, scope: Scope) -> None:
        self._space = scope.space
        self._kept = _kept.setdefault(scope.store, Kept())

    def keep(self, known: Known, size: int) -> None:
        """Remember a batch whose document takes `size` bytes."""
        if size <= LARGEST_BYTES:
            batches = self._kept.batches
            batches[self._space, known.batch.id] = known
            if len(batches) > MOST:
                batches.popitem(last=False)

    def take(self, batch_id: str) -> Known | None:
        """Return what is known of a batch, and forget it: it is worth one attempt."""
        return self._kept.batches.pop((self._space, batch_id), None)

    def count(self, proposer: str, decided: int) -> None:
        """Remember how many batches of a proposer have been decided."""
        numbers = self._kept.decided
        numbers[self._space, proposer] = decided
        if len(numbers) > MOST_PROPOSERS:
            numbers.popitem(last=False)

    def decided(self, proposer: str) -> int | None:
        """Return how many of them had been decided when they were last counted."""
        return self._kept.decided.get((self._space, proposer))

    def forget(self, proposer: str) -> None:
        """Let them be counted again."""
        self._kept.decided.pop((self._space, proposer), None)
