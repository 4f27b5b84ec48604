"""Claims: a tag whose name begins with `=` belongs to one document of its kind at most."""

from __future__ import annotations

from functools import partial

from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput
from strongroom.store import Delete, Put, Scan
from strongroom.testing.conformance.suite import Suite, append, put, race, raises

THREADS = 6
ROUNDS = 8


class Claims(Suite):
    group = "claims"

    def claim(self, id: str, value: str = "x", *, name: str = "=n", kind: str = "thing", space: str = "") -> Put:
        return Put(self.key(id, kind=kind, space=space or None), encode(id), {name: value})

    def holder(self, value: str = "x") -> list[str]:
        return self.ids(Scan(self.space, "thing", {"=n": value}))

    def test_a_claim_is_refused_to_a_second_document(self) -> None:
        """What one document has claimed no other document of its kind gets; the refused commit changes nothing."""
        self.do(self.claim("a"))
        with raises(Conflict) as caught:
            self.do(append(self.key("log"), 1), self.claim("b"), put(self.key("c")))
        assert (caught.error.expected, caught.error.actual) == (0, 1)
        assert self.ids(Scan(self.space, "thing")) == ["a"] and self.stream(self.key("log")).length == 0

    def test_what_differs_is_claimed_apart(self) -> None:
        """Claims of another value, another name, another kind or another space are other claims."""
        self.do(self.claim("a"))
        self.do(self.claim("b", "y"), self.claim("c", name="=m"), self.claim("a", kind="other"))
        self.do(self.claim("a", space=self.space + "-other"))
        assert self.holder() == ["a"] and self.holder("y") == ["b"]

    def test_other_tags_claim_nothing(self) -> None:
        """Any number of documents carry the same tag if its name does not begin with `=`."""
        self.do(put(self.key("a"), 1, n="x"), put(self.key("b"), 1, n="x"))
        assert self.ids(Scan(self.space, "thing", {"n": "x"})) == ["a", "b"]

    def test_a_document_keeps_what_it_claims(self) -> None:
        """Whoever has claimed something may be written again with it."""
        self.do(self.claim("a"))
        assert self.do(self.claim("a")).versions == (2,)

    def test_a_claim_that_was_let_go_is_free(self) -> None:
        """A document that is written without its claim, or deleted, makes room for another."""
        self.do(self.claim("a"))
        self.do(put(self.key("a")))
        self.do(self.claim("b"))
        self.do(Delete(self.key("b")))
        self.do(self.claim("c"))
        assert self.holder() == ["c"]

    def test_a_claim_can_be_handed_over(self) -> None:
        """One commit may take a claim from one document and give it to another, in whatever order."""
        self.do(self.claim("a"))
        self.do(self.claim("b"), put(self.key("a")))
        assert self.holder() == ["b"]
        self.do(Delete(self.key("b")), self.claim("a"))
        assert self.holder() == ["a"]

    def test_two_documents_can_swap_their_claims(self) -> None:
        """What counts is how things stand after the commit."""
        self.do(self.claim("a", "x"), self.claim("b", "y"))
        self.do(self.claim("a", "y"), self.claim("b", "x"))
        assert (self.holder("x"), self.holder("y")) == (["b"], ["a"])

    def test_one_commit_cannot_give_a_claim_twice(self) -> None:
        """A commit whose own documents claim the same is invalid, whatever else it expects."""
        with raises(InvalidInput):
            self.do(self.claim("a"), self.claim("b"))
        assert self.ids(Scan(self.space, "thing")) == []

    def test_a_claim_taken_back_in_the_same_commit_is_none(self) -> None:
        """Only a document's last write in a commit decides what it claims."""
        self.do(self.claim("a"))
        self.do(self.claim("b"), put(self.key("b")))
        self.do(self.claim("c"), Delete(self.key("c")))
        self.do(self.claim("d"), self.claim("d", "y"))
        assert (self.holder("x"), self.holder("y")) == (["a"], ["d"])

    def test_a_claim_is_no_matter_of_length(self) -> None:
        """A long value is claimed as a short one is; values that differ at their end differ."""
        self.do(self.claim("a", "é" * 5000), self.claim("b", "é" * 4999 + "e"))
        with raises(Conflict):
            self.do(self.claim("c", "é" * 5000))

    def test_of_many_who_claim_at_once_one_succeeds(self) -> None:
        """When several threads claim the same for documents of their own, one gets it and the others are refused."""

        def attempt(thread: int, round: int) -> bool:
            try:
                self.do(self.claim(f"{thread}-{round}", str(round)), append(self.key(f"{thread}", kind="log"), round))
            except Conflict:
                return False
            return True

        for round in range(ROUNDS):
            won = race(*[partial(attempt, thread, round) for thread in range(THREADS)])
            assert sum(won) == 1
            assert self.holder(str(round)) == [f"{won.index(True)}-{round}"]
