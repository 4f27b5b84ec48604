"""What is refused because there is too much of it: callers too fast, too many streams or bodies at once."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strongroom.server.responses import Refusal

BURST_SECONDS = 10.0
MOST_CALLERS = 100_000


class Rates:
    """A token bucket for each caller. Forgets the least recent ones, so that its own memory is bounded."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._clock = clock
        self._burst = per_second * BURST_SECONDS
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Let a request pass, or refuse it with the time to wait."""
        now = self._clock()
        left, since = self._buckets.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        self._buckets[caller] = (max(left - 1, 0), now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = str(max(1, round((1 - left) / self._rate)))
            raise Refusal(429, "too_many_requests", "too many requests; nothing changed", headers={"Retry-After": wait})


class Streams:
    """Counts the streams each caller holds open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, int] = {}

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Hold one of the caller's streams for the time of a block."""
        if self._open.get(caller, 0) >= self._most:
            raise Refusal(
                429, "too_many_streams", f"at most {self._most} streams at once", headers={"Retry-After": "5"}
            )
        self._open[caller] = self._open.get(caller, 0) + 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


class HeldBytes:
    """Counts the bytes of bodies that are in memory, of all callers together: each is bounded, and so is their sum."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, size: int, *, at_all_costs: bool = False) -> None:
        """Count some more, or refuse. What is held at all costs leaves less than nothing for whoever comes next."""
        if size > max(self._left, 0) and not at_all_costs:
            raise Refusal(
                503,
                "unavailable",
                "the server is busy with other large requests; nothing changed",
                headers={"Retry-After": "1"},
                details={"reason": "busy"},
            )
        self._left -= size

    def give_back(self, size: int) -> None:
        self._left += size
