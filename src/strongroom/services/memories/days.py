"""The memories of a day or a month that a question names, which need no word in common with it.

Each memory that can be found carries its day and its month as tags, so every store finds them as it finds those of an
owner, however much is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta

from strongroom.dates import SOON, Day, nearness
from strongroom.scope import Scope, Telling
from strongroom.services.memories import keys
from strongroom.services.memories.keys import sound
from strongroom.services.memories.values import Memory
from strongroom.store import Budget, Scan

MOST = 128  # of each owner
_DAYS = 4  # that very day and those soon after


async def of_that_day(
    scope: Scope, asked: Day, carried: Sequence[dict[str, str]], room: Budget, damaged: Telling = None
) -> list[Memory]:
    """Return the first memories of the day or the month asked for, up to a fixed number for each of the tags, as far as
    there is room for them."""
    if not asked.year:
        asked = _with_year(asked, await _newest(scope, carried, damaged))
    times = _tags(asked)
    scans = [
        Scan(scope.space, keys.MEMORY, {**tags, **time}, limit=MOST // len(times)) for tags in carried for time in times
    ]
    memories: list[Memory] = []
    async for page in scope.first_pages(scans, damaged):
        fitting = (document for document in page.documents if room.takes(document.value, None))
        memories += [memory for one in fitting if (memory := sound(one, Memory, damaged)) is not None]
        if room.full:
            break
    return [memory for memory in memories if nearness(day_of(memory), asked) >= SOON]


def day_of(memory: Memory) -> Day:
    at = memory.told_at
    return Day(at.year, at.month, at.day)


async def _newest(scope: Scope, carried: Sequence[dict[str, str]], damaged: Telling) -> list[datetime]:
    scans = [Scan(scope.space, keys.MEMORY, {**tags, "status": "active"}, limit=1, reverse=True) for tags in carried]
    return [
        memory.told_at
        async for page in scope.first_pages(scans, damaged)
        for document in page.documents
        if (memory := sound(document, Memory, damaged)) is not None
    ]


def _with_year(asked: Day, known: Iterable[datetime]) -> Day:
    """Return a day without a year as one of the newest year that is known, or before that if it has not come yet."""
    newest = max(known, default=None)
    if newest is None:
        return asked
    return Day(newest.year - ((asked.month, asked.day or 1) > (newest.month, newest.day)), asked.month, asked.day)


def _tags(asked: Day) -> list[dict[str, str]]:
    """Return the tags of which memories of a day or a month carry one. A whole year finds nothing by itself."""
    if not asked.year or not asked.month:
        return []
    if not asked.day:
        return [keys.month_tag(date(asked.year, asked.month, 1))]
    try:
        first = date(asked.year, asked.month, asked.day)
    except ValueError:  # the 31st of June
        return []
    return [keys.day_tag(first + timedelta(days)) for days in range(_DAYS)]
