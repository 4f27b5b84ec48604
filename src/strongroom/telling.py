"""How much a text tells, whatever the question, as far as the text alone says. Pure.

The signs were fitted on English conversations; they are small, and silent where a script has no capitals.
"""

from __future__ import annotations

import re
from itertools import pairwise

from strongroom.caching import cached_if_short
from strongroom.told_days import TIME_WORDS, UNSPACED_TIMES

_ENDINGS = ".!?\u2026\u3002\uff01\uff1f\u061f\u0964"
_QUESTIONS = "?\uff1f\u061f"
_MOST_NAMES = 3
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_YEAR = re.compile(r"(?:19|20)\d\d")


@cached_if_short(maxsize=16_384)
def tells(text: str) -> tuple[int, bool, bool]:
    """Return what can be said of a text alone: how many names it has, whether it ends by asking, whether it asks."""
    return min(name_like(text), _MOST_NAMES), asks(text), any(sign in text for sign in _QUESTIONS)


def name_like(text: str) -> int:
    """Count the words written like names inside of sentences. In scripts without capitals there are none."""
    return sum(
        len(token) > 1 and token[1].islower() and before[-1] not in _ENDINGS and before[-1] != ":"
        for before, token in pairwise(text.split())
        if token[0].isupper()
    )


def asks(text: str) -> bool:
    """Tell whether the last sentence that is ended by a sign is a question."""
    last = max(map(text.rfind, _ENDINGS))
    return last >= 0 and text[last] in _QUESTIONS


@cached_if_short(maxsize=16_384)
def tells_time(text: str) -> bool:
    """Tell whether a text says when: a day, a weekday, a month, a year, or how many weeks ago."""
    folded = text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return (
        any(token in TIME_WORDS or _YEAR.fullmatch(token) for token in _TOKEN.findall(folded))
        or UNSPACED_TIMES.search(folded) is not None
    )
