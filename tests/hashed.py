"""A small honest embedder: words hashed to directions. Texts that share words are near; nothing is downloaded."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from strongroom.embedders import Embedder
from strongroom.stemming import words


def hashed(texts: list[str], dimension: int = 64) -> NDArray[np.float32]:
    rows = np.zeros((len(texts), dimension), np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in words(text):
            seed = int.from_bytes(sha256(word.encode()).digest()[:8], "big")
            row += np.random.default_rng(seed).normal(size=dimension).astype(np.float32)
    return rows


def hashing(dimension: int = 64, *, name: str = "hashed", revision: str = "1") -> Embedder:
    return Embedder(lambda texts: hashed(texts, dimension), name=name, revision=revision, dimension=dimension)
