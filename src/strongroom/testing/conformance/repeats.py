"""Repeats: an id stands for one commit, its digest for what was asked; the first answer is given again, exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from strongroom.codec import Json, encode
from strongroom.errors import Conflict, InvalidInput, StrongroomError
from strongroom.store import (
    EXISTS,
    MAX_ANSWER,
    Commit,
    Delete,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Truncate,
    Write,
    ask,
    ask_all,
    new_id,
)
from strongroom.testing.conformance.suite import Suite, append, json_of, put, race, raises, watch

THREADS = 6
ROUNDS = 8
ONE, OTHER = b"\x00one" * 4, b"other\xff" * 2
# Digests that differ in length, in their last byte, or in what some take for nothing.
DIGESTS = [b"", b"\x00", b"\x00" * 16, b"\x01" * 15, b"\x01" * 16, b"\x01" * 17, b"\x01" * 15 + b"\x02", b"\xff" * 32]
ANSWERS: list[object] = [
    None,
    0,
    "",
    {},
    [],
    "\U0001f600\x00",
    {"a": [1, 2.5, None]},
    2**63 - 1,
    {"b": {"a": "x" * 1000}},
]


class Repeats(Suite):
    group = "repeats"

    def chosen(self) -> list[str]:
        """An id of ours, and ids as callers choose them."""
        return [new_id(), f"turn-7-{self.space}", f"!{new_id()}", f"\u00e9-{self.space}"]

    def receipt(self, id: str, space: str | None = None) -> Receipt | None:
        return ask(self.store, ReceiptOf(space or self.space, id))

    def test_a_repeated_commit_happens_once(self) -> None:
        """Repeating a commit returns the first receipt and changes nothing."""
        commit = Commit(new_id(), writes=(append(self.key("s"), 1), put(self.key("d"), 1)), digest=ONE)
        first = self.store.commit(commit)
        self.do(put(self.key("d"), "later"))
        assert self.store.commit(commit).versions == first.versions == (1, 1)
        assert self.value(self.key("d")) == "later"
        assert self.stream(self.key("s")).length == 1

    def test_a_repeat_says_that_it_is_one(self) -> None:
        """The first receipt is not marked as `repeated`, every later one is; in all else they are equal."""
        for keep in (False, True):
            for id in self.chosen():
                commit = Commit(f"{id}{keep:d}", (), (append(self.key(), 1),), ONE, encode({"given": id}), keep)
                first = self.store.commit(commit)
                assert not first.repeated
                assert self.store.commit(commit) == self.store.commit(commit) == _repeated(first)

    def test_a_repeat_is_not_judged_again(self) -> None:
        """A repeat succeeds although its expectations no longer hold: they held when it happened."""
        commit = Commit(new_id(), (Expect(self.key(), 0),), (put(self.key()),))
        assert _repeated(self.store.commit(commit)) == self.store.commit(commit)

    def test_a_repeat_is_known_by_its_id_and_its_digest(self) -> None:
        """What is written is not compared: a repeat that read the clock again is still the same."""
        first = self.store.commit(Commit("same", (), (put(self.key(), "first"),), ONE))
        again = Commit("same", (), (put(self.key("b"), "second"), append(self.key("c"), 1)), ONE)
        assert self.store.commit(again) == _repeated(first)
        assert self.get(self.key("b")) is None

    def test_an_id_stands_for_one_content(self) -> None:
        """A commit with an id that was used, and another digest, is refused and changes nothing."""
        for id in self.chosen():
            key = self.key(id[:20])
            first = self.store.commit(Commit(id, (), (append(key, 1),), ONE))
            for write in (append(key, 2), put(self.key("d"), 1), Delete(key)):
                with raises(InvalidInput) as caught:
                    self.store.commit(Commit(id, (), (write,), OTHER))
                assert caught.error.path == "commit_id"
            assert self.bodies(Range(key)) == [1]
            assert self.get(self.key("d")) is None
            assert self.receipt(id) == _repeated(first)

    def test_an_id_used_otherwise_is_refused_before_anything_else(self) -> None:
        """Who uses an id for something else hears of that, not of expectations, lengths or shapes."""
        self.store.commit(Commit("used", (), (append(self.key(), 1),), ONE))
        wrong: list[Write] = [put(self.key()), append(self.key(), 2, max_length=1)]
        for write in wrong:
            with raises(InvalidInput) as caught:
                self.store.commit(Commit("used", (Expect(self.key(), 9),), (write,), OTHER))
            assert caught.error.path == "commit_id"

    def test_digests_are_compared_whole(self) -> None:
        """Two digests are the same only if they have the same bytes, none included."""
        for place, digest in enumerate(DIGESTS):
            id = f"digest-{place}"
            first = self.store.commit(Commit(id, (), (append(self.key(), place),), digest))
            assert first.digest == digest
            for other in DIGESTS:
                again = Commit(id, (), (append(self.key(), "again"),), other)
                if other == digest:
                    assert self.store.commit(again) == _repeated(first)
                else:
                    with raises(InvalidInput):
                        self.store.commit(again)
        assert self.bodies(Range(self.key())) == list(range(len(DIGESTS)))

    def test_an_answer_is_kept_exactly(self) -> None:
        """What a commit gives as its answer comes back with its receipt, byte for byte, and None as None."""
        answers: list[Json | None] = [None, json_of(MAX_ANSWER), *map(encode, ANSWERS)]
        for place, answer in enumerate(answers):
            id = f"answer-{place}"
            commit = Commit(id, (), (append(self.key(), place),), ONE, answer)
            assert self.store.commit(commit) == Receipt(id, (place + 1,), ONE, answer)
            assert self.store.commit(commit) == self.receipt(id) == Receipt(id, (place + 1,), ONE, answer, True)

    def test_the_first_answer_counts(self) -> None:
        """A repeat that would answer otherwise gets the first answer."""
        self.store.commit(Commit("same", (), (put(self.key()),), ONE, encode("first")))
        again = self.store.commit(Commit("same", (), (put(self.key()),), ONE, encode("second")))
        assert again.answer == encode("first")

    def test_a_check_without_writes_is_remembered_too(self) -> None:
        """A commit that only checked answers the same when repeated, or asked for."""
        self.do(put(self.key()))
        commit = Commit(new_id(), (Expect(self.key(), 1),), (), ONE, encode(7), True)
        first = self.store.commit(commit)
        self.do(put(self.key()))
        assert self.store.commit(commit) == self.receipt(commit.id) == _repeated(first)

    # ---- asking for a receipt ---------------------------------------------------------------------------------------

    def test_a_receipt_can_be_asked_for(self) -> None:
        """`ReceiptOf` answers with the receipt of a commit that was made, marked as repeated."""
        for keep in (False, True):
            for id in self.chosen():
                writes = (put(self.key("d")), append(self.key("s"), 1, 2))
                first = self.store.commit(Commit(f"{id}{keep:d}", (), writes, ONE, keep=keep))
                assert self.receipt(f"{id}{keep:d}") == _repeated(first)

    def test_receipts_of_appends_can_be_asked_for(self) -> None:
        """It does so for each of many appends, the newest and the oldest, by ids of ours."""
        made = [self.store.commit(Commit(new_id(), (), (append(self.key(), n),), ONE)) for n in range(30)]
        assert ask_all(self.store, [ReceiptOf(self.space, each.id) for each in made]) == [*map(_repeated, made)]

    def test_what_was_never_committed_has_no_receipt(self) -> None:
        """`ReceiptOf` answers None for an id that was not used."""
        self.do(append(self.key(), 1))
        assert ask_all(self.store, [ReceiptOf(self.space, id) for id in self.chosen()]) == [None] * 4

    def test_a_refused_commit_has_no_receipt(self) -> None:
        """However a commit is refused, `ReceiptOf` answers None."""
        self.do(append(self.key("s"), 1))
        refused: list[Write] = [
            append(self.key("s"), 2, max_length=1),
            put(self.key("s")),
            Put(self.key("d"), json_of(self.max_record_bytes + 1)),
        ]
        for place, write in enumerate(refused):
            with raises(StrongroomError):
                self.store.commit(Commit(f"refused-{place}", (), (write,), ONE, keep=True))
            assert self.receipt(f"refused-{place}") is None
        with raises(Conflict):
            self.store.commit(Commit("refused", (Expect(self.key("s"), 9),), (put(self.key("d")),), ONE, keep=True))
        assert self.receipt("refused") is None

    def test_a_receipt_outlives_what_was_written(self) -> None:
        """A receipt is there although what its commit wrote was cut, erased or deleted."""
        ends: list[Write] = [Truncate(self.key(), 9), Erase(self.key(), 0, 9), Delete(self.key())]
        for end in ends:
            commit = Commit(new_id(), (), (append(self.key(), 1),), ONE)
            first = self.store.commit(commit)
            self.do(end)
            assert self.receipt(commit.id) == self.store.commit(commit) == _repeated(first)

    def test_asking_for_a_receipt_changes_nothing(self) -> None:
        """Asked for or not, an id that was not used can be used, and one that was stays used."""
        commit = Commit("asked", (), (append(self.key(), 1),), ONE)
        assert self.receipt("asked") is None
        assert not self.store.commit(commit).repeated
        assert self.receipt("asked") == self.receipt("asked")
        assert self.store.commit(commit).repeated
        assert self.stream(self.key()).length == 1

    # ---- what is refused --------------------------------------------------------------------------------------------

    def test_a_refused_commit_leaves_its_id_free(self) -> None:
        """A refused commit leaves no trace: the same id may be tried again, and then it happens."""
        commit = Commit(new_id(), (Expect(self.key("gate"), EXISTS),), (append(self.key("s"), 1),))
        for _ in range(2):
            with raises(Conflict):
                self.store.commit(commit)
        self.do(put(self.key("gate")))
        assert self.store.commit(commit).versions == (1,)
        assert self.stream(self.key("s")).length == 1

    def test_every_refusal_leaves_the_id_free(self) -> None:
        """The id of a commit refused for its length, shape or size may be tried again, too, with other content."""
        self.do(append(self.key("s"), 1))
        large = Put(self.key("d"), json_of(self.max_record_bytes + 1))
        refused: list[Write] = [append(self.key("s"), 2, max_length=1), put(self.key("s")), large]
        for place, bad in enumerate(refused):
            with raises(StrongroomError):
                self.store.commit(Commit(f"tried-{place}", (), (bad,), ONE))
            good = self.store.commit(Commit(f"tried-{place}", (), (append(self.key("s"), place),), OTHER))
            assert good == Receipt(f"tried-{place}", (place + 2,), OTHER)

    def test_commit_ids_are_compared_literally(self) -> None:
        """Two ids are the same only if they are the same characters."""
        ids = ["a", "A", "a ", "%", "'", "\u00e9", "e\u0301", "x" * 255, "0" * 32, "0" * 31, "0" * 31 + "A", "!a"]
        for length, id in enumerate(ids, 1):
            assert self.receipt(id) is None
            assert self.do(append(self.key(), id), id=id).versions == (length,)

    # ---- spaces -----------------------------------------------------------------------------------------------------

    def test_an_id_of_another_space_is_another_id(self) -> None:
        """The same id in two spaces is two commits, whatever their digests, and each has its own receipt."""
        other = f"{self.space}-other"
        for id in self.chosen():
            mine, theirs = self.key(id[:20]), self.key(id[:20], space=other)
            self.store.commit(Commit(id, (), (append(mine, "mine", "too"),), ONE, encode("mine"), True))
            assert self.receipt(id, other) is None
            self.store.commit(Commit(id, (), (append(theirs, "theirs"),), OTHER, encode("theirs"), True))
            assert self.receipt(id) == Receipt(id, (2,), ONE, encode("mine"), True)
            assert self.receipt(id, other) == Receipt(id, (1,), OTHER, encode("theirs"), True)
            assert (self.bodies(Range(mine)), self.bodies(Range(theirs))) == (["mine", "too"], ["theirs"])

    # ---- many at once -----------------------------------------------------------------------------------------------

    def test_one_commit_from_many_threads_happens_once(self) -> None:
        """However many threads send one commit at once, it happens once, and all but one are told so."""
        for n in range(ROUNDS):
            for id in (new_id(), f"round-{n}"):
                key = self.key(id[:20])
                commit = Commit(id, (), (append(key, n),), ONE, encode(n), True)
                outcomes = race(*[partial(self.store.commit, commit)] * THREADS)
                assert sorted(outcome.repeated for outcome in outcomes) == [False] + [True] * (THREADS - 1)
                assert {_repeated(outcome) for outcome in outcomes} == {Receipt(id, (1,), ONE, encode(n), True)}
                assert self.stream(key).length == 1

    def test_one_of_many_contents_wins_an_id(self) -> None:
        """Of threads that use one id for different things at once one gets it, and the others are refused."""
        for n in range(ROUNDS):
            key = self.key(str(n))
            commits = [Commit(f"won-{n}", (), (append(key, who),), b"%16d" % who) for who in range(THREADS)]
            outcomes = race(*[partial(self.store.commit, commit) for commit in commits])
            winners = [who for who, outcome in enumerate(outcomes) if isinstance(outcome, Receipt)]
            assert [winners] == [self.bodies(Range(key))]
            assert sum(isinstance(outcome, InvalidInput) for outcome in outcomes) == THREADS - 1
            found = self.receipt(f"won-{n}")
            assert found is not None and found.digest == b"%16d" % winners[0]

    def test_a_receipt_is_seen_with_what_it_stands_for(self) -> None:
        """In one read a commit and its receipt are both there, or neither is."""
        self._watch_receipts(lambda n: f"step-{n}", keep=True)

    def test_a_receipt_of_ours_is_seen_with_what_it_stands_for(self) -> None:
        """The same holds for ids that are ours, while threads read and write."""
        ids = [new_id() for _ in range(1000)]
        self._watch_receipts(lambda n: ids[n], keep=False)

    def _watch_receipts(self, id: Callable[[int], str], *, keep: bool) -> None:
        key, log = self.key("d"), self.key("s")
        self.do(put(key, 0))

        def write(n: int) -> None:
            writes = (put(key, n + 1), append(log, n))
            first = self.store.commit(Commit(id(n), (), writes, ONE, keep=keep))
            assert self.receipt(id(n)) == _repeated(first), "an acknowledged commit has no receipt"

        def look() -> None:
            seen = self.document(key).value.load()
            found, made, next = ask(
                self.store, Get(key), ReceiptOf(self.space, id(max(seen - 1, 0))), ReceiptOf(self.space, id(seen))
            )
            assert found is not None
            assert (made is not None) == (found.value.load() > 0), "what is there has no receipt"
            assert (next is not None) == (found.value.load() > seen), "a read saw two moments"

        watch(write, look, times=40)

    def test_receipts_answer_from_many_threads(self) -> None:
        """Any number of threads may ask for one receipt while others commit."""
        commit = Commit("wanted", (), (append(self.key("wanted"), 1),), ONE, encode("kept"), True)
        expected = _repeated(self.store.commit(commit))

        def look() -> list[Receipt | None]:
            return [self.receipt("wanted") for _ in range(ROUNDS)]

        def writing(key: Key) -> None:
            for n in range(ROUNDS):
                self.do(append(key, n))

        writers = [partial(writing, self.key(str(n))) for n in range(2)]
        outcomes = race(*[look] * 4, *writers)
        assert outcomes == [[expected] * ROUNDS] * 4 + [None] * 2


def _repeated(receipt: Receipt) -> Receipt:
    return Receipt(receipt.id, receipt.versions, receipt.digest, receipt.answer, True)
