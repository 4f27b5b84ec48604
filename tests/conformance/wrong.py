"""How stores that are wrong on purpose are entered, and how a race is made to happen."""

from __future__ import annotations

import threading
from collections.abc import Callable

from strongroom.backends.memory import MemoryStore

Wrong = type[MemoryStore]


def register() -> tuple[list[tuple[Wrong, str]], Callable[[str], Callable[[Wrong], Wrong]]]:
    """Return a list of wrong stores, each with the guarantee it breaks, and what enters one into it."""
    wrong: list[tuple[Wrong, str]] = []

    def breaks(guarantee: str) -> Callable[[Wrong], Wrong]:
        def enter(store: Wrong) -> Wrong:
            wrong.append((store, guarantee))
            return store

        return enter

    return wrong, breaks


def dawdle() -> None:
    """Give way to another thread, so that a race that is possible happens."""
    threading.Event().wait(0.0005)
