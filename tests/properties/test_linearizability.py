"""What threads see of a store can be explained by one order, and the checker refuses what cannot."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Conflict, InvalidInput
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Entry,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Store,
    Truncate,
    ask,
    new_id,
)
from strongroom.testing import EMPTY, Operation, Recorder, linearizable, race, store_step

ROUNDS = int(os.environ.get("STRONGROOM_HISTORIES", "12"))
DOCUMENT, OTHER, LOG = (Key("s", "thing", id) for id in ("d", "e", "log"))


# ---- a register, to test the checker itself -------------------------------------------------------------------------


def register(state: int, operation: Operation) -> Iterable[int]:
    """A number that can be written, read, and swapped if it is what one thinks."""
    match operation.call:
        case ("write", value):
            return [value]
        case ("read",):
            return [state] if operation.result == state else []
        case ("swap", old, new):
            if operation.result is None:
                return [new if state == old else state]
            return [new if state == old else state] if operation.result == (state == old) else []
    raise TypeError(operation.call)


def simulated(chance: random.Random, *, clients: int = 4, calls: int = 30) -> list[Operation]:
    """A history that is right: each call takes effect at a moment between its beginning and its end."""
    free = [0] * clients
    moments: list[tuple[int, int, int, str]] = []
    for _ in range(calls):
        client = chance.randrange(clients)
        began = free[client] + chance.randrange(1, 100)
        moment = began + chance.randrange(1, 100)
        free[client] = moment + chance.randrange(1, 100)
        moments.append((moment, began, free[client], chance.choice(["write", "read", "swap"])))
    state, history = 0, []
    for _, began, ended, kind in sorted(moments):
        lost = chance.random() < 0.1
        if kind == "read":
            history.append(Operation(began, ended, ("read",), state))
        elif kind == "write":
            state = chance.randrange(5)
            history.append(Operation(began, None if lost else ended, ("write", state)))
        else:
            old, new = chance.randrange(5), chance.randrange(5)
            history.append(
                Operation(began, None if lost else ended, ("swap", old, new), None if lost else state == old)
            )
            state = new if state == old else state
    return history


@pytest.mark.parametrize("seed", range(40))
def test_every_right_history_is_accepted(seed: int) -> None:
    assert linearizable(simulated(random.Random(seed)), 0, register)


@pytest.mark.parametrize("seed", range(40))
def test_a_value_that_nobody_wrote_is_refused(seed: int) -> None:
    chance = random.Random(seed)
    history = simulated(chance)
    place = chance.choice([place for place, operation in enumerate(history) if operation.call == ("read",)])
    history[place] = Operation(history[place].began, history[place].ended, ("read",), 99)
    assert not linearizable(history, 0, register)


@pytest.mark.parametrize(
    ("what", "history"),
    [
        ("a stale read", [Operation(0, 1, ("write", 1)), Operation(2, 3, ("read",), 0)]),
        (
            "a read that goes back in time",
            [Operation(0, 9, ("write", 1)), Operation(1, 2, ("read",), 1), Operation(3, 4, ("read",), 0)],
        ),
        ("a read before the write", [Operation(0, 1, ("read",), 1), Operation(2, 3, ("write", 1))]),
        (
            "two swaps from one value",
            [Operation(0, 9, ("swap", 0, 1), True), Operation(1, 8, ("swap", 0, 2), True)],
        ),
        ("a refused swap that had to succeed", [Operation(0, 1, ("swap", 0, 1), False)]),
        (
            "an unknown write that comes and goes",
            [Operation(0, None, ("write", 1)), Operation(2, 3, ("read",), 1), Operation(4, 5, ("read",), 0)],
        ),
        ("an unknown write seen before it began", [Operation(0, 1, ("read",), 1), Operation(2, None, ("write", 1))]),
        ("a lost write", [Operation(0, 1, ("write", 1)), Operation(2, 3, ("swap", 1, 2), False)]),
    ],
)
def test_a_planted_violation_is_refused(what: str, history: list[Operation]) -> None:
    assert not linearizable(history, 0, register), what


@pytest.mark.parametrize(
    ("what", "history"),
    [
        ("nothing", []),
        ("an unknown write that never happened", [Operation(0, None, ("write", 1)), Operation(2, 3, ("read",), 0)]),
        (
            "an unknown write that happened late",
            [Operation(0, None, ("write", 1)), Operation(2, 3, ("read",), 0), Operation(4, 5, ("read",), 1)],
        ),
        ("calls that overlap in either order", [Operation(0, 9, ("write", 1)), Operation(1, 8, ("read",), 0)]),
    ],
)
def test_what_can_be_explained_is_accepted(what: str, history: list[Operation]) -> None:
    assert linearizable(history, 0, register), what


# ---- stores under threads -------------------------------------------------------------------------------------------


def append(*bodies: object) -> Append:
    return Append(LOG, tuple(Entry("n", encode(body)) for body in bodies))


def busy(store: Store, seed: int, calls: int = 9) -> None:
    """Read, swap and append at random, and put up with conflicts."""
    chance = random.Random(seed)
    for n in range(calls):
        key = chance.choice([DOCUMENT, OTHER])
        try:
            match chance.randrange(6):
                case 0:
                    store.read([Get(DOCUMENT), Get(OTHER), Range(LOG)])
                case 1:
                    store.commit(Commit(new_id(), writes=(append([seed, n]),)))
                case 2:
                    store.commit(Commit(new_id(), writes=(Put(key, encode([seed, n])), append([seed, n]))))
                case 3:
                    store.read([ReceiptOf("s", f"shared-{chance.randrange(3)}"), Get(DOCUMENT), Range(LOG)])
                case 4:  # the same id from all of them, for one of two things
                    digest = chance.choice([b"one", b"two"])
                    shared = f"shared-{chance.randrange(3)}"
                    store.commit(Commit(shared, (), (append(str(digest)),), digest, encode(str(digest))))
                case _:
                    found = ask(store, Get(key))
                    expect = Expect(key, found.version if found else 0)
                    store.commit(Commit(new_id(), (expect,), (Put(key, encode([seed, n])),)))
        except (Conflict, CommitUnknown, InvalidInput):
            continue


def sees_one_order(make: Callable[[], Store], rounds: int = ROUNDS) -> list[bool]:
    verdicts = []
    for round in range(rounds):
        recorder = Recorder(make())
        race(*[partial(busy, recorder, 100 * round + thread) for thread in range(4)])
        verdicts.append(linearizable(recorder.history, EMPTY, store_step))
        recorder.close()
    return verdicts


def test_threads_see_one_order_of_a_store_in_memory() -> None:
    assert all(sees_one_order(MemoryStore))


def test_threads_see_one_order_of_a_store_in_a_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(ROUNDS))
        assert all(sees_one_order(lambda: SqliteStore(Path(folder, f"{next(names)}.db"))))


class Forgetful(MemoryStore):
    """Loses every fifth answer: the commit has happened, or has not, and the caller is not told."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def commit(self, commit: Commit) -> Receipt:
        self._calls += 1
        if self._calls % 10 == 0:
            raise CommitUnknown("lost on the way there", commit_id=commit.id)
        receipt = super().commit(commit)
        if self._calls % 5 == 0:
            raise CommitUnknown("lost on the way back", commit_id=commit.id)
        return receipt


