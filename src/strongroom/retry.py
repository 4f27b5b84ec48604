"""When to try again after losing a race, and for how long: one policy for every service."""

from __future__ import annotations

import time
from collections.abc import Iterator

from strongroom.errors import Conflict

SECONDS = 30.0


def attempts(what: str) -> Iterator[int]:
    """Count attempts from 0 as long as another one is worth it, then raise `Conflict`.

    Nobody waits in between: whoever loses a race has lost it to somebody who got on, so the next attempt finds the
    race over.
    """
    deadline = time.monotonic() + SECONDS
    tries = 0
    while not tries or time.monotonic() < deadline:
        yield tries
        tries += 1
    raise Conflict(
        f"{what} changed during each of {tries} attempts in {SECONDS:g} seconds; nothing changed", expected=0, actual=0
    )
