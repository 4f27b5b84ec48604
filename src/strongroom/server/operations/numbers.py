"""Vectors come from callers: what is none, or could stand before all others, is refused before it is kept."""

from __future__ import annotations

from base64 import b64decode
from math import isfinite
from struct import calcsize, unpack

from strongroom.errors import InvalidInput

LARGEST = 1e4  # of a number in a vector: beyond that one text would stand before all others


def require_numbers(text: str, kind: str, rows: int) -> int:
    """Refuse what is not base 64 of so many rows of ordinary numbers; return how many a row has."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        raise InvalidInput("vectors are numbers in base 64; nothing changed") from None
    count, odd = divmod(len(raw), calcsize(kind))
    if not rows or not count or odd or count % rows:
        raise InvalidInput("vectors have as many numbers each as their embedder makes; nothing changed")
    if not all(isfinite(number) and abs(number) < LARGEST for number in unpack(f"<{count}{kind}", raw)):
        raise InvalidInput(f"vectors are of finite numbers below {LARGEST:g}; nothing changed")
    return count // rows