def test_lost_answers_do_not_spoil_the_order() -> None:
    assert all(sees_one_order(Forgetful))


class LosesUpdates(MemoryStore):
    """Says yes to every expectation."""

    def commit(self, commit: Commit) -> Receipt:
        threading.Event().wait(0.0002)
        return super().commit(Commit(commit.id, writes=commit.writes))


class ReadsStale(MemoryStore):
    """Answers every other read of a document with what it was before."""

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[Any, Any] = {}

    def _answer(self, question: AnyQuestion) -> Any:
        fresh = super()._answer(question)
        stale = self._copies.get(question, fresh)
        self._copies[question] = fresh
        return stale


class TearsReads(MemoryStore):
    """Answers each question from a moment of its own."""

    def read(self, questions: Any) -> list[Any]:
        answers = []
        for question in questions:
            answers += super().read([question])
            threading.Event().wait(0.0002)
        return answers


class IgnoresDigests(MemoryStore):
    """Takes whatever comes under a known id for a repeat."""

    def commit(self, commit: Commit) -> Receipt:
        known = self._receipts.get((commit.space, commit.id))
        return super().commit(commit if known is None else replace(commit, digest=known.digest))


class AnswersTooLate(MemoryStore):
    """Does not know a receipt until somebody has asked for it once."""

    _asked: set[str] = set()

    def _answer(self, question: AnyQuestion) -> Any:
        found = super()._answer(question)
        if isinstance(found, Receipt) and found.id not in self._asked:
            self._asked = {*self._asked, found.id}
            return None
        return found


