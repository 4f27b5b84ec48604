"""A dispatcher that could not work is not made."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.dispatch import Dispatcher, Retry
from strongroom.errors import InvalidInput


@pytest.mark.parametrize(
    "settings",
    [
        {"max_concurrent": 0},
        {"max_concurrent": "20"},
        {"max_concurrent": None},
        {"lease_seconds": -1},
        {"lease_seconds": float("nan")},
        {"poll_seconds": 0},
        {"max_workers": 0},
        {"max_tasks_per_child": 1.5},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(settings))} must be"):
        Dispatcher(**settings)


@pytest.mark.parametrize(
    "options", [{"retry": 3}, {"accepts": "text"}, {"accepts": ("text",)}, {"cpu_bound": 1}, {"max_concurrent": 0}]
)
def test_a_handler_is_not_added_with_an_option_that_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(options))} must be"):
        Dispatcher().handler("worker", **options)


@pytest.mark.parametrize("name", ["", 3, None, ["worker"], "a\nb"])
def test_a_handler_needs_a_name(name: Any) -> None:
    with pytest.raises(InvalidInput, match="name must be"):
        Dispatcher().handler(name)


@pytest.mark.parametrize(
    "retry",
    [
        {"attempts": 0},
        {"attempts": "3"},
        {"factor": 0},
        {"factor": float("inf")},
        {"first_seconds": -1},
        {"first_seconds": float("inf")},
        {"max_seconds": float("inf")},
    ],
)
def test_a_retry_that_makes_no_sense_cannot_be_made(retry: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Retry(**retry)
