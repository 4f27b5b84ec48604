"""An approximate index for many vectors: usearch's HNSW graph, built in the background and kept in a file.

The graph only proposes candidates. Whoever asks scores them again with the true vectors, so a stale or foreign file
can cost recall, never give a wrong score. Keys are 64 bits of a hash of the memory's id, so that a file written by one
process fits the next, whatever order it loads the memories in.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strongroom.embedders import Fingerprint
from strongroom.errors import Unavailable
from strongroom.vectors import Vector

# Half the expansion found 97.6 % of the ten nearest among 100,000 texts: too near to the 97 % we want to keep.
CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 16, 128, 256
CHUNK = 1_000


def key_of(id: str) -> int:
    return int.from_bytes(sha256(id.encode()).digest()[:8], "big")


class Graph:
    """A graph over rows of unit vectors. Safe to search while it is added to."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def empty(cls, dimension: int) -> Graph:
        return cls(_make(dimension))

    @classmethod
    def load(cls, path: Path, dimension: int) -> Graph:
        """Return the graph kept in a file, or an empty one if there is none, or none that can be read.

        The checksum is looked at first: native code that follows damaged links would take the process down.
        """
        index = _make(dimension)
        try:
            raw = path.read_bytes()
        except OSError:
            return cls(index)
        if len(raw) > 32 and sha256(raw[32:]).digest() == raw[:32]:
            index.load(raw[32:])
        return cls(index)

    def __len__(self) -> int:
        return len(self._index)

    def add(self, key: int, vector: Vector) -> None:
        if key not in self._index:
            self._index.add(key, vector, copy=True)

    def remove(self, key: int) -> None:
        if key in self._index:
            self._index.remove(key)

    def nearest(self, vector: Vector, limit: int) -> list[int]:
        """Return about the `limit` nearest keys."""
        found = self._index.search(vector, min(limit, max(1, len(self._index))))
        return [int(key) for key in found.keys]

    def reconcile(self, wanted: Mapping[int, int], matrix: NDArray[np.float32], stopped: Callable[[], bool]) -> None:
        """Make the graph hold exactly the wanted keys, each at its row of the matrix. Stop early if told to."""
        present = {int(key) for key in np.asarray(self._index.keys)} if len(self._index) else set()
        for key in present - wanted.keys():
            self._index.remove(key)
        missing = [key for key in wanted if key not in present]
        for start in range(0, len(missing), CHUNK):
            if stopped():
                return
            part = missing[start : start + CHUNK]
            self._index.add(np.array(part, np.uint64), matrix[[wanted[key] for key in part]], threads=1)

    def save(self, path: Path) -> None:
        """Write the graph beside the file, then exchange them: a reader finds the old one or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            raw = bytes(self._index.save())
            beside.write_bytes(sha256(raw).digest() + raw)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def file_in(folder: Path, space: str, fingerprint: Fingerprint) -> Path:
    """Return where the graph of a space and an embedder is kept. Another embedder has another file."""
    parts = (space, fingerprint.name, fingerprint.revision, str(fingerprint.dimension))
    return folder / (sha256("\0".join(parts).encode()).hexdigest()[:32] + ".usearch")


def _make(dimension: int) -> Any:
    try:
        from usearch.index import Index
    except ImportError:
        raise Unavailable("usearch is not installed; pip install 'strongroom[ann]'", reason="missing") from None
    return Index(
        ndim=dimension,
        metric="ip",
        dtype="f32",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
    )
