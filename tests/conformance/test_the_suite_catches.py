"""Deliberately wrong stores must fail the suite, at the very guarantee that they break."""

from __future__ import annotations

import subprocess
import sys

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.store import Commit, Key, Receipt, Store
from strongroom.testing import StoreConformance, failures, guarantees
from tests.conformance import wrong_readers, wrong_repeats, wrong_stores

WRONG = [*wrong_stores.WRONG, *wrong_repeats.WRONG, *wrong_readers.WRONG]


@pytest.mark.parametrize(("wrong", "guarantee"), WRONG, ids=[f"{wrong.__name__}-{name}" for wrong, name in WRONG])
def test_a_wrong_store_fails_the_guarantee_it_breaks(wrong: type[MemoryStore], guarantee: str) -> None:
    class Suite(StoreConformance):
        def make_store(self) -> Store:
            return wrong()

    assert list(failures(Suite, only=guarantee)) == [guarantee]


@pytest.mark.parametrize("guarantee", sorted({guarantee for _, guarantee in WRONG}))
def test_the_reference_store_keeps_that_guarantee(guarantee: str) -> None:
    class Suite(StoreConformance):
        keeps_native = True

        def make_store(self) -> Store:
            return MemoryStore()

    assert failures(Suite, only=guarantee) == {}


def test_every_guarantee_about_repeats_is_broken_by_some_store() -> None:
    promised = {guarantee.name for guarantee in guarantees() if guarantee.group == "repeats"}
    assert promised == {name for _, name in wrong_repeats.WRONG}


def test_a_store_that_does_nothing_fails_nearly_everything() -> None:
    """Only guarantees about refusals and empty answers can hold for a store that stores nothing."""

    class Void(MemoryStore):
        def commit(self, commit: Commit) -> Receipt:
            return Receipt(commit.id, (1,) * len(commit.writes))

        def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
            pass

    class Suite(StoreConformance):
        def make_store(self) -> Store:
            return Void()

    never_ends = {"test_a_follower_misses_nothing"}
    names = [guarantee.name for guarantee in guarantees() if guarantee.name not in never_ends]
    broken = [name for name in names if failures(Suite, only=name)]
    assert len(broken) > len(names) * 0.8, sorted(set(names) - set(broken))


def test_the_suite_needs_a_store() -> None:
    with pytest.raises(NotImplementedError):
        raise failures(StoreConformance, only="test_no_question_has_no_answer")["test_no_question_has_no_answer"]


# ---- the list of guarantees -----------------------------------------------------------------------------------------


def test_every_guarantee_is_one_plain_sentence() -> None:
    for guarantee in guarantees():
        assert guarantee.group, guarantee
        assert guarantee.sentence.endswith("."), guarantee
        assert "\n" not in guarantee.sentence, guarantee


def test_every_test_of_the_suite_is_a_guarantee() -> None:
    """Groups must not hide each other's tests by using one name twice."""
    names = [guarantee.name for guarantee in guarantees()]
    assert len(names) == len(set(names))
    assert set(names) == {name for name in dir(StoreConformance) if name.startswith("test_")}


def test_the_suite_does_not_need_pytest() -> None:
    code = "import sys, strongroom.testing; sys.exit(bool({'pytest', 'hypothesis'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
