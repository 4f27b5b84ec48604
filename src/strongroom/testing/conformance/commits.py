"""Commits: all or nothing, at most once, and only if what was expected holds."""

from __future__ import annotations

from collections.abc import Callable

from strongroom.codec import encode
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, StrongroomError
from strongroom.store import (
    EXISTS,
    AnyQuestion,
    Delete,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    Scan,
    Truncate,
    Write,
)
from strongroom.testing.conformance.suite import Suite, append, json_of, put, raises


class Commits(Suite):
    group = "commits"

    # ---- all or nothing ---------------------------------------------------------------------------------------------

    def test_a_commit_applies_all_its_writes(self) -> None:
        """All writes of a commit happen together, across documents and streams."""
        receipt = self.do(put(self.key("a"), 1), append(self.key("s"), 1, 2), put(self.key("b"), 2))
        assert receipt.versions == (1, 2, 1)
        assert (self.value(self.key("a")), self.value(self.key("b"))) == (1, 2)
        assert self.bodies(Range(self.key("s"))) == [1, 2]

    def check_nothing_happens(self, kind: type[StrongroomError], refuse: Callable[[tuple[Write, ...]], object]) -> None:
        """Try every kind of write beside something that is refused, and find everything as it was."""
        document, stream, new = self.key("document"), self.key("stream"), self.key("new")
        self.do(put(document, 1, t="1"), append(stream, 1, 2, 3))
        questions: list[AnyQuestion] = [
            Get(document),
            Range(stream),
            Get(new),
            Range(self.key("log")),
            Scan(self.space, "thing"),
        ]
        before = self.store.read(questions)
        kinds: list[Write] = [
            put(document, 2, t="2"),
            append(stream, 4),
            Truncate(stream, 2),
            Erase(stream, 0, 3),
            Delete(document),
            Delete(stream),
            put(new, 1),
            append(self.key("log"), 1),
        ]
        for writes in [*[(write,) for write in kinds], tuple(kinds)]:
            with raises(kind):
                refuse(writes)
            assert self.store.read(questions) == before

    def test_a_failed_expectation_changes_nothing(self) -> None:
        """If one expectation fails, no write of the commit happens."""
        kept = Expect(self.key("document"), 1)
        self.check_nothing_happens(
            Conflict, lambda writes: self.do(*writes, expects=(kept, Expect(self.key("other"), EXISTS)))
        )

    def test_a_stream_that_is_full_changes_nothing(self) -> None:
        """If one append passes its `max_length`, no write of the commit happens, whatever its place."""
        full = append(self.key("full"), 1, 2, max_length=1)
        self.check_nothing_happens(BudgetExceeded, lambda writes: self.do(*writes, full))
        self.check_nothing_happens(BudgetExceeded, lambda writes: self.do(full, *writes))

    def test_a_wrong_shape_changes_nothing(self) -> None:
        """If one write does not fit its key's shape, no write of the commit happens."""
        self.do(append(self.key("other"), 1))
        self.check_nothing_happens(InvalidInput, lambda writes: self.do(*writes, put(self.key("other"))))

    def test_a_record_too_large_changes_nothing(self) -> None:
        """If one value is too large, no write of the commit happens."""
        large = Put(self.key("large"), json_of(self.max_record_bytes + 1))
        self.check_nothing_happens(InvalidInput, lambda writes: self.do(*writes, large))

    def test_a_refused_commit_leaves_no_shape(self) -> None:
        """A key that a refused commit would have created can still become anything."""
        with raises(Conflict):
            self.do(put(self.key()), expects=(Expect(self.key("b"), EXISTS),))
        assert self.do(append(self.key(), 1)).versions == (1,)

    # ---- order ------------------------------------------------------------------------------------------------------

    def test_writes_to_one_key_are_applied_in_order(self) -> None:
        """Several writes to one key in one commit happen in order, and each counts."""
        receipt = self.do(put(self.key(), 1, t="1"), put(self.key(), 2), Delete(self.key()), put(self.key(), 3, t="3"))
        assert receipt.versions == (1, 2, 3, 4)
        found = self.document(self.key())
        assert (found.version, found.value, found.tags) == (4, encode(3), {"t": "3"})

    def test_stream_writes_to_one_key_are_applied_in_order(self) -> None:
        """Appends, truncations, erasures and deletions of one stream in one commit see each other."""
        receipt = self.do(
            append(self.key(), "a", "b", "c"),
            Truncate(self.key(), 1),
            append(self.key(), "d"),
            Erase(self.key(), 0, 2),
        )
        assert receipt.versions == (3, 3, 4, 4)
        assert [record.body for record in self.stream(self.key()).records] == [None, encode("c"), encode("d")]
        assert self.do(Delete(self.key()), append(self.key(), "e")).versions == (4, 5)
        assert [record.index for record in self.stream(self.key()).records] == [4]

    def test_the_receipt_follows_the_writes(self) -> None:
        """The receipt has the commit's id and, for each write in order, the version its key has then."""
        self.do(append(self.key("s"), 1, 2))
        receipt = self.do(append(self.key("s"), 3), put(self.key("d")), Delete(self.key("x")), id="chosen")
        assert receipt == Receipt("chosen", (3, 1, 0))

    def test_a_commit_may_only_check(self) -> None:
        """A commit without writes checks its expectations and writes nothing."""
        self.do(put(self.key()))
        assert self.do(expects=(Expect(self.key(), 1),)).versions == ()
        with raises(Conflict):
            self.do(expects=(Expect(self.key(), 2),))


