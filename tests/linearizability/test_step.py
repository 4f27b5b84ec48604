"""What the checker knows of tails, of repeated commits and of calls that failed."""

from __future__ import annotations

from strongroom.backends.memory import MemoryStore
from strongroom.codec import encode
from strongroom.errors import Conflict, Unavailable
from strongroom.store import Append, Commit, Entry, Get, Key, Receipt, Tail
from strongroom.testing import EMPTY, Operation, linearizable, store_step

LOG = Key("s", "log", "l")
AGAIN = Commit("again", (), (Append(LOG, (Entry("n", encode(1)),)),))
OTHER = Commit("other", (), (Append(LOG, (Entry("n", encode(2)),)),))


def explained(*operations: Operation) -> bool:
    return linearizable(operations, EMPTY, store_step)


def test_a_tail_has_the_newest_records() -> None:
    store = MemoryStore()
    made = [Operation(n, n, commit, store.commit(commit)) for n, commit in enumerate((AGAIN, OTHER))]
    for count in (0, 1, 2, 9):
        right = store.read([Tail(LOG, count)])
        assert explained(*made, Operation(5, 6, (Tail(LOG, count),), right))
    assert not explained(*made, Operation(5, 6, (Tail(LOG, 1),), store.read([Tail(LOG, 2)])))


def test_a_repeated_commit_gets_the_first_receipt() -> None:
    made = (Operation(0, 1, AGAIN, Receipt("again", (1,))), Operation(2, 3, OTHER, Receipt("other", (2,))))
    assert explained(*made, Operation(4, 5, AGAIN, Receipt("again", (1,))))
    assert not explained(*made, Operation(4, 5, AGAIN, Receipt("again", (3,))))


def test_a_repeat_tells_what_became_of_an_unknown_commit() -> None:
    lost = Operation(0, None, AGAIN)
    other = Operation(2, 3, OTHER, Receipt("other", (2,)))
    assert explained(lost, other, Operation(4, 5, AGAIN, Receipt("again", (1,))))
    assert not explained(lost, other, Operation(4, 5, AGAIN, Receipt("again", (3,))))


def test_a_commit_that_was_made_is_not_refused_later() -> None:
    made = Operation(0, 1, AGAIN, Receipt("again", (1,)))
    assert not explained(made, Operation(2, 3, AGAIN, Conflict("no", expected=0, actual=1)))


def test_a_read_that_failed_or_never_ended_says_nothing() -> None:
    made = Operation(0, 1, AGAIN, Receipt("again", (1,)))
    failed = Operation(2, 3, (Get(LOG),), Unavailable("not now"))
    assert explained(made, failed, Operation(4, None, (Get(LOG),)))


def test_a_commit_that_failed_changed_nothing() -> None:
    failed = Operation(0, 1, AGAIN, Unavailable("not now"))
    assert explained(failed, Operation(2, 3, OTHER, Receipt("other", (1,))))
    assert not explained(failed, Operation(2, 3, OTHER, Receipt("other", (2,))))
