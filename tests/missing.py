"""What a test needs and this machine does not have: a server, a browser, a tool.

A laptop goes on without it, and says loudly at the end what was not run and why; in CI it is an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

import pytest

T = TypeVar("T")

_MARK = "could not be had"
_NO_MODULE = "could not import"  # as pytest says it


class NotHad(Exception):
    """Something that tests need is not on this machine."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} {_MARK}: {why}")


def had_or_skip(make: Callable[[], T]) -> T:
    """Return what was made. If it cannot be had, skip the test, or fail in CI."""
    try:
        return make()
    except NotHad as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(problem))


def not_here(what: str, why: str) -> NoReturn:
    """Skip what no setting of this machine can bring, in CI too; it is told at the end all the same."""
    pytest.skip(str(NotHad(what, why)))


def summary(reasons: Iterable[str]) -> list[str]:
    """Return a line for each thing that could not be had, with the number of tests that were not run for it."""
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons if _MARK in reason or _NO_MODULE in reason)
    return [f"{number:,} not run: {' '.join(reason.split())}" for reason, number in counted.most_common()]
