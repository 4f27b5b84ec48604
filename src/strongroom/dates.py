"""Days that a text names, and how well a day fits them. Pure; nothing here asks what time it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_MONTHS = (
    ("january", "januar", "janvier", "enero", "января"),
    ("february", "februar", "février", "febrero", "февраля"),
    ("march", "märz", "mars", "marzo", "марта"),
    ("april", "avril", "abril", "апреля"),
    ("may", "mai", "mayo", "мая"),
    ("june", "juni", "juin", "junio", "июня"),
    ("july", "juli", "juillet", "julio", "июля"),
    ("august", "août", "agosto", "августа"),
    ("september", "septembre", "septiembre", "сентября"),
    ("october", "oktober", "octobre", "octubre", "октября"),
    ("november", "novembre", "noviembre", "ноября"),
    ("december", "dezember", "décembre", "diciembre", "декабря"),
)
_NUMBER_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
MONTHS = frozenset(_NUMBER_OF)
# How well the days right after one fit it: the least that is still about that very time.
SOON = 0.95
# Words that are something else as well: months only beside a number.
_DOUBTFUL = frozenset(("march", "may", "mars", "mai"))
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?!\d)")
_DOTTED = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)\b")
_EAST = re.compile(r"(?:((?:19|20)\d\d)\s?年\s?)?(\d{1,2})\s?月(?:\s?(\d{1,2})\s?日)?")
_TOKEN = re.compile(r"[^\W_]+")
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|º)?")
_BETWEEN = frozenset(("of", "de", "the", "del"))


class Day(Struct, frozen=True):
    """A year, a month and a day; 0 for what is not known."""

    year: int = 0
    month: int = 0
    day: int = 0


def day_named(text: str) -> Day | None:
    """Return the day, the month or the year that a text names, or None."""
    folded = text.casefold()
    if found := _ISO.search(folded):
        return _sound(int(found[1]), int(found[2]), int(found[3] or 0))
    if found := _DOTTED.search(folded):
        return _sound(int(found[3]), int(found[2]), int(found[1]))
    if found := _EAST.search(folded):
        return _sound(int(found[1] or 0), int(found[2]), int(found[3] or 0))
    named = _YEAR.search(folded)
    year = int(named[0]) if named else 0
    tokens = [match[0] for match in _TOKEN.finditer(folded)]
    for place, token in enumerate(tokens):
        month = _NUMBER_OF.get(token)
        if month is None:
            continue
        day = next(_beside(tokens, place), 0)
        if token in _DOUBTFUL and not day and not _year_after(tokens, place):
            continue
        return _sound(year, month, day)
    return Day(year) if year else None


def nearness(said: Day, asked: Day) -> float:
    """Say how well the day of a text fits the day asked for: things are told that day or soon after."""
    if not (said.year and said.month and said.day):
        return 0.0
    same_year = asked.year in (0, said.year)
    if asked.day:
        late = _days_between(asked, said)
        if 0 <= late <= 3:
            return 1.0 if (said.month, said.day) == (asked.month, asked.day) else SOON
        return 0.6 if -1 <= late <= 10 else 0.3 if same_year and said.month == asked.month else 0.0
    if not same_year:
        return 0.0
    if asked.month:
        next_month = said.month == asked.month % 12 + 1 and said.day <= 10
        return 1.0 if said.month == asked.month else 0.4 if next_month else 0.0
    return 0.3


def _days_between(asked: Day, said: Day) -> float:
    """Return about how many days a day is behind the one asked for; without a year, the one of the nearest year."""
    days = (said.month - asked.month) * 30.4 + said.day - asked.day
    if asked.year:
        return days + (said.year - asked.year) * 365.2
    return days + 365.2 if days < -182.6 else days - 365.2 if days > 182.6 else days


def _beside(tokens: list[str], place: int) -> Iterator[int]:
    """Yield the day that stands beside a month: before it, then behind it."""
    before = place - 1
    while before >= 0 and tokens[before] in _BETWEEN:
        before -= 1
    for near in (before, place + 1):
        if 0 <= near < len(tokens) and (found := _ORDINAL.fullmatch(tokens[near])) and 1 <= int(found[1]) <= 31:
            yield int(found[1])


def _year_after(tokens: list[str], place: int) -> bool:
    after = [token for token in tokens[place + 1 : place + 3] if token not in _BETWEEN]
    return bool(after) and _YEAR.fullmatch(after[0]) is not None


def _sound(year: int, month: int, day: int) -> Day | None:
    return Day(year, month, day) if 1 <= month <= 12 and day <= 31 else None
