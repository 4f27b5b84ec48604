"""What the checker knows of tails, of repeated commits and of calls that failed."""

from __future__ import annotations

from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore
from strongroom.codec import encode
from strongroom.errors import Conflict, Unavailable
from strongroom.store import Append, Commit, Entry, Get, Key, Receipt, ReceiptOf, Tail, used_otherwise
from strongroom.testing import EMPTY, Operation, linearizable, store_step

LOG = Key("s", "log", "l")
AGAIN = Commit("again", (), (Append(LOG, (Entry("n", encode(1)),)),), b"asked", encode("told"))
OTHER = Commit("other", (), (Append(LOG, (Entry("n", encode(2)),)),))


def receipt(*versions: int, repeated: bool = False) -> Receipt:
    return Receipt(AGAIN.id, versions, AGAIN.digest, AGAIN.answer, repeated)


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
    made = (Operation(0, 1, AGAIN, receipt(1)), Operation(2, 3, OTHER, Receipt("other", (2,))))
    assert explained(*made, Operation(4, 5, AGAIN, receipt(1, repeated=True)))
    assert not explained(*made, Operation(4, 5, AGAIN, receipt(3, repeated=True)))
    assert not explained(*made, Operation(4, 5, AGAIN, receipt(1)))


def test_a_receipt_says_what_was_asked_and_answered() -> None:
    for wrong in (replace(receipt(1), digest=b"other"), replace(receipt(1), answer=encode("other"))):
        assert not explained(Operation(0, 1, AGAIN, wrong))
        assert not explained(Operation(0, 1, AGAIN, receipt(1)), Operation(2, 3, AGAIN, replace(wrong, repeated=True)))


def test_other_content_under_a_known_id_is_refused_and_no_other() -> None:
    refused = used_otherwise(AGAIN.id)
    otherwise = replace(AGAIN, digest=b"something else")
    made = Operation(0, 1, AGAIN, receipt(1))
    assert explained(made, Operation(2, 3, otherwise, refused))
    assert not explained(made, Operation(2, 3, AGAIN, refused))
    assert not explained(made, Operation(2, 3, otherwise, receipt(1, repeated=True)))
    assert not explained(Operation(2, 3, otherwise, refused))


def test_a_receipt_is_there_once_its_commit_was_made() -> None:
    made = Operation(2, 3, AGAIN, receipt(1))
    asked = (ReceiptOf("s", AGAIN.id),)
    there, elsewhere = [receipt(1, repeated=True)], (ReceiptOf("t", AGAIN.id),)
    assert explained(made, Operation(0, 1, asked, [None]), Operation(4, 5, asked, there))
    assert explained(made, Operation(4, 5, elsewhere, [None]))
    assert not explained(made, Operation(4, 5, asked, [None]))
    assert not explained(made, Operation(0, 1, asked, there))
    assert not explained(made, Operation(4, 5, elsewhere, there))


def test_a_repeat_tells_what_became_of_an_unknown_commit() -> None:
    lost = Operation(0, None, AGAIN)
    other = Operation(2, 3, OTHER, Receipt("other", (2,)))
    assert explained(lost, other, Operation(4, 5, AGAIN, receipt(1, repeated=True)))
    assert not explained(lost, other, Operation(4, 5, AGAIN, receipt(3, repeated=True)))


def test_a_commit_that_was_made_is_not_refused_later() -> None:
    made = Operation(0, 1, AGAIN, receipt(1))
    assert not explained(made, Operation(2, 3, AGAIN, Conflict("no", expected=0, actual=1)))


def test_a_read_that_failed_or_never_ended_says_nothing() -> None:
    made = Operation(0, 1, AGAIN, receipt(1))
    failed = Operation(2, 3, (Get(LOG),), Unavailable("not now"))
    assert explained(made, failed, Operation(4, None, (Get(LOG),)))


def test_a_commit_that_failed_changed_nothing() -> None:
    failed = Operation(0, 1, AGAIN, Unavailable("not now"))
    assert explained(failed, Operation(2, 3, OTHER, Receipt("other", (1,))))
    assert not explained(failed, Operation(2, 3, OTHER, Receipt("other", (2,))))
