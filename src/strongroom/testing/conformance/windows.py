"""Windows: what `Range` and `Tail` find in a stream."""

from __future__ import annotations

from strongroom.store import (
    Erase,
    Range,
    Slice,
    Tail,
    Truncate,
    ask,
    ask_all,
)
from strongroom.testing.conformance.suite import Suite, append, weighing


class Windows(Suite):
    group = "windows"

    def test_a_range_is_half_open(self) -> None:
        """A range answers start <= index < stop, ascending."""
        self.do(append(self.key(), *range(6)))
        assert self.bodies(Range(self.key(), 2, 5)) == [2, 3, 4]

    def test_a_range_without_bounds_is_everything(self) -> None:
        """A range without bounds answers every record."""
        self.do(append(self.key(), *range(6)))
        assert self.bodies(Range(self.key())) == [0, 1, 2, 3, 4, 5]

    def test_a_range_stops_at_its_limit(self) -> None:
        """A range answers at most `limit` records, the oldest of those it covers."""
        self.do(append(self.key(), *range(6)))
        assert self.bodies(Range(self.key(), 1, limit=2)) == [1, 2]
        assert self.bodies(Range(self.key(), 4, 5, limit=3)) == [4]
        assert self.bodies(Range(self.key(), limit=0)) == []

    def test_a_range_outside_the_stream_is_empty(self) -> None:
        """A range beyond the end, or one that ends before it starts, has no records but knows the length."""
        self.do(append(self.key(), *range(3)))
        for start, stop in ((3, None), (9, 12), (2, 1), (0, 0)):
            assert ask(self.store, Range(self.key(), start, stop)) == Slice(3, 0, ())

    def test_a_range_starts_at_the_oldest_record_left(self) -> None:
        """A range that starts among dropped records starts at the oldest one left; its limit counts from there."""
        self.do(append(self.key(), *range(6)))
        self.do(Truncate(self.key(), 3))
        assert self.bodies(Range(self.key(), 0, limit=2)) == [3, 4]
        assert self.bodies(Range(self.key(), 1, 4)) == [3]
        assert self.bodies(Range(self.key(), 0, 2)) == []

    def test_a_tail_without_bounds_is_everything(self) -> None:
        """A tail without bounds answers every record, oldest first."""
        self.do(append(self.key(), *range(6)))
        assert self.bodies(Tail(self.key())) == [0, 1, 2, 3, 4, 5]

    def test_a_tail_has_the_newest(self) -> None:
        """A tail by count answers the newest records, oldest first."""
        self.do(append(self.key(), *range(6)))
        assert self.bodies(Tail(self.key(), 2)) == [4, 5]

    def test_a_tail_may_be_longer_than_the_stream(self) -> None:
        """A tail of more records than there are answers all of them; one of 0 answers none."""
        self.do(append(self.key(), *range(3)))
        assert self.bodies(Tail(self.key(), 9)) == [0, 1, 2]
        assert ask(self.store, Tail(self.key(), 0)) == Slice(3, 0, ())

    def test_a_tail_ends_before_an_index(self) -> None:
        """`before` moves the end of a tail: it answers the newest of the records below that index."""
        self.do(append(self.key(), *range(6)))
        assert self.bodies(Tail(self.key(), 2, before=3)) == [1, 2]
        assert self.bodies(Tail(self.key(), 2, before=99)) == [4, 5]
        assert self.bodies(Tail(self.key(), 2, before=0)) == []

    def test_tails_page_back_to_the_start(self) -> None:
        """Asking again with `before` at the oldest index seen walks back over every record once."""
        self.do(append(self.key(), *range(7)))
        seen: list[int] = []
        before = None
        while found := ask(self.store, Tail(self.key(), 3, before=before)).records:
            seen = [record.index for record in found] + seen
            before = found[0].index
        assert seen == [0, 1, 2, 3, 4, 5, 6]

    def test_a_tail_fits_its_weight(self) -> None:
        """A tail by weight is the longest suffix that weighs no more than `max_weight`."""
        self.do(weighing(self.key(), 5, 1, 2, 3))
        assert [self.bodies(Tail(self.key(), max_weight=room)) for room in (2, 3, 4, 5, 6, 10, 11)] == [
            [],
            [3],
            [3],
            [2, 3],
            [1, 2, 3],
            [1, 2, 3],
            [5, 1, 2, 3],
        ]

    def test_a_tail_never_skips_a_record(self) -> None:
        """A tail by weight stops at the first record that does not fit, even if older ones would."""
        self.do(weighing(self.key(), 1, 9, 1))
        assert self.bodies(Tail(self.key(), max_weight=5)) == [1]
        assert ask(self.store, Tail(self.key(), max_weight=5)).records[0].index == 2

    def test_a_newest_record_that_is_too_heavy_leaves_nothing(self) -> None:
        """If the newest record alone is too heavy the tail is empty."""
        self.do(weighing(self.key(), 1, 9))
        assert ask(self.store, Tail(self.key(), max_weight=8)) == Slice(2, 0, ())

    def test_weightless_records_are_free(self) -> None:
        """Records of weight 0 always fit, so the longest suffix has them."""
        self.do(weighing(self.key(), 7, 0, 0, 3, 0))
        assert self.bodies(Tail(self.key(), max_weight=3)) == [0, 0, 3, 0]
        assert self.bodies(Tail(self.key(), max_weight=0)) == [0]

    def test_weights_add_up_exactly(self) -> None:
        """Weights are added as whole numbers, however large."""
        large = 2**53 - 1
        self.do(weighing(self.key(), 1, large, large))
        assert len(self.bodies(Tail(self.key(), max_weight=2 * large))) == 2
        assert len(self.bodies(Tail(self.key(), max_weight=2 * large + 1))) == 3

    def test_a_tail_keeps_to_all_its_bounds(self) -> None:
        """Count, weight and `before` hold together: the tightest decides."""
        self.do(weighing(self.key(), 1, 2, 3, 4, 5))
        assert self.bodies(Tail(self.key(), 3, max_weight=9, before=4)) == [2, 3, 4]
        assert self.bodies(Tail(self.key(), 2, max_weight=9, before=4)) == [3, 4]
        assert self.bodies(Tail(self.key(), 3, max_weight=8, before=4)) == [3, 4]

    def test_a_tail_ends_at_the_oldest_record_left(self) -> None:
        """A tail of a truncated stream has only what is left; one before that is empty."""
        self.do(weighing(self.key(), 1, 2, 3, 4))
        self.do(Truncate(self.key(), 2))
        assert self.bodies(Tail(self.key(), 9)) == [3, 4]
        assert self.bodies(Tail(self.key(), max_weight=99)) == [3, 4]
        assert self.bodies(Tail(self.key(), before=1)) == []

    def test_an_erased_record_still_weighs(self) -> None:
        """An erased record keeps its weight, so a window does not move when content is erased."""
        self.do(weighing(self.key(), 1, 2, 3))
        self.do(Erase(self.key(), 1, 2))
        found = ask(self.store, Tail(self.key(), max_weight=5)).records
        assert [record.index for record in found] == [1, 2]

    def test_a_window_tells_the_whole_length(self) -> None:
        """Every answer tells the stream's whole length and its oldest index, whatever part it shows."""
        self.do(append(self.key(), *range(6)))
        self.do(Truncate(self.key(), 2))
        key = self.key()
        questions: list[Range | Tail] = [Range(key, 3, 4), Tail(key, 1), Tail(key, max_weight=0, before=3)]
        for found in ask_all(self.store, questions):
            assert (found.length, found.first) == (6, 2)
