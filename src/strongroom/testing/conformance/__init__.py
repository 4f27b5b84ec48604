"""The conformance suite: what makes a store a Strongroom store, one executable sentence at a time.

A backend proves itself in five lines, under pytest or any runner that collects `test_` methods::

    class TestMine(StoreConformance):
        def make_store(self) -> Store:
            return MyStore("...")

Each test works in a space of its own, so the store need not be empty. An async store goes through
`strongroom.testing.Driven`. Set `max_record_bytes` if yours is not the default, and `keeps_native` if it hands
`Entry.native` back.
"""

from __future__ import annotations

import unittest

from msgspec import Struct

from strongroom.testing.conformance.bounds import Bounds
from strongroom.testing.conformance.claims import Claims
from strongroom.testing.conformance.commits import Commits, Expectations
from strongroom.testing.conformance.documents import Documents
from strongroom.testing.conformance.export import Exports
from strongroom.testing.conformance.lifecycle import Lifecycle
from strongroom.testing.conformance.races import Races
from strongroom.testing.conformance.repeats import Repeats
from strongroom.testing.conformance.scans import Scans
from strongroom.testing.conformance.searching import Searches
from strongroom.testing.conformance.spaces import Spaces
from strongroom.testing.conformance.streams import Streams
from strongroom.testing.conformance.suite import Suite, race, raises
from strongroom.testing.conformance.windows import Windows

__all__ = ["GROUPS", "Guarantee", "StoreConformance", "failures", "guarantees", "race", "raises"]

GROUPS: tuple[type[Suite], ...] = (
    Commits,
    Repeats,
    Expectations,
    Documents,
    Streams,
    Windows,
    Scans,
    Claims,
    Spaces,
    Races,
    Lifecycle,
    Searches,
    Exports,
    Bounds,
)


class StoreConformance(
    Commits,
    Repeats,
    Expectations,
    Documents,
    Streams,
    Windows,
    Scans,
    Claims,
    Spaces,
    Races,
    Lifecycle,
    Searches,
    Exports,
    Bounds,
):
    """Every promise of the port. Subclass it with a `make_store`. What a store does not declare to do is skipped.

    >>> from strongroom.backends.memory import MemoryStore
    >>> from strongroom.testing import StoreConformance, failures
    >>> class TestMyStore(StoreConformance):
    ...     def make_store(self):
    ...         return MemoryStore()  # here: yours
    >>> failures(TestMyStore, only="test_a_failed_expectation_changes_nothing")
    {}
    """


class Guarantee(Struct, frozen=True):
    """One promise: the group it belongs to, the test that proves it, and the promise in a sentence."""

    group: str
    name: str
    sentence: str


def guarantees() -> list[Guarantee]:
    """Return every promise the suite proves, in the order of the suite."""
    return [
        Guarantee(group.group, name, (test.__doc__ or "").strip())
        for group in GROUPS
        for name, test in vars(group).items()
        if name.startswith("test_")
    ]


def failures(suite: type[StoreConformance], *, only: str = "") -> dict[str, BaseException]:
    """Run the suite without a test runner; return the error of each promise that does not hold."""
    failed: dict[str, BaseException] = {}
    for guarantee in guarantees():
        if not only or guarantee.name == only:
            error = _failure(suite, guarantee.name)
            if error is not None:
                failed[guarantee.name] = error
    return failed


def _failure(suite: type[StoreConformance], name: str) -> BaseException | None:
    instance = suite()
    try:
        instance.setup_method()
        try:
            getattr(instance, name)()
        finally:
            instance.teardown_method()
    except unittest.SkipTest:
        return None
    except Exception as error:
        return error
    return None
