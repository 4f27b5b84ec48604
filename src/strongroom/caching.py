"""Remembering what was worked out about a text, in bounded memory.

`functools.lru_cache` counts entries, not bytes: sixteen thousand texts are nothing if they are names, and gigabytes if
they are messages of a megabyte, which anybody who writes messages can choose. So only short texts are remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")

LONGEST = 2_000  # characters


def cached_if_short(maxsize: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Remember what a function makes of short texts; of long ones it is worked out each time."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        remembered = lru_cache(maxsize)(function)

        @wraps(function)
        def cached(text: str) -> T:
            return remembered(text) if len(text) <= LONGEST else function(text)

        return cached

    return decorate
