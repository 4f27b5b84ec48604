"""How much time has passed: also while the machine was suspended, and whoever sets its clock."""

from __future__ import annotations

import time

# `time.monotonic` stands still in a suspended machine: on Linux, where another clock goes on, and on macOS, where the
# one that C calls monotonic does. Elsewhere it is all there is.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def elapsed() -> float:
    """Return the seconds since some moment in the past."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
