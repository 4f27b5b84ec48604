"""Prometheus text, without a dependency: three counters and a histogram are a page of code."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests by method, route and status, and how long they took. Routes are templates, so ids never show."""

    def __init__(self) -> None:
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._buckets: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests[method, route, status] += 1
        self._buckets[method, route][bisect_left(BOUNDS, seconds)] += 1
        self._seconds[method, route] += seconds

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        lines = ["# HELP holdfast_requests_total Requests answered.", "# TYPE holdfast_requests_total counter"]
        for (method, route, status), number in sorted(self._requests.items()):
            lines.append(f'holdfast_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}')
        lines += ["# HELP holdfast_request_seconds How long answers took.", "# TYPE holdfast_request_seconds histogram"]
        for (method, route), buckets in sorted(self._buckets.items()):
            labels, running = f'method="{method}",route="{route}"', 0
            for bound, number in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                running += number
                lines.append(f'holdfast_request_seconds_bucket{{{labels},le="{bound}"}} {running}')
            lines.append(f"holdfast_request_seconds_sum{{{labels}}} {self._seconds[method, route]:.6f}")
            lines.append(f"holdfast_request_seconds_count{{{labels}}} {running}")
        return "\n".join(lines) + "\n"
