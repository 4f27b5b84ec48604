"""Searching: what a full-text index finds and never finds. Skipped for stores without one."""

from __future__ import annotations

import random
from unittest import SkipTest

from strongroom.backends.memory import MemoryStore
from strongroom.codec import encode
from strongroom.errors import Closed, Conflict
from strongroom.stemming import words
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Find,
    Found,
    Key,
    Put,
    Searchable,
    Truncate,
    Write,
    new_id,
)
from strongroom.testing.conformance.suite import Suite, raises

VOCABULARY = [
    "apple",
    "pears",
    "running",
    "runner",
    "größe",
    "naïve",
    "日本語",
    "东京",
    "zero",
    "one-two",
    "x1",
    "CAPITALS",
]


def said(key: Key, *texts: str | None) -> Append:
    """An append of records with these texts, each with its place as its body."""
    return Append(key, tuple(Entry("note", encode(place), text=text) for place, text in enumerate(texts)))


def noted(key: Key, text: str | None, /, **tags: str) -> Put:
    return Put(key, encode("a value"), tags, text)


class Searches(Suite):
    group = "search"

    def searchable(self) -> Searchable:
        if not isinstance(self.store, Searchable):
            raise SkipTest("this store has no full-text index")
        return self.store

    def look(self, text: str, *, kind: str = "thing", id: str | None = None, space: str | None = None) -> Found:
        found: Found = self.searchable().search(Find(space or self.space, kind, words(text), id))
        return found

    def positions(self, text: str, /, **tags: str) -> list[tuple[str, int | None]]:
        """The ids of matching documents, and the ids and indexes of matching records, sorted."""
        found: Found = self.searchable().search(Find(self.space, "thing", words(text), None, tags))
        return sorted((match.key.id, match.record.index if match.record else None) for match in found.matches)

    # ---- what is found ----------------------------------------------------------------------------------------------

    def test_a_record_is_found_at_once(self) -> None:
        """The text of a record is found as soon as its commit is acknowledged, and the match is the record itself."""
        self.searchable()
        for turn in range(3):
            self.do(said(self.key("s"), f"apples number {turn}"))
            assert self.positions("apple") == [("s", index) for index in range(turn + 1)]
        newest = self.stream(self.key("s")).records[2]
        assert newest in [match.record for match in self.look("number 2").matches]

    def test_a_document_is_found_at_once(self) -> None:
        """The text of a document is found as soon as its commit is acknowledged, and the match is the document."""
        self.searchable()
        self.do(noted(self.key("d"), "ripe pears", t="1"))
        assert [match.document for match in self.look("pear").matches] == [self.document(self.key("d"))]

    def test_any_of_the_words_is_enough(self) -> None:
        """A place that holds any of the words is found; one that holds none is not."""
        self.searchable()
        self.do(said(self.key("s"), "apples", "pears", "plums", "apples and pears"))
        assert self.positions("apple pear") == [("s", 0), ("s", 1), ("s", 3)]

    def test_of_equals_the_newest_comes_first(self) -> None:
        """Places that promise the same are ordered by the age of their keys, streams and documents alike."""
        self.searchable()
        self.do(said(self.key("first"), None, "pears"))
        self.do(noted(self.key("second"), "pears"))
        self.do(said(self.key("third"), "pears"))
        assert [match.key.id for match in self.look("pear").matches] == ["third", "second", "first"]

    def test_only_text_is_searched(self) -> None:
        """What stands only in a body, a value, a tag or a name is not found."""
        self.searchable()
        self.do(
            Append(self.key("s"), (Entry("apple", encode("apple"), sender="apple", receiver="apple"),)),
            Put(self.key("apple"), encode("apple"), {"apple": "apple"}),
        )
        assert self.look("apple") == Found(0, {"appl": 0}, ())

    def test_places_and_words_are_counted(self) -> None:
        """A search tells how many places have a text, and in how many of them each word stands."""
        self.searchable()
        self.do(said(self.key("s"), "apples", None, "apples and pears", "plums"), noted(self.key("d"), "pears"))
        found = self.look("apple pear quince")
        assert (found.total, found.counts) == (4, {"appl": 2, "pear": 2, "quinc": 0})

    def test_a_search_stops_at_its_limit(self) -> None:
        """A search answers at most `limit` places, those with the rarest words first, and counts them all."""
        store = self.searchable()
        self.do(said(self.key("s"), *["apples"] * 9, "apples and one quince"))
        found = store.search(Find(self.space, "thing", words("apple quince"), limit=3))
        assert len(found.matches) == 3
        rarest = found.matches[0].record
        assert rarest is not None and rarest.index == 9
        assert found.counts == {"appl": 10, "quinc": 1}
        assert store.search(Find(self.space, "thing", words("apple"), limit=0)).matches == ()

    # ---- what is not ------------------------------------------------------------------------------------------------

    def test_what_was_erased_is_never_found(self) -> None:
        """An erased record is no longer found, its neighbours are."""
        self.searchable()
        self.do(said(self.key("s"), "apple", "apple", "apple"))
        assert len(self.positions("apple")) == 3
        self.do(Erase(self.key("s"), 1, 2))
        assert self.positions("apple") == [("s", 0), ("s", 2)]

    def test_what_was_truncated_is_never_found(self) -> None:
        """A dropped record is no longer found."""
        self.searchable()
        self.do(said(self.key("s"), "apple", "apple", "apple"))
        assert len(self.positions("apple")) == 3
        self.do(Truncate(self.key("s"), 2))
        assert self.positions("apple") == [("s", 2)]

    def test_what_was_deleted_is_never_found(self) -> None:
        """A deleted document or stream is no longer found, and what comes after it under its name is."""
        self.searchable()
        self.do(said(self.key("s"), "apple"), noted(self.key("d"), "apple"))
        assert len(self.positions("apple")) == 2
        self.do(Delete(self.key("s")), Delete(self.key("d")))
        assert self.look("apple") == Found(0, {"appl": 0}, ())
        self.do(said(self.key("s"), "apple"), noted(self.key("d"), "apple"))
        assert self.positions("apple") == [("d", None), ("s", 1)]

    def test_a_document_is_found_by_what_it_says_now(self) -> None:
        """A document that was written again is found by its new text and never by the old one."""
        self.searchable()
        self.do(noted(self.key("d"), "apple"))
        assert self.positions("apple") == [("d", None)]
        self.do(noted(self.key("d"), "pear"))
        assert (self.positions("apple"), self.positions("pear")) == ([], [("d", None)])
        self.do(noted(self.key("d"), None))
        assert self.positions("pear") == []

    def test_a_text_written_and_removed_in_one_commit_is_never_found(self) -> None:
        """What a commit writes and removes again leaves nothing to find."""
        self.searchable()
        self.do(noted(self.key("d"), "apple"), noted(self.key("d"), "pear"), said(self.key("s"), "apple", "apple"))
        self.do(said(self.key("s"), "apple"), Erase(self.key("s"), 0, 3), noted(self.key("e"), "apple"))
        self.do(noted(self.key("e"), "apple"), Delete(self.key("e")))
        assert (self.positions("apple"), self.positions("pear")) == ([], [("d", None)])

    def test_a_refused_text_is_never_found(self) -> None:
        """The text of a commit that was refused is not found."""
        self.searchable()
        with raises(Conflict):
            self.do(noted(self.key("d"), "apple"), said(self.key("s"), "apple"), expects=(Expect(self.key("x"), 1),))
        assert self.look("apple").total == 0

    # ---- narrowing --------------------------------------------------------------------------------------------------

    def test_tags_narrow_a_search(self) -> None:
        """A search with tags finds only documents that carry all of them."""
        self.searchable()
        self.do(
            noted(self.key("none"), "apple"),
            noted(self.key("one"), "apple", t="1"),
            noted(self.key("both"), "apple", t="1", u="2"),
            noted(self.key("other"), "apple", t="2", u="2"),
            said(self.key("s"), "apple"),
        )
        assert self.positions("apple", t="1") == [("both", None), ("one", None)]
        assert self.positions("apple", t="1", u="2") == [("both", None)]
        assert self.positions("apple", t="3") == []

    def test_a_search_goes_by_the_tags_of_now(self) -> None:
        """A document whose tags were changed is found under its new tags and never under the old ones."""
        self.searchable()
        self.do(noted(self.key("d"), "apple", t="1"))
        assert self.positions("apple", t="1") == [("d", None)]
        self.do(noted(self.key("d"), "apple", t="2"))
        assert (self.positions("apple", t="1"), self.positions("apple", t="2")) == ([], [("d", None)])

    def test_a_search_stays_in_its_space(self) -> None:
        """A search never finds, or counts, what is in another space."""
        self.searchable()
        other = f"{self.space}-other"
        self.do(said(self.key("s"), "apple"))
        self.do(said(self.key("s", space=other), "apple", "pear"), noted(self.key("d", space=other), "apple"))
        assert self.positions("apple") == [("s", 0)]
        assert self.look("pear") == Found(1, {"pear": 0}, ())
        assert len(self.look("apple", space=other).matches) == 2

    def test_a_search_stays_in_its_kind_and_stream(self) -> None:
        """A search of one kind, or of one stream, never finds what is in another."""
        self.searchable()
        self.do(said(self.key("a"), "apple"), said(self.key("b"), "apple"), said(self.key("a", kind="log"), "apple"))
        assert self.positions("apple") == [("a", 0), ("b", 0)]
        assert [match.key for match in self.look("apple", id="b").matches] == [self.key("b")]
        assert [match.key for match in self.look("apple", kind="log").matches] == [self.key("a", kind="log")]

    # ---- in general -------------------------------------------------------------------------------------------------

    def test_a_search_finds_what_the_reference_finds(self) -> None:
        """On the same data every store finds the same places in the same order, with the same counts."""
        store, reference = self.searchable(), MemoryStore()
        chance = random.Random(7)
        for _ in range(40):
            commit = Commit(new_id(), (), tuple(self._anything(chance) for _ in range(chance.randint(1, 3))))
            assert self.store.commit(commit) == reference.commit(commit)
        for _ in range(30):
            asked = words(" ".join(chance.sample(VOCABULARY, chance.randint(1, 4))))
            id = chance.choice([None, "0", "1"])
            tags = chance.choice([{}, {}, {"t": "1"}, {"t": "0", "u": "1"}])
            find = Find(self.space, chance.choice(["log", "document"]), asked, id, tags, chance.choice([2, 500]))
            assert store.search(find) == reference.search(find), find

    def test_a_closed_store_does_not_search(self) -> None:
        """After close a search raises `Closed`."""
        store = self.searchable()
        self.store.close()
        with raises(Closed):
            store.search(Find(self.space, "thing", words("apple")))

    def _anything(self, chance: random.Random) -> Write:
        stream, document = (self.key(str(chance.randrange(3)), kind=kind) for kind in ("log", "document"))
        text = " ".join(chance.choices(VOCABULARY, k=chance.randint(1, 5)))
        at = chance.randrange(20)
        match chance.randrange(10):
            case 0:
                return Erase(stream, at, at + 3)
            case 1:
                return Truncate(stream, at // 4)
            case 2:
                return Delete(chance.choice([stream, document]))
            case 3 | 4 | 5:
                return noted(document, text, t=str(chance.randrange(2)), u=str(chance.randrange(2)))
        return said(stream, text, None, text[::2])
