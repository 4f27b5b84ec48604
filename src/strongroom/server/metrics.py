"""Prometheus text, without a dependency: three counters and a histogram are a page of code."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from operator import itemgetter

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Figures:
    """What is counted for one method and route."""

    __slots__ = ("buckets", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: defaultdict[int, int] = defaultdict(int)
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0


class Metrics:
    """Requests by method, route and status, and how long they took. Routes are templates, so ids never show."""

    def __init__(self) -> None:
        self._figures: defaultdict[tuple[str, str], Figures] = defaultdict(Figures)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        figures = self._figures[method, route]
        figures.statuses[status] += 1
        figures.buckets[bisect_left(BOUNDS, seconds)] += 1
        figures.seconds += seconds

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        lines = ["# HELP strongroom_requests_total Requests answered.", "# TYPE strongroom_requests_total counter"]
        for (method, route), figures in sorted(self._figures.items(), key=itemgetter(0)):
            for status, number in sorted(figures.statuses.items()):
                lines.append(
                    f'strongroom_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}'
                )
        lines += [
            "# HELP strongroom_request_seconds How long answers took.",
            "# TYPE strongroom_request_seconds histogram",
        ]
        for (method, route), figures in sorted(self._figures.items(), key=itemgetter(0)):
            labels, running = f'method="{method}",route="{route}"', 0
            for bound, number in zip((*map(str, BOUNDS), "+Inf"), figures.buckets, strict=True):
                running += number
                lines.append(f'strongroom_request_seconds_bucket{{{labels},le="{bound}"}} {running}')
            lines.append(f"strongroom_request_seconds_sum{{{labels}}} {figures.seconds:.6f}")
            lines.append(f"strongroom_request_seconds_count{{{labels}}} {running}")
        return "\n".join(lines) + "\n"
