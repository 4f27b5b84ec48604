"""How many of the truly nearest the approximate index finds. `STRONGROOM_VECTORS` says among how many (2,000)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from strongroom.embedders import Fingerprint, unit
from strongroom.vectors import Row, Vector
from strongroom.vectors.graph import Graph
from strongroom.vectors.local import LocalVectors

COUNT = int(os.environ.get("STRONGROOM_VECTORS", "2000"))
WIDTH, QUERIES, NEAREST = 384, 200, 10
PRINT = Fingerprint("recall", "1", WIDTH)


def texts(count: int, seed: int) -> Vector:
    """Return what a bag of words gives for texts of twelve words: of a topic, or frequent everywhere.

    Noise without any structure would be no test: there everything is equally far from everything else, and which ten
    are nearest means nothing.
    """
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(0).standard_normal((5_000, WIDTH), dtype=np.float32)
    vectors = np.zeros((count, WIDTH), np.float32)
    topics = rng.integers(0, 500, count)
    for _ in range(12):
        frequent = (rng.pareto(1.0, count) * 20).astype(np.int64) % len(directions)
        own = (topics * 37 + rng.integers(0, 30, count)) % len(directions)
        vectors += directions[np.where(rng.random(count) < 0.6, own, frequent)]
    return unit(vectors)


def opened(folder: Path, vectors: Vector) -> LocalVectors:
    index = LocalVectors(exact_up_to=0, folder=folder)
    index.open("acme", PRINT)
    index.apply("acme", 0, 1, [Row(str(place), "-", vector) for place, vector in enumerate(vectors)], [])
    index.settle()
    assert index._graph is not None
    return index


def recall(index: LocalVectors, vectors: Vector, gone: int = 0) -> float:
    """Return the share of the ten nearest that are found, when the first `gone` are not there any more."""
    found = 0
    for query in texts(QUERIES, seed=2):
        scores = vectors @ query
        scores[:gone] = -2
        wanted = {str(place) for place in np.argpartition(-scores, NEAREST)[:NEAREST]}
        found += len(wanted & {id for id, _ in index.search("acme", query, NEAREST, ["-"])})
    return found / (QUERIES * NEAREST)


@pytest.fixture(scope="module")
def vectors() -> Vector:
    return texts(COUNT, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graph")


@pytest.fixture(scope="module")
def built(folder: Path, vectors: Vector) -> LocalVectors:
    return opened(folder, vectors)


def test_a_graph_finds_97_of_100_nearest(built: LocalVectors, vectors: Vector) -> None:
    assert recall(built, vectors) >= 0.97


def test_a_graph_read_from_its_file_finds_them_too(built: LocalVectors, folder: Path, vectors: Vector) -> None:
    assert recall(opened(folder, vectors), vectors) >= 0.97


def test_a_graph_that_lost_a_tenth_of_its_vectors_finds_the_others(
    built: LocalVectors, folder: Path, vectors: Vector
) -> None:
    index, gone = opened(folder, vectors), COUNT // 10
    index.apply("acme", 1, 2, [], [str(place) for place in range(gone)])
    assert recall(index, vectors, gone) >= 0.97


def test_the_measure_sees_a_graph_that_overlooks_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Graph.nearest
    monkeypatch.setattr(Graph, "nearest", lambda self, vector, limit: whole(self, vector, limit)[1:])
    vectors = texts(1_000, seed=1)
    assert recall(opened(tmp_path, vectors), vectors) < 0.97
