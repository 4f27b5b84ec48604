"""A server's store and the one in memory, side by side through the same random steps. STRONGROOM_STEPS: how many."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from strongroom.backends.memory import MemoryStore
from strongroom.store import Answer, AnyQuestion, Commit, Durability, Receipt, Store
from strongroom.testing.machine import store_machine

STEPS = int(os.environ.get("STRONGROOM_STEPS", "2000"))
EACH = 40


class Kept:
    """A store that stays open when it is closed: it serves many runs, each in spaces of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def durability(self) -> Durability:
        return self._store.durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return self._store.read(questions)

    def commit(self, commit: Commit) -> Receipt:
        return self._store.commit(commit)

    def close(self) -> None:
        pass


def run_in_lockstep(store: Store) -> None:
    """Take `STEPS` steps with the store and the reference; fail at the first answer that differs."""
    machine = store_machine(MemoryStore, lambda: Kept(store))
    search = settings(max_examples=max(1, STEPS // EACH), stateful_step_count=EACH, deadline=None)
    run_state_machine_as_test(machine, settings=search)
