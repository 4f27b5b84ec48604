"""How a figure is taken: two rivals in turn, several rounds, the median of the ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from msgspec import Struct

ROUNDS = 7


class Result(Struct, frozen=True):
    """One figure. `ratio` is ours against the peer's, bigger is better, unless `at_most` says otherwise."""

    name: str
    ratio: float
    wanted: float
    at_most: bool = False
    ours: str = ""
    peer: str = ""
    note: str = ""

    @property
    def met(self) -> bool:
        return self.ratio <= self.wanted if self.at_most else self.ratio >= self.wanted


def seconds(work: Callable[[], object], times: int) -> float:
    """Return the time of one call, averaged over `times` calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def duel(ours: Callable[[], object], peer: Callable[[], object], times: int) -> tuple[float, float]:
    """Return the median seconds of ours and the peer's, taken in turn so that both see the same machine."""
    seconds(ours, max(times // 10, 1)), seconds(peer, max(times // 10, 1))
    pairs = [(seconds(ours, times), seconds(peer, times)) for _ in range(ROUNDS)]
    return sorted(pairs, key=lambda pair: pair[0] / pair[1])[ROUNDS // 2]


def in_turn(ours: Callable[[], object], peer: Callable[[], object], times: int) -> tuple[float, float]:
    """Return the mean seconds of `times` calls of each, forty at a time so that both see the same machine and files."""
    pairs = [(seconds(ours, 40), seconds(peer, 40)) for _ in range(times // 40)]
    return sum(one for one, _ in pairs) / len(pairs), sum(two for _, two in pairs) / len(pairs)


def micro(value: float) -> str:
    return f"{value * 1e6:.1f} us"


def rate(value: float) -> str:
    return f"{value:,.0f}/s"


def median(values: list[float]) -> float:
    return statistics.median(values)
