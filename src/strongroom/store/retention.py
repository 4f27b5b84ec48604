"""How long a store remembers that a commit was made."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Literal

from strongroom.errors import InvalidInput

Repeats = timedelta | Literal["forever"] | str
REPEATS = timedelta(days=30)
# Ids that we chose ourselves are repeated by our own retries, and by a caller who was told of one by `CommitUnknown`.
OUR_SECONDS = 3600.0
_UNITS = {"h": 3600.0, "d": 86400.0}


def kept_seconds(repeats: Repeats) -> float:
    """Return how long ids that callers chose are remembered; infinity for ever."""
    if isinstance(repeats, timedelta) and repeats.total_seconds() >= OUR_SECONDS:
        return repeats.total_seconds()
    if repeats == "forever":
        return math.inf
    if isinstance(repeats, str) and (found := re.fullmatch(r"([1-9][0-9]{0,5})([hd])", repeats)):
        return int(found[1]) * _UNITS[found[2]]
    raise InvalidInput(
        "repeats must be 'forever', a timedelta of an hour or more, or text such as '30d' or '12h', "
        f"not {repeats!r:.40}; nothing was opened"
    )


def in_words(seconds: float) -> str:
    """Return how long that is, for people."""
    if seconds == math.inf:
        return "as long as the store exists"
    count, unit = (seconds / 86400, "days") if seconds >= 2 * 86400 else (seconds / 3600, "hours")
    return f"{count:g} {unit if count != 1 else unit[:-1]}"
