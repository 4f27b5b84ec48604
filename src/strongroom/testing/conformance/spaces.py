"""Spaces: a tenant sees itself and nobody else, on every question and on every write."""

from __future__ import annotations

from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.store import (
    Commit,
    Delete,
    Erase,
    Expect,
    Get,
    Page,
    Range,
    Scan,
    Slice,
    Tail,
    Truncate,
    ask,
    ask_all,
    new_id,
)
from strongroom.testing.conformance.documents import NAMES
from strongroom.testing.conformance.suite import Suite, append, put, raises


class Spaces(Suite):
    group = "spaces"

    def other(self) -> str:
        return f"{self.space}-other"

    def test_documents_of_another_space_are_absent(self) -> None:
        """`Get` never answers with another space's document."""
        self.do(put(self.key()))
        assert self.store.read([Get(self.key(space=self.other()))]) == [None]

    def test_streams_of_another_space_are_empty(self) -> None:
        """`Range` and `Tail` never answer with another space's records, nor with their number."""
        self.do(append(self.key(), 1, 2))
        theirs = self.key(space=self.other())
        assert self.store.read([Range(theirs), Tail(theirs), Tail(theirs, max_weight=9)]) == [Slice(0, 0, ())] * 3

    def test_scans_stay_in_their_space(self) -> None:
        """`Scan` never finds another space's documents, with tags or without."""
        self.do(put(self.key(), 1, colour="red"))
        for tags in ({}, {"colour": "red"}):
            assert ask(self.store, Scan(self.other(), "thing", tags)) == Page((), None)

    def test_a_cursor_opens_no_other_space(self) -> None:
        """A cursor from one space shows nothing of it when used in another."""
        for n in range(3):
            self.do(put(self.key(str(n))))
            self.do(put(self.key(f"theirs{n}", space=self.other())))
        for reverse in (False, True):
            after = ask(self.store, Scan(self.space, "thing", limit=1, reverse=reverse)).next
            page = ask(self.store, Scan(self.other(), "thing", after=after, reverse=reverse))
            assert all(document.key.space == self.other() for document in page.documents)

    def test_expectations_stay_in_their_space(self) -> None:
        """What exists in one space does not exist in another: `Expect(key, 0)` holds there."""
        self.do(put(self.key()))
        theirs = self.key(space=self.other())
        assert self.do(put(theirs), expects=(Expect(theirs, 0),)).versions == (1,)

    def test_writes_stay_in_their_space(self) -> None:
        """Writing, cutting, erasing and deleting in one space leaves the same names in another as they were."""
        document, stream = self.key("d"), self.key("s")
        self.do(put(document, "mine"), append(stream, "mine"))
        before = self.store.read([Get(document), Range(stream)])
        theirs, log = self.key("d", space=self.other()), self.key("s", space=self.other())
        self.do(put(theirs, "theirs"), append(log, "theirs", "too"))
        self.do(Delete(theirs), Truncate(log, 1), Erase(log, 0, 9))
        self.do(Delete(log))
        assert self.store.read([Get(document), Range(stream)]) == before

    def test_shapes_stay_in_their_space(self) -> None:
        """A name may be a document in one space and a stream in another."""
        self.do(put(self.key(), 1))
        self.do(append(self.key(space=self.other()), 2))
        assert self.value(self.key()) == 1
        assert self.bodies(Range(self.key(space=self.other()))) == [2]

    def test_a_commit_cannot_span_spaces(self) -> None:
        """A commit that names two spaces cannot even be made."""
        with raises(InvalidInput):
            Commit(new_id(), writes=(put(self.key()), put(self.key(space=self.other()))))
        with raises(InvalidInput):
            Commit(new_id(), (Expect(self.key(space=self.other()), 0),), (put(self.key()),))

    def test_one_read_may_ask_several_spaces(self) -> None:
        """One read may ask about several spaces; each answer is its own space's."""
        mine, theirs = self.key(), self.key(space=self.other())
        self.do(put(mine, "mine"))
        self.do(put(theirs, "theirs"))
        found = ask_all(self.store, [Get(theirs), Get(mine)])
        assert [document and document.value for document in found] == [encode("theirs"), encode("mine")]

    def test_space_names_are_stored_literally(self) -> None:
        """A space is its exact name: no pattern, prefix, case or separator makes two of them meet."""
        prefix = self.space[:200]
        names = [f"{prefix}{name}"[:255] for name in NAMES if len(name) < 50]
        for name in names:
            self.do(put(self.key(space=name), name))
        for name in names:
            page = ask(self.store, Scan(name, "thing"))
            assert [document.value.load() for document in page.documents] == [name]

    def test_parts_of_a_key_do_not_cross_spaces(self) -> None:
        """Moving a separator from the space into the kind names another space's key."""
        for separator in ":/|,.-_ ":
            mine = self.key(space=f"{self.space}{separator}x", kind="k")
            theirs = self.key(space=self.space, kind=f"x{separator}k")
            self.do(put(mine, "mine"))
            assert self.get(theirs) is None
