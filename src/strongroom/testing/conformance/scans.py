"""Scans: the documents of a kind, by tag, in pages that stay true while others write."""

from __future__ import annotations

from strongroom.errors import InvalidInput
from strongroom.store import Delete, Page, Scan, ask
from strongroom.testing.conformance.documents import NAMES
from strongroom.testing.conformance.suite import Suite, append, put, race, raises


class Scans(Suite):
    group = "scans"

    def scan(
        self, tags: dict[str, str] | None = None, *, after: str | None = None, limit: int = 100, reverse: bool = False
    ) -> Scan:
        return Scan(self.space, "thing", tags or {}, after, limit, reverse)

    def fill(self, *ids: str) -> None:
        for id in ids:
            self.do(put(self.key(id), id))

    def test_a_scan_follows_the_order_of_creation(self) -> None:
        """Documents come in the order they were created, not by name and not by last change."""
        self.fill("m", "z", "a")
        self.do(put(self.key("m"), "changed"))
        assert self.ids(self.scan()) == ["m", "z", "a"]

    def test_a_scan_can_go_backwards(self) -> None:
        """`reverse` answers the newest first."""
        self.fill("m", "z", "a")
        assert self.ids(self.scan(reverse=True)) == ["a", "z", "m"]

    def test_documents_of_one_commit_keep_its_order(self) -> None:
        """Documents created by one commit come in the order of its writes."""
        self.do(put(self.key("b")), put(self.key("c")), put(self.key("a")))
        assert self.ids(self.scan()) == ["b", "c", "a"]

    def test_a_removal_does_not_decide_the_order_of_creation(self) -> None:
        """What a commit removes before it puts it, and was not there, is created where it is put."""
        self.do(Delete(self.key("b")), put(self.key("c")), put(self.key("b")))
        assert self.ids(self.scan()) == ["c", "b"]

    def test_a_scan_answers_whole_documents(self) -> None:
        """A scan answers each document as `Get` would."""
        self.do(put(self.key("a"), {"x": 1}, colour="red"))
        self.do(put(self.key("a"), {"x": 2}, colour="blue"))
        assert ask(self.store, self.scan()) == Page((self.document(self.key("a")),), None)

    def test_a_scan_sees_only_its_kind(self) -> None:
        """Documents of another kind and streams are not part of a scan."""
        self.fill("a")
        self.do(put(self.key("b", kind="thing2")), append(self.key("c"), 1))
        assert self.ids(self.scan()) == ["a"]

    def test_a_scan_of_nothing_is_empty(self) -> None:
        """A scan that finds nothing answers an empty page, and no next one."""
        assert ask(self.store, self.scan()) == Page((), None)

    def test_a_deleted_document_is_not_found(self) -> None:
        """A scan does not find what was deleted."""
        self.fill("a", "b", "c")
        self.do(Delete(self.key("b")))
        assert self.ids(self.scan()) == ["a", "c"]

    def test_a_document_that_comes_back_keeps_its_place(self) -> None:
        """A key is created once: a document written again after deletion is where the first one was."""
        self.fill("a", "b")
        self.do(Delete(self.key("a")))
        self.fill("c", "a")
        assert self.ids(self.scan()) == ["a", "b", "c"]

    # ---- tags -------------------------------------------------------------------------------------------------------

    def test_a_scan_finds_by_tag(self) -> None:
        """A scan with a tag finds the documents that carry it with exactly that value."""
        self.do(put(self.key("a"), 1, colour="red"), put(self.key("b"), 1, colour="blue"), put(self.key("c"), 1))
        assert self.ids(self.scan({"colour": "red"})) == ["a"]
        assert self.ids(self.scan({"colour": "re"})) == []

    def test_all_tags_must_match(self) -> None:
        """A scan with several tags finds the documents that carry all of them."""
        self.do(put(self.key("a"), 1, colour="red", size="big"))
        self.do(put(self.key("b"), 1, colour="red", size="small"))
        self.do(put(self.key("c"), 1, size="big"))
        assert self.ids(self.scan({"colour": "red", "size": "big"})) == ["a"]

    def test_a_tag_that_was_replaced_no_longer_matches(self) -> None:
        """A scan goes by the tags a document has now."""
        self.do(put(self.key("a"), 1, state="open"))
        self.do(put(self.key("a"), 1, state="done"))
        assert self.ids(self.scan({"state": "open"})) == []
        assert self.ids(self.scan({"state": "done"})) == ["a"]

    def test_a_deleted_documents_tags_do_not_match(self) -> None:
        """What was deleted is not found by its tags either, nor is what came after it by the old ones."""
        self.do(put(self.key("a"), 1, state="open"))
        self.do(Delete(self.key("a")))
        assert self.ids(self.scan({"state": "open"})) == []
        self.do(put(self.key("a"), 1))
        assert self.ids(self.scan({"state": "open"})) == []

    def test_tags_are_stored_literally(self) -> None:
        """Tag names and values are compared character by character."""
        for place, name in enumerate(NAMES):
            self.do(put(self.key(str(place)), 1, **{name: "name", "value": name}))
        for place, name in enumerate(NAMES):
            assert self.ids(self.scan({name: "name"})) == [str(place)]
            assert self.ids(self.scan({"value": name})) == [str(place)]

    # ---- pages ------------------------------------------------------------------------------------------------------

    def test_pages_join_without_gap_or_repeat(self) -> None:
        """Following `next` shows every document once, in order, in both directions, whatever the page size."""
        names = [f"d{n}" for n in range(7)]
        self.fill(*names)
        for limit in (1, 2, 3, 7, 8):
            assert self.pages(self.scan(limit=limit)) == names
            assert self.pages(self.scan(limit=limit, reverse=True)) == names[::-1]

    def test_pages_of_a_tag_join_too(self) -> None:
        """Pages of a scan by tag leave out what does not match, and nothing else."""
        for n in range(9):
            self.do(put(self.key(f"d{n}"), n, odd=str(n % 2)))
        assert self.pages(self.scan({"odd": "1"}, limit=2)) == ["d1", "d3", "d5", "d7"]
        assert self.pages(self.scan({"odd": "1"}, limit=2, reverse=True)) == ["d7", "d5", "d3", "d1"]

    def test_a_page_for_nothing_is_empty(self) -> None:
        """A scan that asks for no documents gets none, and no next page: there is nothing to go on from."""
        self.fill("a", "b")
        for reverse in (False, True):
            assert ask(self.store, self.scan(limit=0, reverse=reverse)) == Page((), None)

    def test_the_last_page_has_no_next(self) -> None:
        """A page that ends with the last document says that there is no next one."""
        self.fill("a", "b")
        assert ask(self.store, self.scan(limit=2)).next is None
        assert ask(self.store, self.scan(limit=1)).next is not None

    def test_pages_stand_still_while_documents_are_added(self) -> None:
        """What is created between two pages never repeats or hides a document that was there."""
        self.fill("a", "b", "c", "d")
        new = ["n6", "n5", "n4", "n3", "n2", "n1"]

        def add() -> None:
            if new:
                self.fill(new.pop())

        assert self.pages(self.scan(limit=1, reverse=True), add) == ["d", "c", "b", "a"]
        assert self.pages(self.scan(limit=3), add) == ["a", "b", "c", "d", "n1", "n2", "n3", "n4", "n5"]

    def test_pages_stand_still_while_documents_are_deleted(self) -> None:
        """Deleting what was already shown, even the last one, does not hide what comes next."""
        self.fill("a", "b", "c", "d")
        shown = iter("abcd")
        assert self.pages(self.scan(limit=1), lambda: self.do(Delete(self.key(next(shown))))) == list("abcd")

    def test_pages_stand_still_while_threads_write(self) -> None:
        """While threads add documents, pages still show each earlier document exactly once, in order."""
        first = [f"d{n}" for n in range(8)]
        self.fill(*first)

        def adding(thread: int) -> None:
            self.fill(*[f"t{thread}-{n}" for n in range(12)])

        def paging() -> list[list[str]]:
            return [self.pages(self.scan(limit=2, reverse=n % 2 == 1)) for n in range(6)]

        walks = race(paging, *[lambda thread=thread: adding(thread) for thread in range(3)])[0]
        for place, found in enumerate(walks):
            assert len(found) == len(set(found)), "a document was shown twice"
            old = [id for id in found if id in first]
            assert old == (first if place % 2 == 0 else first[::-1])

    def test_a_cursor_must_be_a_cursor(self) -> None:
        """A cursor that no page returned is refused, not guessed at."""
        self.fill("a")
        for after in ("", "x", "-1", "1.5", " 1", "1 OR 1=1", "9" * 40):
            with raises(InvalidInput):
                self.store.read([self.scan(after=after)])
