"""The server's time, as a client knows it, and the ids that carry it.

By the time in an id of ours a server tells how old it is, and from that whether it is one (`server.ids`). By a clock of
this machine, which may be wrong, one request could be taken for two: its first try before an edge, its repeat behind
it. So the time in an id is the server's own: told when a client connects, carried on by a clock that nobody sets, and
asked for again now and then, as that clock may be slow, and the server's be set.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from strongroom.elapsed import elapsed
from strongroom.operations import is_ours, made_ns
from strongroom.store import new_id
from strongroom.store.retention import OUR_SECONDS

FRESH_SECONDS = 600.0
# How long a repeat of what is remembered as shortly as ours may be sent. A request is a while under way.
KNOWN_SECONDS = OUR_SECONDS - 120.0


class ServerTime:
    """What a server's clock shows now, by what it showed when it was last told."""

    def __init__(self, told_ns: int, clock: Callable[[], float] = elapsed) -> None:
        self._clock = clock
        self.told(told_ns)

    def told(self, now_ns: int) -> None:
        """Take what the server has just said. It is older by its way here, so no id is ever ahead of the server."""
        self._told = now_ns, self._clock()

    @property
    def is_old(self) -> bool:
        return self._clock() - self._told[1] > FRESH_SECONDS

    def now_ns(self) -> int:
        now_ns, since = self._told
        if not now_ns:  # a server of before does not say it
            return time.time_ns()
        return now_ns + round((self._clock() - since) * 1e9)

    def new_id(self) -> str:
        return new_id(self.now_ns())

    def known_seconds(self, commit_id: str) -> float:
        """Return how long a repeat under an id is sure to be known as one."""
        if not is_ours(commit_id):
            return math.inf
        left = KNOWN_SECONDS - (self.now_ns() - made_ns(commit_id)) / 1e9
        return max(left, 0.0) if left > KNOWN_SECONDS - OUR_SECONDS else math.inf  # too old to be taken for ours
