"""No sequence of commits and questions tells a store from the plain model. STRONGROOM_STEPS makes the search longer."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore, Stream
from strongroom.backends.sqlite import SqliteStore
from strongroom.store import AnyQuestion, Delete, Store, Tail, Write
from strongroom.testing.machine import store_machine
from tests.conformance.wrong_repeats import AsksAnySpace, ForgetsAnswers, IgnoresDigests

EXAMPLES = int(os.environ.get("STRONGROOM_STEPS", "30"))
SEARCH = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)


class SqliteInFolder(SqliteStore):
    """A store in a folder of its own, which goes away with it."""

    def __init__(self, folder: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.folder = folder or tempfile.TemporaryDirectory()
        super().__init__(Path(self.folder.name, "agent.db"), durability="relaxed")

    def close(self) -> None:
        super().close()
        if not self.reopening:
            self.folder.cleanup()

    reopening = False


def reopen(store: Store) -> Store:
    if not isinstance(store, SqliteInFolder):
        return store
    store.reopening = True
    store.close()
    return SqliteInFolder(store.folder)


def test_memory_is_the_model() -> None:
    run_state_machine_as_test(store_machine(MemoryStore), settings=SEARCH)


def test_sqlite_is_the_model_also_when_it_is_reopened() -> None:
    run_state_machine_as_test(store_machine(SqliteInFolder, reopen=reopen), settings=SEARCH)


def test_memory_and_sqlite_run_in_lockstep() -> None:
    machine = store_machine(MemoryStore, SqliteInFolder)
    run_state_machine_as_test(machine, settings=SEARCH)


class TailIsOneShort(MemoryStore):
    def _answer(self, question: AnyQuestion) -> Any:
        if type(question) is Tail and question.count:
            question = replace(question, count=question.count - 1)
        return super()._answer(question)


class ReusesIndexes(MemoryStore):
    def _apply(self, write: Write) -> int:
        length = super()._apply(write)
        if type(write) is Delete and type(self._things.get(write.key)) is Stream:
            self._things[write.key] = Stream()
        return length


@pytest.mark.parametrize("wrong", [TailIsOneShort, ReusesIndexes, IgnoresDigests, ForgetsAnswers, AsksAnySpace])
def test_the_machine_finds_what_is_wrong(wrong: type[MemoryStore]) -> None:
    """A control: the machine can tell a wrong store."""
    search = settings(SEARCH, max_examples=300, database=None, print_blob=False, phases=[Phase.generate])
    with pytest.raises(AssertionError, match="expected"):
        run_state_machine_as_test(store_machine(wrong), settings=search)
