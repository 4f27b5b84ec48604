"""The clock that goes on in a suspended machine."""

from __future__ import annotations

import time

import pytest

from strongroom import elapsed as module
from strongroom.elapsed import elapsed


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has one clock for it")
def test_it_is_the_clock_that_goes_on_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {time.CLOCK_BOOTTIME: 7200.0, time.CLOCK_MONOTONIC: 1.0}  # type: ignore[attr-defined,unused-ignore]
    monkeypatch.setattr(time, "clock_gettime", shown.__getitem__)
    assert elapsed() == 7200.0


def test_without_such_a_clock_it_is_the_monotonic_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLOCK", None)
    before = time.monotonic()
    assert before <= elapsed() <= time.monotonic()
