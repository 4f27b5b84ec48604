"""Runs that are being worked on. An agent updates the same run again and again, and a handle that made the last update
knows what the next one needs: it can commit without reading first. A handle that is wrong by now does no harm, the
store refuses it and it looks again.
"""

from __future__ import annotations

from collections import OrderedDict

from strongroom.server.keys import Caller
from strongroom.services.runs.run import AsyncRun

MOST = 256
LARGEST_BYTES = 32 * 1024


class Handles:
    """The handles used last, a caller's apart from every other's, because a handle knows who acts."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], AsyncRun] = OrderedDict()

    def take(self, caller: Caller, run_id: str) -> AsyncRun | None:
        """Return a handle for one request alone, if there is one that nobody else is using."""
        return self._kept.pop((caller.space, caller.name, run_id), None)

    def keep(self, caller: Caller, run: AsyncRun, size: int) -> None:
        """Give a handle back. `size` is about how many bytes it remembers: what is kept is bounded."""
        if size <= LARGEST_BYTES:
            self._kept[caller.space, caller.name, run.id] = run
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
