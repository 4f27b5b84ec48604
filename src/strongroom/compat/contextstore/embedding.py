"""Embedding functions: any that turn texts into vectors, plain or async, functions or objects, lists or arrays."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from strongroom.embedders import offload
from strongroom.errors import InvalidInput

BATCH = 64

EmbedFn = Callable[[list[str]], list[list[float]]] | Callable[[list[str]], Awaitable[list[list[float]]]]


def validate_vectors(vectors: Any, expected_dim: int | None = None) -> None:
    """Raise `ValueError` unless these are lists of finite numbers, all of one dimension. No vectors are fine."""
    if not isinstance(vectors, (list, tuple, np.ndarray)):
        raise InvalidInput(f"vectors must be a list of lists of numbers, not a {type(vectors).__name__}")
    for place, vector in enumerate(vectors):
        _require_vector(place, vector)
    dimensions = [len(vector) for vector in vectors]
    if expected_dim is not None and dimensions and dimensions[0] != expected_dim:
        raise InvalidInput(
            f"Expected embedding dimension {expected_dim}: vectors must have {expected_dim} dimensions, "
            f"not {dimensions[0]}"
        )
    for place, dimension in enumerate(dimensions):
        if dimension != dimensions[0]:
            raise InvalidInput(f"vector {place} has {dimension} dimensions, expected {dimensions[0]} as in the first")


def infer_embedding_dim(vectors: Any) -> int:
    """Return the dimension of vectors, or raise `ValueError` if they have none in common."""
    validate_vectors(vectors)
    if len(vectors) == 0:
        raise InvalidInput("an empty list of vectors has no dimension")
    return len(vectors[0])


def _require_vector(place: int, vector: Any) -> None:
    if not isinstance(vector, (list, tuple, np.ndarray)):
        raise InvalidInput(f"vector {place} is not a list but a {type(vector).__name__}")
    if len(vector) == 0:
        raise InvalidInput(f"vector {place} must not be empty")
    if not all(isinstance(number, (int, float, np.number)) for number in vector):
        raise InvalidInput(f"vector {place} holds non-numeric values")
    if not np.isfinite(np.asarray(vector, dtype=np.float64)).all():
        raise InvalidInput(f"vector {place} must hold finite numbers only")


def _floats(result: Any) -> list[list[float]]:
    try:
        return [[float(number) for number in vector] for vector in result]
    except (TypeError, ValueError):
        validate_vectors(result)  # says which vector is none
        raise


async def embedded(embed_fn: EmbedFn, texts: Sequence[str]) -> list[list[float]]:
    """Return one checked vector for each text, just as the function made it. What it raises is its caller's to see."""
    vectors: list[list[float]] = []
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        # Called on a thread, as it may take its time; an async one only makes its coroutine there.
        result: Any = await offload.call(True, embed_fn, batch)
        if inspect.isawaitable(result):
            result = await result
        found = _floats(result)
        if len(found) != len(batch):
            raise InvalidInput(f"embed_fn must return {len(batch)} vectors for {len(batch)} texts, not {len(found)}")
        validate_vectors(found, len(vectors[0]) if vectors else None)
        vectors += found
    return vectors
