"""Streams: gapless, append-only lists of records that may be cut, blanked and deleted, but never renumbered."""

from __future__ import annotations

from hashlib import sha256
from unittest import SkipTest

from strongroom.codec import Json, encode
from strongroom.errors import BudgetExceeded
from strongroom.store import EXISTS, Append, Delete, Entry, Erase, Expect, Range, Record, Slice, Tail, Truncate
from strongroom.testing.conformance.documents import VALUES
from strongroom.testing.conformance.suite import Suite, append, raises, weighing

ONE, TWO, THREE = (bytes([n]) * 32 for n in (1, 2, 3))


def committing(*commitments: bytes | None) -> tuple[Entry, ...]:
    return tuple(Entry("note", encode(None), commitment=commitment) for commitment in commitments)


def chain(*commitments: bytes) -> bytes:
    """The chain value after these commitments, as the port defines it."""
    value = bytes(32)
    for commitment in commitments:
        value = sha256(value + commitment).digest()
    return value


class Streams(Suite):
    group = "streams"

    def test_an_unknown_stream_is_empty(self) -> None:
        """A stream nobody wrote to answers length 0 and no records."""
        assert self.store.read([Range(self.key()), Tail(self.key())]) == [Slice(0, 0, ()), Slice(0, 0, ())]

    def test_indexes_count_from_zero(self) -> None:
        """Records are indexed from 0, without a gap, in the order they were appended."""
        self.do(append(self.key(), "a", "b"))
        self.do(append(self.key(), "c"))
        found = self.stream(self.key())
        assert [(record.index, record.body) for record in found.records] == [
            (0, encode("a")),
            (1, encode("b")),
            (2, encode("c")),
        ]
        assert (found.length, found.first) == (3, 0)

    def test_the_receipt_tells_the_length(self) -> None:
        """The receipt of an append tells the length after it, and so the index of each new record."""
        assert [self.do(append(self.key(), *range(n))).versions for n in (1, 2, 3)] == [(1,), (3,), (6,)]

    def test_every_column_comes_back(self) -> None:
        """All that an entry says comes back unchanged."""
        entry = Entry("Tool.Call \U0001f600", encode([1]), 7, 1_700_000_000_000_001, "from", "to", "some\ntext", ONE)
        self.do(Append(self.key(), (entry,)))
        assert self.stream(self.key()).records == (
            Record(0, entry.type, entry.body, 7, entry.at, "from", "to", "some\ntext", ONE, chain(ONE)),
        )

    def test_what_was_left_out_stays_out(self) -> None:
        """An absent sender, receiver, text or commitment is None, and an empty one is empty."""
        self.do(Append(self.key(), (Entry("a", encode(1)), Entry("b", encode(1), sender="", receiver="", text=""))))
        bare, empty = self.stream(self.key()).records
        assert (bare.sender, bare.receiver, bare.text, bare.commitment, bare.chain) == (None, None, None, None, None)
        assert (empty.sender, empty.receiver, empty.text) == ("", "", "")

    def test_bodies_come_back_byte_for_byte(self) -> None:
        """A record's body is read, byte for byte, as it was written."""
        self.do(append(self.key(), *VALUES))
        found = [record.body for record in self.stream(self.key()).records]
        assert found == [encode(value) for value in VALUES]
        assert {type(body) for body in found} == {Json}, "a body must come back as Json"

    def test_texts_come_back_character_for_character(self) -> None:
        """Type, sender, receiver and text may hold any character, NUL included, and are not changed by one."""
        for odd in ("a\x00b", "\x1b[0m\r\n\t", "\u202e\ufeff\u2028", "e\u0301", "\U0001f600", "'\"\\%_"):
            self.do(Append(self.key(odd.encode().hex()), (Entry(odd, encode(1), 0, 0, odd, odd, odd),)))
            found = self.stream(self.key(odd.encode().hex())).records[0]
            assert (found.type, found.sender, found.receiver, found.text) == (odd, odd, odd, odd)

    def test_a_weight_may_be_large(self) -> None:
        """Weights are whole numbers up to 2**53 and are not rounded."""
        self.do(weighing(self.key(), 2**53 - 1))
        assert self.stream(self.key()).records[0].weight == 2**53 - 1

    def test_a_store_in_this_process_hands_back_the_very_object(self) -> None:
        """Where a store says that it keeps native objects, it hands back the same object."""
        if not self.keeps_native:
            raise SkipTest("this store does not keep native objects")
        thing = object()
        self.do(Append(self.key(), (Entry("note", encode(1), native=thing),)))
        assert self.stream(self.key()).records[0].native is thing

    # ---- max_length -------------------------------------------------------------------------------------------------

    def test_an_append_up_to_max_length_is_taken(self) -> None:
        """An append may fill a stream up to its own `max_length`."""
        assert self.do(append(self.key(), 1, 2, max_length=2)).versions == (2,)

    def test_an_append_over_max_length_is_refused_whole(self) -> None:
        """An append that would pass its `max_length` is refused whole, with the limit and what was needed."""
        self.do(append(self.key(), 1))
        with raises(BudgetExceeded) as caught:
            self.do(append(self.key(), 2, 3, max_length=2))
        assert (caught.error.limit, caught.error.needed) == (2, 3)
        assert self.bodies(Range(self.key())) == [1]

    def test_max_length_counts_earlier_appends_of_the_commit(self) -> None:
        """`max_length` counts what the same commit appended before."""
        with raises(BudgetExceeded):
            self.do(append(self.key(), 1, 2), append(self.key(), 3, max_length=2))
        assert self.stream(self.key()).length == 0

    def test_max_length_counts_dropped_records(self) -> None:
        """`max_length` is about the length, which truncation does not shorten."""
        self.do(append(self.key(), 1, 2))
        self.do(Truncate(self.key(), 2))
        with raises(BudgetExceeded):
            self.do(append(self.key(), 3, max_length=2))

    # ---- truncation -------------------------------------------------------------------------------------------------

    def test_truncation_drops_the_oldest(self) -> None:
        """Truncation drops the records below its index and no other."""
        self.do(append(self.key(), "a", "b", "c"))
        assert self.do(Truncate(self.key(), 2)).versions == (3,)
        found = self.stream(self.key())
        assert [(record.index, record.body) for record in found.records] == [(2, encode("c"))]
        assert (found.length, found.first) == (3, 2)

    def test_truncation_never_brings_records_back(self) -> None:
        """A truncation below an earlier one changes nothing."""
        self.do(append(self.key(), "a", "b", "c"))
        self.do(Truncate(self.key(), 2))
        self.do(Truncate(self.key(), 1))
        assert (self.stream(self.key()).first, self.bodies(Range(self.key()))) == (2, ["c"])

    def test_truncation_beyond_the_end_keeps_the_length(self) -> None:
        """Truncating more than there is empties the stream and keeps its length."""
        self.do(append(self.key(), "a", "b"))
        assert self.do(Truncate(self.key(), 99)).versions == (2,)
        assert self.stream(self.key()) == Slice(2, 2, ())

    def test_indexes_go_on_after_truncation(self) -> None:
        """The next record after a truncation has the next index."""
        self.do(append(self.key(), "a", "b"))
        self.do(Truncate(self.key(), 2))
        assert self.do(append(self.key(), "c")).versions == (3,)
        assert [record.index for record in self.stream(self.key()).records] == [2]

    def test_a_stream_truncated_to_nothing_still_exists(self) -> None:
        """A stream without records is still there, at its length."""
        self.do(append(self.key(), "a"))
        self.do(Truncate(self.key(), 1))
        self.do(expects=(Expect(self.key(), EXISTS), Expect(self.key(), 1)))

    def test_truncating_the_unknown_makes_no_stream(self) -> None:
        """Truncating or erasing what never existed is fine, answers 0 and leaves no trace."""
        assert self.do(Truncate(self.key(), 5), Erase(self.key(), 0, 5)).versions == (0, 0)
        self.do(expects=(Expect(self.key(), 0),))
        assert self.do(append(self.key(), 1)).versions == (1,)

    # ---- erasure ----------------------------------------------------------------------------------------------------

    def test_erasure_blanks_the_content(self) -> None:
        """Erasing removes body, text and names of the records in its range."""
        self.do(Append(self.key(), (Entry("note", encode("secret"), 5, 6, "ana", "bob", "secret", ONE),)))
        assert self.do(Erase(self.key(), 0, 1)).versions == (1,)
        erased = self.stream(self.key()).records[0]
        assert (erased.body, erased.text, erased.sender, erased.receiver) == (None, None, None, None)

    def test_erasure_keeps_the_place(self) -> None:
        """An erased record keeps its index, type, weight, time, commitment and chain."""
        self.do(Append(self.key(), (Entry("note", encode("secret"), 5, 6, "ana", commitment=ONE),)))
        before = self.stream(self.key()).records[0]
        self.do(Erase(self.key(), 0, 1))
        after = self.stream(self.key()).records[0]
        kept = ("index", "type", "weight", "at", "commitment", "chain")
        assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]

    def test_erasure_keeps_to_its_range(self) -> None:
        """Erasing start <= index < stop leaves every other record as it was, wherever the range ends."""
        self.do(append(self.key(), "a", "b", "c", "d"))
        self.do(Erase(self.key(), 1, 3))
        self.do(Erase(self.key(), 4, 9))
        self.do(Erase(self.key(), 2, 1))
        assert [record.body for record in self.stream(self.key()).records] == [encode("a"), None, None, encode("d")]

    def test_erasure_after_truncation_goes_by_index(self) -> None:
        """Erasure counts by index, also when the oldest records are gone."""
        self.do(append(self.key(), "a", "b", "c", "d"))
        self.do(Truncate(self.key(), 2))
        self.do(Erase(self.key(), 0, 3))
        assert [record.body for record in self.stream(self.key()).records] == [None, encode("d")]

    # ---- deletion ---------------------------------------------------------------------------------------------------

    def test_a_deleted_stream_is_empty(self) -> None:
        """A deleted stream answers like one that never was."""
        self.do(append(self.key(), "a", "b"))
        assert self.do(Delete(self.key())).versions == (2,), "the tombstone keeps the length"
        assert self.store.read([Range(self.key()), Tail(self.key())]) == [Slice(0, 0, ()), Slice(0, 0, ())]

    def test_an_index_is_never_used_twice(self) -> None:
        """Indexes go on after a deletion: no new record can be taken for an old one."""
        self.do(append(self.key(), "a", "b"))
        self.do(Delete(self.key()))
        assert self.do(append(self.key(), "c")).versions == (3,)
        found = self.stream(self.key())
        assert (found.length, found.first) == (3, 2)
        assert [(record.index, record.body) for record in found.records] == [(2, encode("c"))]

    def test_truncation_does_not_revive_a_deleted_stream(self) -> None:
        """Truncating or erasing a deleted stream leaves it deleted."""
        self.do(append(self.key(), "a", "b"))
        self.do(Delete(self.key()))
        self.do(Truncate(self.key(), 1), Erase(self.key(), 0, 9))
        self.do(expects=(Expect(self.key(), 0),))
        assert self.stream(self.key()) == Slice(0, 0, ())

    # ---- the hash chain ---------------------------------------------------------------------------------------------

    def test_the_chain_hashes_the_commitments(self) -> None:
        """Each commitment extends the chain: sha256(previous + commitment), from 32 zero bytes."""
        self.do(Append(self.key(), committing(ONE, TWO)))
        self.do(Append(self.key(), committing(THREE)))
        found = [record.chain for record in self.stream(self.key()).records]
        assert found == [chain(ONE), chain(ONE, TWO), chain(ONE, TWO, THREE)]

    def test_entries_without_a_commitment_carry_the_chain_on(self) -> None:
        """An entry without a commitment has the chain of the one before, or None before the first."""
        self.do(Append(self.key(), committing(None, ONE, None)))
        self.do(Append(self.key(), committing(None, TWO)))
        found = [record.chain for record in self.stream(self.key()).records]
        assert found == [None, chain(ONE), chain(ONE), chain(ONE), chain(ONE, TWO)]

    def test_the_chain_survives_truncation(self) -> None:
        """The chain goes on from records that are gone."""
        self.do(Append(self.key(), committing(ONE, TWO)))
        self.do(Truncate(self.key(), 1))
        self.do(Truncate(self.key(), 2))
        self.do(Append(self.key(), committing(THREE)))
        assert [record.chain for record in self.stream(self.key()).records] == [chain(ONE, TWO, THREE)]

    def test_the_chain_survives_erasure(self) -> None:
        """The chain goes on over records that were erased."""
        self.do(Append(self.key(), committing(ONE, TWO)))
        self.do(Erase(self.key(), 0, 2))
        self.do(Append(self.key(), committing(THREE)))
        found = [record.chain for record in self.stream(self.key()).records]
        assert found == [chain(ONE), chain(ONE, TWO), chain(ONE, TWO, THREE)]

    def test_the_chain_survives_deletion(self) -> None:
        """The chain goes on after the stream was deleted."""
        self.do(Append(self.key(), committing(ONE, TWO)))
        self.do(Delete(self.key()))
        self.do(Append(self.key(), committing(THREE)))
        assert [record.chain for record in self.stream(self.key()).records] == [chain(ONE, TWO, THREE)]
