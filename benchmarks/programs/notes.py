"""What programs of ours and of peers have in common."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

WIDTH = 64


@dataclass
class Note:
    text: str


def vector(text: str) -> list[float]:
    """Return numbers that stand for a text: a stand-in for a model, the same and as quick for everybody."""
    digest = hashlib.blake2b(text.encode(), digest_size=WIDTH).digest()
    return [byte / 128 - 1 for byte in digest]
