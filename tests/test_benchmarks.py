"""The instrument itself: what it makes of figures, not the figures."""

from __future__ import annotations

from benchmarks.measuring import Result
from benchmarks.plot import margins


def test_a_figure_without_a_goal_is_told_and_not_drawn() -> None:
    results = {"sessions": [Result("append", 0.6, 0.5), Result("told", 3.0, 0.0)]}
    assert margins(results) == [("sessions: append", 1.2)]


def test_a_figure_that_should_be_small_is_better_the_smaller_it_is() -> None:
    assert margins({"x": [Result("cpu", 0.5, 1.0, at_most=True)]}) == [("x: cpu", 2.0)]
