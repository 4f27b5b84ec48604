"""Vector indexes: what one must do. They hold derived data only, and are never believed without a look at the store.

An index follows the log of a space: `open` says how far it has come, `apply` brings it further. All verbs block; the
caller decides which thread pays for it. An index that cannot be reached raises `Unavailable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from strongroom.embedders import Fingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"


class Row(Struct, frozen=True):
    """A memory's vector (of length 1), and the owner tag that decides who may find it."""

    id: str
    owner: str
    vector: Vector


class VectorIndex(Protocol):
    """An index of memories by meaning. Safe to share between threads.

    >>> ctx = strongroom.open("memory://")
    >>> from strongroom.vectors.local import LocalVectors
    >>> index: strongroom.VectorIndex = LocalVectors()
    >>> embedder = strongroom.Embedder(lambda texts: [[len(text), 1.0] for text in texts], name="lengths")
    >>> memories = ctx.memories.using(embedder=embedder, index=index)
    >>> _ = memories.add("likes tea", user_id="ana")
    >>> memories.search("a question", user_id="ana", mode="vector")[0].content
    'likes tea'
    """

    def open(self, space: str, fingerprint: Fingerprint) -> int:
        """Make ready for vectors of this embedder; return how much of the space's log is already in.

        Raise `InvalidInput` if vectors of another embedder are there.
        """
        ...

    def apply(self, space: str, start: int, stop: int, rows: Sequence[Row], removed: Sequence[str]) -> None:
        """Take in the changes of the log from `start` to `stop`. If `start` is not where it stands, do nothing."""
        ...

    def search(self, space: str, vector: Vector, limit: int, owners: Sequence[str]) -> list[tuple[str, float]]:
        """Return the nearest ids of these owners with their cosine, best first, equal ones by id."""
        ...

    def rebuild(self, space: str, fingerprint: Fingerprint) -> None:
        """Forget the space's vectors and make ready for those of another embedder."""
        ...
