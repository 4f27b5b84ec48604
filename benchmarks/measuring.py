"""How a figure is taken: rivals in turn, so that both see the same machine; medians, with their spread.

A *work* is a function without arguments. A *timed* takes a number of calls and returns the seconds they took; that is
how a program in a process of its own (`benchmarks.processes`) is measured too. `QUICK=1` in the environment takes
fewer, shorter rounds and smaller histories: for a look, not for a claim.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from benchmarks.goals import goal

QUICK = os.environ.get("QUICK", "") not in ("", "0")
ROUNDS = 3 if QUICK else 7
FEWEST_ROUNDS = 3
SECONDS = 0.3 if QUICK else 2.5  # for one comparison
MOST_CALLS = 20_000  # in one round
OVERTIME = 3  # times the seconds a comparison may take on a machine that has other things to do
SEED = 20260101

Work = Callable[[], object]
Timed = Callable[[int], float]
T = TypeVar("T")


class Result(Struct, frozen=True):
    """One figure. `ratio` is bigger the better, unless `at_most` says otherwise; `low` and `high` are its quartiles."""

    name: str
    ratio: float
    wanted: float | None = None
    at_most: bool = False
    ours: str = ""
    peer: str = ""
    note: str = ""
    durability: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool:
        if self.wanted is None:
            return True
        return self.ratio <= self.wanted if self.at_most else self.ratio >= self.wanted


class Curve(Struct, frozen=True):
    """A line of one of the plots: `points` are pairs of what is varied and what came of it."""

    plot: str
    series: str
    points: list[tuple[float, float]]


class Pair(Struct, frozen=True):
    """Two rivals: the median seconds of a call of each, and the ratio ours / peer of each round."""

    ours: float
    peer: float
    ratios: list[float]

    def row(self, question: str, name: str, *, durability: str = "", note: str = "", show: str = "time") -> Result:
        """Return the figure of this name. Its goal says whether it is how much faster we are, or how much slower."""
        wanted = goal(question, name)
        ratios = self.ratios if wanted.at_most else [1 / ratio for ratio in self.ratios]
        low, middle, high = quartiles(ratios)
        told = micro if show == "time" else lambda seconds: rate(1 / seconds)
        return Result(
            name, middle, wanted.value, wanted.at_most, told(self.ours), told(self.peer), note, durability, low, high
        )


def figure(
    question: str,
    name: str,
    values: float | Sequence[float],
    *,
    ours: str = "",
    peer: str = "",
    note: str = "",
    durability: str = "",
) -> Result:
    """Return a figure that was worked out otherwise: one value, or several of which the median counts."""
    wanted = goal(question, name)
    low, middle, high = quartiles([values] if isinstance(values, (int, float)) else list(values))
    return Result(name, middle, wanted.value, wanted.at_most, ours, peer, note, durability, low, high)


def compare(ours: Work | Timed, peer: Work | Timed, seconds: float = SECONDS, *, timed: bool = False) -> Pair:
    """Measure two works in turn (two timed, if told so). Each gets half of each round, however fast it is."""
    pair = (ours, peer) if timed else (calls(ours), calls(peer))  # type: ignore[arg-type]
    per_call = in_turn(pair, seconds)  # type: ignore[arg-type]
    mine, theirs = per_call
    ratios = [one / other for one, other in zip(mine, theirs, strict=True)]
    return Pair(median(mine), median(theirs), ratios)


def in_turn(rivals: Sequence[Timed], seconds: float = SECONDS) -> list[list[float]]:
    """Return for each rival the seconds of a call, round by round. The first, unmeasured round decides how many calls
    fill a round, and warms up."""
    counts = [_count(rival, seconds / ROUNDS / len(rivals)) for rival in rivals]
    taken: list[list[float]] = [[] for _ in rivals]
    end = time.perf_counter() + OVERTIME * seconds
    for number in range(ROUNDS):
        if number >= FEWEST_ROUNDS and time.perf_counter() > end:
            break
        for rival, count, times in zip(rivals, counts, taken, strict=True):
            times.append(rival(count) / count)
    return taken


def _count(rival: Timed, share: float) -> int:
    """Return how many calls take about so many seconds."""
    few = _bounded(share / 4 / max(rival(1), 1e-7))
    return _bounded(share * few / max(rival(few), 1e-7))


def _bounded(count: float) -> int:
    return max(1, min(int(count), MOST_CALLS))


def calls(work: Work) -> Timed:
    """Return what times so many calls of a work."""

    def timed(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            work()
        return time.perf_counter() - start

    return timed


def seconds(work: Work, times: int) -> float:
    """Return the time of one call, averaged over `times` calls."""
    return calls(work)(times) / times


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the power with which the second grows with the first: the slope of a line through their logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len(logs) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def pick(full: T, quick: T) -> T:
    """Return what a full run uses, or a quick one."""
    return quick if QUICK else full


def micro(value: float) -> str:
    if value >= 10:
        return f"{value:.1f} s"
    return f"{value * 1e3:.1f} ms" if value >= 0.01 else f"{value * 1e6:.1f} us"


def rate(value: float) -> str:
    return f"{value:,.0f}/s"


def median(values: list[float]) -> float:
    return statistics.median(values)