class Expectations(Suite):
    group = "expectations"

    def holds(self, key: Key, *versions: int) -> list[bool]:
        """Whether the key is expected at each of these versions."""
        held = []
        for version in versions:
            try:
                self.do(expects=(Expect(key, version),))
                held.append(True)
            except Conflict:
                held.append(False)
        return held

    def test_what_never_was_does_not_exist(self) -> None:
        """Before anything is written, a key is expected at 0 and at nothing else."""
        assert self.holds(self.key(), 0, EXISTS, 1) == [True, False, False]

    def test_a_document_is_expected_at_its_version(self) -> None:
        """An expectation on a document holds at exactly its version, or at `EXISTS`."""
        self.do(put(self.key()))
        self.do(put(self.key()))
        assert self.holds(self.key(), 0, 1, 2, 3, EXISTS) == [
            False,
            False,
            True,
            False,
            True,
        ]

    def test_a_stream_is_expected_at_its_length(self) -> None:
        """An expectation on a stream holds at exactly its length, or at `EXISTS`."""
        self.do(append(self.key(), "a", "b"))
        assert self.holds(self.key(), 0, 1, 2, 3, EXISTS) == [
            False,
            False,
            True,
            False,
            True,
        ]

    def test_a_deleted_document_does_not_exist(self) -> None:
        """A deleted document is expected at 0, not at the version of its tombstone."""
        self.do(put(self.key()))
        self.do(Delete(self.key()))
        assert self.holds(self.key(), 0, 1, 2, EXISTS) == [True, False, False, False]

    def test_a_deleted_stream_does_not_exist(self) -> None:
        """A deleted stream is expected at 0, not at the length its tombstone keeps."""
        self.do(append(self.key(), 1, 2))
        self.do(Delete(self.key()))
        assert self.holds(self.key(), 0, 1, 2, EXISTS) == [True, False, False, False]

    def test_what_comes_after_deletion_is_expected_at_its_own_version(self) -> None:
        """Who expects the old version after a deletion and a new start is refused."""
        self.do(put(self.key("d")), append(self.key("s"), 1))
        self.do(Delete(self.key("d")), Delete(self.key("s")))
        self.do(put(self.key("d")), append(self.key("s"), 1))
        assert self.holds(self.key("d"), 1, 3) == [False, True]
        assert self.holds(self.key("s"), 1, 2) == [False, True]

    def test_truncation_does_not_move_a_length(self) -> None:
        """A truncated or erased stream is expected at the length it had."""
        self.do(append(self.key(), 1, 2, 3))
        self.do(Truncate(self.key(), 2), Erase(self.key(), 2, 3))
        assert self.holds(self.key(), 1, 3) == [False, True]

    def test_a_conflict_tells_what_is_there(self) -> None:
        """A conflict says what was expected, what is there, and which key it is about."""
        self.do(put(self.key("d")), append(self.key("s"), 1, 2))
        for key, expected, actual in (
            (self.key("d"), 7, 1),
            (self.key("s"), 0, 2),
            (self.key("none"), EXISTS, 0),
        ):
            with raises(Conflict) as caught:
                self.do(put(self.key("x")), expects=(Expect(key, expected),))
            assert (caught.error.expected, caught.error.actual, caught.error.key) == (expected, actual, key)

    def test_expectations_are_judged_before_the_writes(self) -> None:
        """Expectations are about the state before the commit, never about what it writes itself."""
        self.do(put(self.key()), put(self.key()), expects=(Expect(self.key(), 0),))
        with raises(Conflict):
            self.do(put(self.key("b")), expects=(Expect(self.key("b"), 1),))
        with raises(Conflict):
            self.do(Delete(self.key()), put(self.key("b")), expects=(Expect(self.key(), 0),))
        with raises(Conflict):
            self.do(append(self.key("s"), 1), expects=(Expect(self.key("s"), EXISTS),))

    def test_every_expectation_must_hold(self) -> None:
        """It takes only one expectation that fails, wherever it stands, to refuse a commit."""
        self.do(put(self.key("a")), put(self.key("b")))
        right, wrong = Expect(self.key("a"), 1), Expect(self.key("b"), 2)
        for expects in ((wrong, right), (right, wrong)):
            with raises(Conflict):
                self.do(put(self.key("c")), expects=expects)

    def test_an_expectation_may_be_about_another_key(self) -> None:
        """A commit may expect one thing and write another: a check that guards everything else."""
        self.do(put(self.key("lease")))
        self.do(append(self.key("log"), 1), expects=(Expect(self.key("lease"), 1),))
        self.do(put(self.key("lease")))
        with raises(Conflict):
            self.do(append(self.key("log"), 2), expects=(Expect(self.key("lease"), 1),))
        assert self.bodies(Range(self.key("log"))) == [1]