@pytest.mark.parametrize("wrong", [LosesUpdates, ReadsStale, TearsReads, IgnoresDigests, AnswersTooLate])
def test_a_wrong_store_is_found_out(wrong: type[MemoryStore]) -> None:
    assert not all(sees_one_order(wrong, rounds=12))


# ---- the step of the port -------------------------------------------------------------------------------------------


def committed(began: int, ended: int | None, commit: Commit, *versions: int) -> Operation:
    return Operation(began, ended, commit, Receipt(commit.id, versions) if versions else None)


def test_a_commit_of_two_keys_is_seen_whole() -> None:
    both = committed(0, 9, Commit("c", writes=(Put(DOCUMENT, encode(1)), append(1))), 1, 1)
    store = MemoryStore()
    empty = store.read([Get(DOCUMENT), Range(LOG)])
    store.commit(both.call)
    full = store.read([Get(DOCUMENT), Range(LOG)])
    questions = (Get(DOCUMENT), Range(LOG))
    for seen in (empty, full):
        assert linearizable([both, Operation(1, 2, questions, seen)], EMPTY, store_step)
    for torn in ([empty[0], full[1]], [full[0], empty[1]]):
        assert not linearizable([both, Operation(1, 2, questions, torn)], EMPTY, store_step)


def test_two_appends_that_got_the_same_place_are_refused() -> None:
    first, second = (committed(n, 9, Commit(f"c{n}", writes=(append(n),)), 1) for n in range(2))
    assert not linearizable([first, second], EMPTY, store_step)


def test_a_conflict_without_cause_is_refused() -> None:
    commit = Commit("c", (Expect(DOCUMENT, 0),), (Put(DOCUMENT, encode(1)),))
    refused = Operation(0, 1, commit, Conflict("no", expected=0, actual=1))
    assert not linearizable([refused], EMPTY, store_step)


def test_an_expectation_that_did_not_hold_is_refused() -> None:
    commit = Commit("c", (Expect(DOCUMENT, 3),), (Put(DOCUMENT, encode(1)),))
    assert not linearizable([committed(0, 1, commit, 1)], EMPTY, store_step)


def test_a_call_that_never_ended_has_an_unknown_outcome() -> None:
    """A thread stuck in a commit leaves a call without an end in the history."""
    store = MemoryStore()
    recorder = Recorder(store)
    seen: list[tuple[Operation, ...]] = []

    class Nosy(MemoryStore):
        def commit(self, commit: Commit) -> Receipt:
            seen.append(recorder.history)
            return super().commit(commit)

    recorder = Recorder(Nosy())
    recorder.commit(Commit("c", writes=(append(1),)))
    assert [(operation.call.id, operation.ended) for operation in seen[0]] == [("c", None)]
    assert len(recorder.history) == 1 and recorder.history[0].ended is not None


def test_what_the_step_does_not_know_is_an_error() -> None:
    with pytest.raises(TypeError, match="Truncate"):
        linearizable([committed(0, 1, Commit("c", writes=(Truncate(LOG, 1),)), 0)], EMPTY, store_step)
