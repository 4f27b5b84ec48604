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
    """Raise `ValueError` unless these are vectors of finite numbers, all of one dimension."""
    dimension = infer_embedding_dim(vectors)
    if expected_dim is not None and dimension != expected_dim:
        raise InvalidInput(f"expected vectors of {expected_dim} dimensions, got {dimension}")


def infer_embedding_dim(vectors: Any) -> int:
    """Return the dimension of vectors, or raise `ValueError` if they have none in common."""
    if len(vectors) == 0:
        raise InvalidInput("there are no vectors (an empty list)")
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidInput("vectors must all have the same dimension")
    try:
        matrix = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"vectors must be numbers: {problem}") from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InvalidInput("a vector must not be empty")
    if not np.isfinite(matrix).all():
        raise InvalidInput("vectors must be finite numbers")
    return int(matrix.shape[1])


async def embedded(embed_fn: EmbedFn, texts: Sequence[str]) -> list[list[float]]:
    """Return one checked vector for each text, just as the function made it. What it raises is its caller's to see."""
    vectors: list[list[float]] = []
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        # Called on a thread, as it may take its time; an async one only makes its coroutine there.
        result: Any = await offload.call(True, embed_fn, batch)
        if inspect.isawaitable(result):
            result = await result
        found = [[float(number) for number in vector] for vector in result]
        if len(found) != len(batch):
            raise InvalidInput(f"embed_fn must return {len(batch)} vectors for {len(batch)} texts, not {len(found)}")
        validate_vectors(found, len(vectors[0]) if vectors else None)
        vectors += found
    return vectors
