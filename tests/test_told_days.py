"""Days told by how far off they are, seen from a Tuesday."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.told_days import Span, told

TUESDAY = date(2026, 11, 17)

DAYS = {
    "yesterday": "2026-11-16",
    "Yesterday evening": "2026-11-16",
    "today": "2026-11-17",
    "tomorrow morning": "2026-11-18",
    "the day before yesterday": "2026-11-15",
    "the day after tomorrow": "2026-11-19",
    "last night": "2026-11-16",
    "last Friday": "2026-11-13",
    "last Tuesday": "2026-11-10",
    "next Tuesday": "2026-11-24",
    "next friday": "2026-11-20",
    "this Monday": "2026-11-16",
    "three days ago": "2026-11-14",
    "in 10 days": "2026-11-27",
    "four days from now": "2026-11-21",
    "7 May 2023": "2023-05-07",
    "2023-05-07": "2023-05-07",
    "on November 3": "2026-11-03",
    "last 24 December": "2025-12-24",
    "gestern": "2026-11-16",
    "letzten Freitag": "2026-11-13",
    "vor drei Tagen": "2026-11-14",
    "vendredi dernier": "2026-11-13",
    "il y a 3 jours": "2026-11-14",
    "el viernes pasado": "2026-11-13",
    "mañana": "2026-11-18",
    "pasado mañana": "2026-11-19",
    "вчера": "2026-11-16",
    "昨天": "2026-11-16",
}
LONGER = {
    "last week": ("2026-11-09", "2026-11-16", "week"),
    "in two weeks": ("2026-11-30", "2026-12-07", "week"),
    "hace dos semanas": ("2026-11-02", "2026-11-09", "week"),
    "this past weekend": ("2026-11-14", "2026-11-16", "weekend"),
    "last month": ("2026-10-01", "2026-11-01", "month"),
    "two months ago": ("2026-09-01", "2026-10-01", "month"),
    "next June": ("2027-06-01", "2027-07-01", "month"),
    "in June": ("2026-06-01", "2026-07-01", "month"),
    "last year": ("2025-01-01", "2026-01-01", "year"),
    "since 2016": ("2016-01-01", "2017-01-01", "year"),
}
NEITHER = [
    "Friday", "recently", "soon", "a few days ago", "last time", "in the morning", "next", "ago", "in 5", "30 February",
    "two weeks", "9999 years ago", "in 1001 days", "last Friday next Friday", "", "   ", "x" * 81, "last last week ago",
]  # fmt: skip


@pytest.mark.parametrize(("expression", "day"), DAYS.items())
def test_a_day_is_found_from_the_day_it_was_said(expression: str, day: str) -> None:
    start = date.fromisoformat(day)
    assert told(expression, TUESDAY) == Span(start, start + timedelta(days=1), "day")


@pytest.mark.parametrize(("expression", "span"), LONGER.items())
def test_a_longer_time_is_as_exact_as_it_was_said(expression: str, span: tuple[str, str, str]) -> None:
    start, stop, unit = span
    assert told(expression, TUESDAY) == Span(date.fromisoformat(start), date.fromisoformat(stop), unit)


@pytest.mark.parametrize("expression", NEITHER)
def test_what_could_be_several_days_or_none_is_no_day(expression: str) -> None:
    assert told(expression, TUESDAY) is None


WORDS = [*" ".join((*DAYS, *LONGER)).split(), "1", "99", "year", "ago", "in", "next", "last", "\0", "٣"]


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.dates())
def test_any_words_on_any_day_are_a_span_or_nothing(words: list[str], said: date) -> None:
    span = told(" ".join(words), said)
    assert span is None or span.start < span.stop
