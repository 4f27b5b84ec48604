"""What questions about growth have in common: histories are filled from the small to the large while there is time, all
sizes are measured in turn, and the exponent is fitted. 0 is a cost that stays, 1 one that grows with what there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.measuring import SECONDS, Curve, Result, Timed, calls, exponent, figure, in_turn, median, micro
from benchmarks.workload import SYNCED

Rows = Iterator[Result | Curve]
Late = Callable[[], bool]


def filled(sizes: tuple[int, ...], seconds: float, fill: Callable[[int, Late], bool]) -> list[int]:
    """Make a history of each size while there is time, and return the sizes that are whole. `fill` returns False if it
    gave up because it was late."""
    end = time.monotonic() + seconds
    done: list[int] = []
    for size in sizes:
        if not fill(size, lambda: time.monotonic() > end) and len(done) >= 2:
            break
        done.append(size)
    return done


def told(question: str, name: str, works: Mapping[int, Callable[[], Any]], *, note: str = "") -> Rows:
    """Measure all sizes in turn; yield the exponent, and the points it was fitted through."""
    rivals: list[Timed] = [calls(work) for work in works.values()]
    taken = in_turn(rivals, SECONDS)
    sizes = list(works)
    points = [(float(size), median(times)) for size, times in zip(sizes, taken, strict=True)]
    rounds = [
        exponent([(size, times[number]) for size, times in zip(sizes, taken, strict=True)])
        for number in range(len(taken[0]))
    ]
    reach = f"{sizes[0]:,} to {sizes[-1]:,}"
    yield figure(
        question,
        name,
        rounds,
        ours=f"{micro(points[-1][1])} at {sizes[-1]:,}",
        peer=f"{micro(points[0][1])} at {sizes[0]:,}",
        durability=SYNCED,
        note="; ".join(filter(None, (reach, note))),
    )
    yield Curve("history", name, points)
