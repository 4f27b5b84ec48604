"""Trust labels: an order, and the one rule that a memory is trusted no more than what it was made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Trust = Literal["untrusted", "unverified", "trusted"]

LABELS: tuple[Trust, ...] = ("untrusted", "unverified", "trusted")
_RANK = {label: rank for rank, label in enumerate(LABELS)}


def lowest(ceiling: Trust, others: Iterable[Trust]) -> Trust:
    """Return the least trusting of the labels."""
    lowest = ceiling
    for label in others:
        if _RANK[label] < _RANK[lowest]:
            lowest = label
    return lowest


def at_least(label: Trust, floor: Trust) -> bool:
    """Tell whether `label` is trusted as much as `floor`, or more."""
    return _RANK[label] >= _RANK[floor]
