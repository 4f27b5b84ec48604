"""The messages of a day that a question names. They stand in the order of time, so a few looks find the first of them.

Where messages do not stand in that order, as in a history that was put together later, a day may not be found this way;
words still find what they find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strongroom.dates import SOON, Day, day_named, nearness
from strongroom.services.sessions.records import opened
from strongroom.services.sessions.view import View, forward, stored_at
from strongroom.store import Record
from strongroom.values import moment

MOST = 128
LOOKS = 16  # in one round trip
_TIMES = ("timestamp", "happened_at", "created_at", "time", "date", "at")


def day_of(value: Mapping[str, Any], record: Record) -> Day:
    """Return the day of a message: the one it tells itself, else the one on which it arrived."""
    given = next((value[name] for name in _TIMES if name in value), None)
    if isinstance(given, str) and (named := day_named(given)) is not None and named.day:
        return named
    if isinstance(given, (int, float)) and 0 < given < 1e11:
        arrived = moment(int(given * 1_000_000))
    else:
        arrived = moment(record.at)
    return Day(arrived.year, arrived.month, arrived.day)


async def of_that_day(view: View, asked: Day) -> dict[int, Record]:
    """Return the first visible messages, up to a fixed number, of the day or the month that is asked for."""
    if not asked.month or view.first >= view.length:
        return {}
    start = asked.year or await _year(view, asked), asked.month, asked.day or 1
    low, high = view.first, view.length
    while low < high:
        looks = range(low, high, max((high - low) // LOOKS, 1))
        found = await stored_at(view, looks)
        behind = next((index for index in looks if index in found and _date(found[index]) >= start), None)
        if behind is None:
            low = looks[-1] + 1
        else:
            low, high = max(behind - looks.step + 1, low), behind
    records = await forward(view, low, MOST)
    return {record.index: record for record in records if nearness(_day(record), asked) >= SOON}


async def _year(view: View, asked: Day) -> int:
    """Return the year of a day without one: of the newest message, or before that if it has not come yet."""
    newest = await stored_at(view, [view.length - 1])
    year, month, day = max(map(_date, newest.values()), default=(0, 0, 0))
    return year - ((asked.month, asked.day or 1) > (month, day))


def _day(record: Record) -> Day:
    return day_of(opened(record)[0], record)


def _date(record: Record) -> tuple[int, int, int]:
    day = _day(record)
    return day.year, day.month, day.day
