"""Days that a text names by how far off they are ("last Friday", "in two weeks"), seen from the day it was said. Pure.

Strict: a distance is understood as a whole or not at all, and what could be two things is nothing. Weeks begin on
Monday. What is told in weeks, months or years is as exact as that: `three weeks ago` is a week, not a day.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta

from msgspec import Struct

from strongroom.dates import MONTHS, day_named

LONGEST = 80
FARTHEST = 1_000

_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DAYS = {
    -2: "vorgestern avant-hier anteayer позавчера 前天 一昨日",
    -1: "yesterday gestern hier ayer вчера أمس 昨天 昨日",
    0: "today tonight heute aujourd'hui hoy сегодня اليوم आज 今天 今日",
    1: "tomorrow morgen demain mañana завтра غدا 明天 明日",
    2: "übermorgen après-demain послезавтра 后天 明後日",
}
_OFFSET = {word: days for days, words in _DAYS.items() for word in words.split()}
_PHRASES = {
    "the day before yesterday": -2,
    "day before yesterday": -2,
    "the day after tomorrow": 2,
    "day after tomorrow": 2,
    "pasado mañana": 2,
    "last night": -1,
}
_WEEKDAYS = (
    "monday montag lundi lunes понедельник",
    "tuesday dienstag mardi martes вторник",
    "wednesday mittwoch mercredi miércoles среда среду",
    "thursday donnerstag jeudi jueves четверг",
    "friday freitag vendredi viernes пятница пятницу",
    "saturday samstag sonnabend samedi sábado суббота субботу",
    "sunday sonntag dimanche domingo воскресенье",
)
_WEEKDAY = {word: number for number, words in enumerate(_WEEKDAYS) for word in words.split()}
_UNITS = {
    "day": "day days tag tage tagen jour jours día días день дня дней",
    "week": "week weeks woche wochen semaine semaines semana semanas неделя неделю недели недель",
    "weekend": "weekend wochenende week-end",
    "month": "month months monat monate monaten mois mes meses месяц месяца месяцев",
    "year": "year years jahr jahre jahren an ans année années año años год года лет",
}
_UNIT = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_NUMBERS = (
    "", "a an one ein eine einem einer einen un une una один одну", "two zwei deux dos два две",
    "three drei trois tres три", "four vier quatre cuatro четыре", "five fünf cinq cinco пять", "six sechs seis шесть",
    "seven sieben sept siete семь", "eight acht huit ocho восемь", "nine neun neuf nueve девять",
    "ten zehn dix diez десять",
)  # fmt: skip
_NUMBER = {word: number for number, words in enumerate(_NUMBERS) for word in words.split()}
# Which way, for what is counted and for what is named.
_AGO = _set("ago earlier vor hace назад")
_AHEAD = _set("in from-now dans dentro через")
_LAST = _set(
    "last past previous letzten letzte letzter letztes vergangenen vergangene vergangenes dernier dernière passé "
    "passée pasado pasada прошлый прошлую прошлом прошлой"
)
_NEXT = _set(
    "next coming upcoming nächsten nächste nächster nächstes kommenden kommende prochain prochaine próximo próxima "
    "следующий следующую следующем следующей"
)
_THIS = _set("this diese diesen diesem dieser dieses ce cet cette este esta этот эту этом этой")
# What tells that a time is told at all. Left out is what is a common word of another language, and the vaguest unit.
_TWICE = _set("an mes hier day days may march mars mai morgen")
TIME_WORDS = frozenset((*_OFFSET, *_WEEKDAY, *_UNIT, *MONTHS, *_set("ago назад"))) - _TWICE
UNSPACED_TIMES = re.compile(
    "|".join(["[年月日]前", r"\d\s?[年月日]", *(word for word in _OFFSET if "\u4e00" <= word[0] <= "\u9fff")])
)
_IDLE = _set("on the of at am im le la l' el los de morning afternoon evening night abend matin soir в на во")


class Span(Struct, frozen=True):
    """The days from `start` to before `stop`, and the word for how exact that is: day, week, weekend, month, year."""

    start: date
    stop: date
    unit: str


def told(expression: str, said: date) -> Span | None:
    """Return the days that an expression means to whoever uses it on the day `said`, or None."""
    if len(expression) > LONGEST:
        return None
    text = expression.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").strip(" .,;:!?\"'()")
    try:
        return _near(text, said) or _named(text, said)
    except (ValueError, OverflowError):  # a day that no calendar has
        return None


def _near(text: str, said: date) -> Span | None:
    if (offset := _PHRASES.get(text)) is not None:
        return _day(said, offset)
    text = text.replace("from now", "from-now").replace("il y a", "ago").replace("que viene", "next")
    tokens = [token for token in _TOKEN.findall(text) if token not in _IDLE]
    if len(tokens) == 1 and (offset := _OFFSET.get(tokens[0])) is not None:
        return _day(said, offset)
    words = set(tokens)
    ago, ahead, last, next, this = (bool(words & each) for each in (_AGO, _AHEAD, _LAST, _NEXT, _THIS))
    rest = [token for token in tokens if token not in _AGO | _AHEAD | _LAST | _NEXT | _THIS]
    if len(rest) == 2 and ago + ahead == 1 and not (last or next or this):
        count = _NUMBER.get(rest[0]) or (int(rest[0]) if rest[0].isdecimal() and len(rest[0]) <= 4 else 0)
        unit = _UNIT.get(rest[1])
        if not 0 < count <= FARTHEST or unit in (None, "weekend"):
            return None
        return _shifted(said, str(unit), -count if ago else count)
    this = this and not last  # this past weekend
    if len(rest) != 1 or last + next + this != 1 or ago or ahead:
        return None
    if (weekday := _WEEKDAY.get(rest[0])) is not None:
        if this:
            return _day(said, weekday - said.weekday())
        # Never today: of seven days, the one that comes after, or the one that came before.
        after, before = (weekday - said.weekday() - 1) % 7 + 1, (said.weekday() - weekday - 1) % 7 + 1
        return _day(said, after if next else -before)
    unit = _UNIT.get(rest[0])
    if unit in (None, "day"):
        return None
    return _shifted(said, str(unit), -1 if last else 1 if next else 0)


def _named(text: str, said: date) -> Span | None:
    """Return a day, a month or a year that is named outright. Without a year it is the nearest one, of those that are
    past or to come if it says so."""
    day, words = day_named(text), set(_TOKEN.findall(text))
    if day is None:
        return None
    if not day.month:
        return _year(day.year)
    years = [day.year] if day.year else [said.year - 1, said.year, said.year + 1]
    spans = []
    for year in years:
        if day.day > monthrange(year, day.month)[1]:
            continue
        first = date(year, day.month, day.day or 1)
        spans.append(_day(first, 0) if day.day else _month(first.year, first.month))
    if words & _LAST:
        spans = [span for span in spans if span.stop <= said]
    if words & _NEXT:
        spans = [span for span in spans if span.start > said]
    return min(spans, key=lambda span: abs(span.start - said), default=None)


def _shifted(said: date, unit: str, count: int) -> Span:
    if unit == "day":
        return _day(said, count)
    if unit == "week":
        start = said - timedelta(days=said.weekday()) + timedelta(weeks=count)
        return Span(start, start + timedelta(weeks=1), "week")
    if unit == "weekend":
        # The last one is the one that began last, if today is a working day; this one is that of this week.
        start = said - timedelta(days=said.weekday()) + timedelta(weeks=count, days=5)
        return Span(start, start + timedelta(days=2), "weekend")
    if unit == "month":
        years, month = divmod(said.year * 12 + said.month - 1 + count, 12)
        return _month(years, month + 1)
    return _year(said.year + count)


def _day(said: date, offset: int) -> Span:
    start = said + timedelta(days=offset)
    return Span(start, start + timedelta(days=1), "day")


def _month(year: int, month: int) -> Span:
    start = date(year, month, 1)
    return Span(start, start + timedelta(days=monthrange(year, month)[1]), "month")


def _year(year: int) -> Span:
    return Span(date(year, 1, 1), date(year + 1, 1, 1), "year")
