"""The default vector index: exact, in this process's memory, and approximate above a size.

All vectors stand in one float32 matrix. A search is a matrix-vector product over the rows its caller may see; up to
`exact_up_to` rows that is both the simplest and a fast enough way. Above that an HNSW graph (extra `ann`) is built by
a background thread (`strongroom.vectors.graph`); until it is ready, and wherever the caller sees few rows, the exact
way answers. Candidates of the graph are scored again with the matrix, so both ways give the same numbers.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from strongroom.embedders import Fingerprint
from strongroom.errors import InvalidInput
from strongroom.vectors import Row, Vector
from strongroom.vectors.graph import Graph, file_in, key_of

logger = logging.getLogger("strongroom.vectors")

EXACT_UP_TO = 50_000
TIE = 1e-6
N = TypeVar("N", bound=np.generic)

_shutdown = threading.Event()
_builders: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """Stop the builders first: native code must not run while the interpreter is taken down around it."""
    _shutdown.set()
    for thread in list(_builders):
        thread.join()


class LocalVectors:
    """Vectors in memory. One index serves one space. With a `folder`, the graph survives the process."""

    kind = "local"

    def __init__(self, *, exact_up_to: int = EXACT_UP_TO, folder: str | os.PathLike[str] | None = None) -> None:
        self._lock = threading.Lock()
        self._exact_up_to = exact_up_to
        self._folder = None if folder is None else Path(folder)
        self._builder: threading.Thread | None = None
        self._space: str | None = None
        self._fingerprint: Fingerprint | None = None
        self._generation = 0
        self._graph: Graph | None = None
        self._position = 0
        self._count = 0
        self._clear(0)

    def open(self, space: str, fingerprint: Fingerprint) -> int:
        with self._lock:
            if self._space is None:
                self._space, self._fingerprint = space, fingerprint
                self._clear(fingerprint.dimension)
            if self._space != space:
                raise InvalidInput(f"this index serves space {self._space!r}, not {space!r}; make one for each")
            if self._fingerprint != fingerprint:
                # Another process re-embedded the space, and our caller has followed: start over.
                self._fingerprint = fingerprint
                self._clear(fingerprint.dimension)
            return self._position

    def rebuild(self, space: str, fingerprint: Fingerprint) -> None:
        with self._lock:
            self._space, self._fingerprint = space, fingerprint
            self._clear(fingerprint.dimension)

    def apply(self, space: str, start: int, stop: int, rows: Sequence[Row], removed: Sequence[str]) -> None:
        with self._lock:
            if start != self._position or space != self._space:
                return
            for id in removed:
                self._remove(id)
            self._add([row for row in rows if row.id not in self._places])
            self._position = stop
            if self._count > 1024 and self._count > 2 * len(self._places):
                self._compact()
            self._build_if_large()

    def search(self, space: str, vector: Vector, limit: int, owners: Sequence[str]) -> list[tuple[str, float]]:
        with self._lock:
            if space != self._space or vector.shape != (self._matrix.shape[1],):
                return []
            codes = [self._codes[owner] for owner in owners if owner in self._codes]
            matrix, owned, ids = self._matrix[: self._count], self._owned[: self._count], self._ids
            visible = sum(self._populations[code] for code in codes)
            places = self._by_graph(vector, limit, codes, visible) if visible > self._exact_up_to else None
        if places is not None:
            return nearest(matrix, places, ids, vector, limit)
        return nearest(matrix, _seen(owned, codes), ids, vector, limit)

    def settle(self) -> None:
        """Wait until a graph that is being built in the background is ready, or found to be impossible."""
        builder = self._builder
        if builder is not None:
            builder.join()

    # ---- the graph --------------------------------------------------------------------------------------------------

    def _by_graph(self, vector: Vector, limit: int, codes: Sequence[int], visible: int) -> NDArray[np.int64] | None:
        """Return candidate rows of these owners, or None while there is no graph."""
        wanted = 2 * limit
        while self._graph is not None:
            keys = self._graph.nearest(vector, wanted)
            places = [self._by_key[key] for key in keys if key in self._by_key]
            ours = [place for place in places if self._owned[place] in codes]
            # Others' rows may crowd the neighbourhood: ask for more until enough of ours are among them.
            if len(ours) >= min(limit, visible) or wanted >= len(self._graph):
                return np.array(ours, np.int64)
            wanted *= 4
        return None

    def _build_if_large(self) -> None:
        large = len(self._places) > self._exact_up_to
        if large and self._graph is None and self._builder is None and find_spec("usearch") is not None:
            self._builder = threading.Thread(target=self._build, args=(self._generation,), daemon=True)
            _builders.add(self._builder)
            self._builder.start()

    def _build(self, generation: int) -> None:
        """Build the graph beside the searches, then take in what changed meanwhile and start using it."""
        with self._lock:
            assert self._space is not None and self._fingerprint is not None
            space, fingerprint, matrix = self._space, self._fingerprint, self._matrix
            wanted = dict(self._by_key)
        path = None if self._folder is None else file_in(self._folder, space, fingerprint)

        def stopped() -> bool:
            return self._generation != generation or _shutdown.is_set()

        try:
            graph = Graph.load(path, fingerprint.dimension) if path else Graph.empty(fingerprint.dimension)
            graph.reconcile(wanted, matrix, stopped)
            if path is not None and not stopped():
                _kept(graph, path)
            with self._lock:
                if not stopped():
                    graph.reconcile(self._by_key, self._matrix, stopped)
                    self._graph = graph
        finally:
            self._builder = None  # so that what failed is tried again with the next change

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _clear(self, dimension: int) -> None:
        self._generation += 1
        self._graph = None
        self._position = 0
        self._count = 0
        self._populations: list[int] = []
        self._by_key: dict[int, int] = {}
        self._matrix: NDArray[np.float32] = np.zeros((0, dimension), np.float32)
        # The owner of each row as a small number; -1 once the memory is gone.
        self._owned: NDArray[np.int32] = np.zeros(0, np.int32)
        self._codes: dict[str, int] = {}
        self._ids: list[str] = []
        self._places: dict[str, int] = {}

    def _add(self, rows: Sequence[Row]) -> None:
        needed = self._count + len(rows)
        if needed > len(self._matrix):
            # A new array, not a resized one: a search under way keeps reading the old one.
            size = max(1024, 2 * needed)
            self._matrix = _grown(self._matrix, self._count, size)
            self._owned = _grown(self._owned, self._count, size)
        for row in rows:
            place = self._count
            self._matrix[place] = row.vector
            code = self._codes.setdefault(row.owner, len(self._codes))
            if code == len(self._populations):
                self._populations.append(0)
            self._populations[code] += 1
            self._owned[place] = code
            self._ids.append(row.id)
            self._places[row.id] = place
            key = key_of(row.id)
            self._by_key[key] = place
            if self._graph is not None:
                self._graph.add(key, row.vector)
            self._count += 1

    def _compact(self) -> None:
        """Leave out the rows of memories that are gone, once they are the majority."""
        kept = np.flatnonzero(self._owned[: self._count] >= 0)
        self._matrix, self._owned = self._matrix[kept], self._owned[kept]
        self._ids = [self._ids[place] for place in kept.tolist()]
        self._count = len(self._ids)
        self._places = {id: place for place, id in enumerate(self._ids)}
        self._by_key = {key_of(id): place for id, place in self._places.items()}

    def _remove(self, id: str) -> None:
        place = self._places.pop(id, None)
        if place is not None:
            self._populations[self._owned[place]] -= 1
            self._owned[place] = -1
            key = key_of(id)
            self._by_key.pop(key, None)
            if self._graph is not None:
                self._graph.remove(key)


def nearest(
    matrix: NDArray[np.float32], places: NDArray[np.int64] | None, ids: Sequence[str], vector: Vector, limit: int
) -> list[tuple[str, float]]:
    """Return the nearest of these rows (None: of all), best first, equal ones by id."""
    if places is None:
        scores = matrix @ vector
    elif 4 * len(places) < len(matrix):
        scores = matrix[places] @ vector
    else:
        scores = (matrix @ vector)[places]
    chosen = np.arange(len(scores))
    if len(scores) > limit:
        # Whatever ties with the last one is kept until the ids have decided. The product of equal rows differs by a
        # few bits with where they stand in the matrix, so a tie is what is equal to six digits.
        edge = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        chosen = np.flatnonzero(scores >= edge - TIE)
    rows = chosen if places is None else places[chosen]
    found = [(ids[row], round(score, 6)) for row, score in zip(rows.tolist(), scores[chosen].tolist(), strict=True)]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]


def _kept(graph: Graph, path: Path) -> None:
    """Keep a graph for the next process if that can be done: this one has it."""
    try:
        graph.save(path)
    except OSError as problem:
        logger.warning("the graph of vectors is not kept in %s: %s; the next process builds it again", path, problem)


def _seen(owned: NDArray[np.int32], codes: Sequence[int]) -> NDArray[np.int64] | None:
    """Return the rows of these owners, or None if that is all of them."""
    seen = np.zeros(len(owned), np.bool_)
    for code in codes:
        seen |= owned == code
    return None if seen.all() else np.flatnonzero(seen)


def _grown(array: NDArray[N], count: int, size: int) -> NDArray[N]:
    grown = np.zeros((size, *array.shape[1:]), array.dtype)
    grown[:count] = array[:count]
    return grown
