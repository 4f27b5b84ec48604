"""Reads within a bound: what fits comes, in order, from one snapshot. Skipped for stores that do not declare it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import SkipTest

from msgspec.structs import replace

from strongroom.codec import encode
from strongroom.store import (
    Answer,
    AnyQuestion,
    Append,
    Bounded,
    Document,
    Entry,
    Find,
    Get,
    Page,
    Part,
    Put,
    Range,
    Scan,
    Searchable,
    Slice,
    Tail,
)
from strongroom.testing.conformance.suite import Suite

LARGE = 4_000
PLENTY = 1_000_000


class Bounds(Suite):
    """What is asked for within a number of bytes."""

    group = "bounds"

    def within(self, max_bytes: int, *questions: AnyQuestion) -> Part:
        if not isinstance(self.store, Bounded):
            raise SkipTest("this store does not bound its reads")
        return self.store.read_within(questions, max_bytes)

    def fill_with_large(self, count: int = 5) -> None:
        """Documents d0, d1, ... and a stream of as many records, each of them large."""
        for number in range(count):
            self.do(Put(self.key(f"d{number}"), encode(f"{number}" * LARGE), {"n": "x", "m": "y"}))
        self.do(Append(self.key("log", kind="log"), tuple(Entry("e", encode(f"{n}" * LARGE)) for n in range(count))))

    def test_what_fits_is_what_read_answers(self) -> None:
        """A read with room for everything is a read."""
        self.fill_with_large()
        log = self.key("log", kind="log")
        asked: list[AnyQuestion] = [
            Get(self.key("d1")),
            Get(self.key("nothing")),
            Range(log),
            Range(log, 1, 3),
            Range(log, 0, 0),
            Tail(log, 2),
            Tail(log, max_weight=0),
            Scan(self.space, "thing"),
            Scan(self.space, "thing", {"n": "x", "m": "y"}, limit=2, reverse=True),
            Range(self.key("nothing", kind="log")),
        ]
        assert self.within(PLENTY, *asked) == Part(self.store.read(asked))
        assert self.within(0) == Part([])

    def test_documents_end_where_they_do_not_fit(self) -> None:
        """The answers are those to the first questions, however small the later ones are."""
        self.fill_with_large()
        self.do(Put(self.key("small"), encode(1)))
        gets = [Get(self.key(id)) for id in ("d0", "d1", "d2", "small")]
        assert self.within(2 * LARGE + 100, *gets) == Part(self.store.read(gets[:2]))

    def test_the_first_thing_always_comes(self) -> None:
        """However little room there is, whoever asks on makes progress."""
        self.fill_with_large()
        log = self.key("log", kind="log")
        for question in (
            Get(self.key("d0")),
            Range(log),
            Tail(log),
            Tail(log, max_weight=9),
            Scan(self.space, "thing"),
        ):
            part = self.within(1, question, Get(self.key("d1")))
            assert len(part.answers) == 1 and len(_things(part.answers)) == 1
            assert part.cut is not isinstance(question, Get)

    def test_a_range_ends_early(self) -> None:
        """What is left out is its end, and the answer says so."""
        self.fill_with_large()
        log = self.key("log", kind="log")
        part = self.within(3 * LARGE + 300, Range(log, 1))
        [found] = part.answers
        assert part.cut and isinstance(found, Slice)
        assert (found.length, found.first, [each.index for each in found.records]) == (5, 0, [1, 2, 3])

    def test_a_tail_begins_late(self) -> None:
        """What is left out are its oldest records, with or without a limit by weight."""
        self.fill_with_large()
        for tail in (Tail(self.key("log", kind="log")), Tail(self.key("log", kind="log"), 4, max_weight=0)):
            part = self.within(2 * LARGE + 300, tail)
            [found] = part.answers
            assert part.cut and isinstance(found, Slice)
            assert [each.index for each in found.records] == [3, 4]

    def test_a_scan_says_where_to_go_on(self) -> None:
        """Going on from page to page gives everything once, whatever fits on a page."""
        self.fill_with_large()
        for tags in ({}, {"n": "x"}, {"n": "x", "m": "y"}):
            for reverse in (False, True):
                scan = Scan(self.space, "thing", dict(tags), limit=3, reverse=reverse)
                found: list[str] = []
                while True:
                    part = self.within(2 * LARGE + 100, scan)
                    [page] = part.answers
                    assert isinstance(page, Page) and part.cut == (len(page.documents) == 2)
                    found += [document.key.id for document in page.documents]
                    if page.next is None:
                        break
                    scan = replace(scan, after=page.next)
                assert found == [f"d{n}" for n in range(5)][:: -1 if reverse else 1]

    def test_a_full_page_is_not_cut(self) -> None:
        """What a question itself asked for is whole, although there is more."""
        self.fill_with_large()
        log = self.key("log", kind="log")
        for question in (Scan(self.space, "thing", limit=2), Range(log, limit=2), Tail(log, 2)):
            part = self.within(2 * LARGE + 300, question)
            assert part == Part(self.store.read([question]))

    def test_questions_share_the_room(self) -> None:
        """Nothing is answered behind the question that the read ended in."""
        self.fill_with_large()
        log = self.key("log", kind="log")
        part = self.within(3 * LARGE + 300, Get(self.key("d0")), Range(log), Get(self.key("d1")))
        assert part.cut and len(part.answers) == 2 and len(_things(part.answers)) == 3
        part = self.within(2 * LARGE + 300, Range(log, 0, 2), Tail(log), Get(self.key("d1")))
        assert (len(part.answers), part.cut) == (1, False)

    def test_texts_count(self) -> None:
        """What is searchable is held too."""
        for id in ("a", "b"):
            self.do(Put(self.key(id), encode(1), {}, "word " * LARGE))
        assert len(self.within(LARGE, Get(self.key("a")), Get(self.key("b"))).answers) == 1

    def test_matches_end_where_they_do_not_fit(self) -> None:
        """A search within a bound finds the best of what it finds without one, and always something."""
        if not isinstance(self.store, Searchable):
            raise SkipTest("this store cannot search")
        for number in range(4):
            self.do(Put(self.key(f"d{number}"), encode(f"{number}" * LARGE), {}, f"apple {number}"))
        find = Find(self.space, "thing", ("appl",))
        whole = self.store.search(find).matches
        for max_bytes, count in ((0, 1), (2 * LARGE + 300, 2), (PLENTY, 4)):
            found = self.store.search(replace(find, max_bytes=max_bytes))
            assert (found.matches, found.cut) == (whole[:count], count < 4)

    def test_a_search_goes_on_where_it_ended(self) -> None:
        """What had no room is found behind what was passed over, as if it had been asked for at once."""
        if not isinstance(self.store, Searchable):
            raise SkipTest("this store cannot search")
        for number in range(4):
            self.do(Put(self.key(f"d{number}"), encode(f"{number}" * LARGE), {}, f"apple {number}"))
        find = Find(self.space, "thing", ("appl",), max_bytes=2 * LARGE + 300)
        whole = self.store.search(replace(find, max_bytes=None))
        assert not whole.cut
        assert (whole.behind, self.store.search(find).behind) == (4, 2)
        rest = self.store.search(replace(find, skip=2))
        assert (rest.matches, rest.cut) == (whole.matches[2:], False)
        assert (rest.total, rest.counts) == (whole.total, whole.counts)
        assert self.store.search(replace(find, skip=1, limit=2)).matches == whole.matches[1:3]
        assert self.store.search(replace(find, skip=4)).matches == ()


def _things(answers: Sequence[Answer]) -> list[Any]:
    found: list[Any] = []
    for answer in answers:
        if isinstance(answer, Slice):
            found += answer.records
        elif isinstance(answer, Page):
            found += answer.documents
        elif isinstance(answer, Document):
            found.append(answer)
    return found
