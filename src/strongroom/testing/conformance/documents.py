"""Documents: one JSON value under a key, with a version that counts its writes."""

from __future__ import annotations

from typing import Any

from strongroom.codec import Json, encode
from strongroom.errors import InvalidInput
from strongroom.store import Append, Delete, Entry, Erase, Expect, Get, Put, Range, Tail, Truncate
from strongroom.testing.conformance.suite import Suite, append, json_of, put, raises

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    0.1,
    5e-324,
    1.7976931348623157e308,
    "",
    "\x00\x1f\u2028\ufeff\U0001f600",
    "e\u0301 is not \u00e9",
    [],
    {},
    {"": {"": []}, "b": 1, "a": [1.5, "x", None, False]},
    {"\u00e9": "\\\"/'", "$ref": "; DROP TABLE head; --"},
]

# Names that a store which builds queries or file names out of them would mix up.
NAMES = [
    "a",
    "A",
    " a",
    "a ",
    "'; DROP TABLE head; --",
    '"',
    "\\",
    "%",
    "_",
    "*",
    "?",
    "a/b",
    "../a",
    "a:b",
    "{a}",
    "$1",
    "null",
    "0",
    "00",
    "\u00e9",
    "e\u0301",
    "\u65e5\u672c\u8a9e",
    "\U0001f600",
    "x" * 255,
    "\U0001f600" * 255,
]


class Documents(Suite):
    group = "documents"

    def test_a_document_never_written_is_absent(self) -> None:
        """Asking for a document that was never written answers None."""
        assert self.get(self.key()) is None

    def test_a_new_document_has_version_one(self) -> None:
        """The first write of a document gives it version 1."""
        assert self.do(put(self.key())).versions == (1,)
        assert self.document(self.key()).version == 1

    def test_each_write_adds_one_to_the_version(self) -> None:
        """Each write adds exactly one to a document's version, and the receipt says so."""
        assert [self.do(put(self.key(), n)).versions for n in range(4)] == [(1,), (2,), (3,), (4,)]
        assert self.document(self.key()).version == 4

    def test_a_put_replaces_the_whole_value(self) -> None:
        """A document is written whole: nothing of the old value remains."""
        self.do(put(self.key(), {"old": 1, "both": 1}))
        self.do(put(self.key(), {"both": 2}))
        assert self.value(self.key()) == {"both": 2}

    def test_a_put_replaces_the_tags(self) -> None:
        """A document's tags are written whole with its value."""
        self.do(put(self.key(), 1, colour="red", size="big"))
        self.do(put(self.key(), 1, size="small"))
        assert self.document(self.key()).tags == {"size": "small"}

    def test_an_answer_names_its_key(self) -> None:
        """A document comes back under the key it was asked for."""
        self.do(put(self.key("x", kind="k"), 1, t="v"))
        found = self.document(self.key("x", kind="k"))
        assert (found.key, found.version, found.tags) == (self.key("x", kind="k"), 1, {"t": "v"})

    def test_values_come_back_byte_for_byte(self) -> None:
        """What is read is, byte for byte, what was written."""
        for place, value in enumerate(VALUES):
            self.do(put(self.key(str(place)), value))
        stored = [self.document(self.key(str(n))).value for n in range(len(VALUES))]
        assert stored == [encode(value) for value in VALUES]
        assert {type(value) for value in stored} == {Json}, "a value must come back as Json"

    def test_names_are_stored_literally(self) -> None:
        """Keys are compared character by character: no name is special, folded, trimmed or cut."""
        for name in NAMES:
            self.do(put(self.key(name), name))
        assert [self.value(self.key(name)) for name in NAMES] == NAMES
        assert {self.document(self.key(name)).version for name in NAMES} == {1}

    def test_kinds_are_stored_literally(self) -> None:
        """The kind is part of the name: the same id under two kinds is two documents."""
        for name in NAMES:
            self.do(put(self.key(kind=name), name))
        assert [self.value(self.key(kind=name)) for name in NAMES] == NAMES

    def test_parts_of_a_key_do_not_run_together(self) -> None:
        """Moving a separator from one part of a key into the next makes another key."""
        for separator in ":/|,.-_ ":
            self.do(put(self.key(f"b{separator}c", kind="a"), 1), put(self.key("c", kind=f"a{separator}b"), 2))
            assert self.value(self.key(f"b{separator}c", kind="a")) == 1

    # ---- deletion ---------------------------------------------------------------------------------------------------

    def test_a_deleted_document_is_absent(self) -> None:
        """A deleted document answers None."""
        self.do(put(self.key()))
        self.do(Delete(self.key()))
        assert self.get(self.key()) is None

    def test_a_version_is_never_used_twice(self) -> None:
        """Versions go on after a deletion: the new document cannot be taken for the old one."""
        self.do(put(self.key(), "old"))
        deleted = self.do(Delete(self.key())).versions[0]
        assert deleted == 2, "a deletion is a write and counts as one"
        assert self.do(put(self.key(), "new")).versions == (3,)
        assert self.document(self.key()).version == 3

    def test_deleting_twice_counts_once(self) -> None:
        """Deleting what is already deleted changes nothing."""
        self.do(put(self.key()))
        assert self.do(Delete(self.key())).versions == self.do(Delete(self.key())).versions == (2,)

    def test_deleting_the_unknown_changes_nothing(self) -> None:
        """Deleting what never existed is fine, answers 0 and leaves no trace."""
        assert self.do(Delete(self.key())).versions == (0,)
        assert self.do(put(self.key()), expects=(Expect(self.key(), 0),)).versions == (1,)

    def test_a_deleted_document_loses_its_tags(self) -> None:
        """What is written after a deletion has its own tags only."""
        self.do(put(self.key(), 1, old="yes"))
        self.do(Delete(self.key()))
        self.do(put(self.key(), 2))
        assert self.document(self.key()).tags == {}

    # ---- shape ------------------------------------------------------------------------------------------------------

    def test_a_document_is_not_a_stream(self) -> None:
        """No stream write fits a document; it is refused and the document stays as it was."""
        self.do(put(self.key(), "kept"))
        for write in (append(self.key(), 1), Truncate(self.key(), 1), Erase(self.key(), 0, 1)):
            with raises(InvalidInput):
                self.do(write)
        assert (self.value(self.key()), self.document(self.key()).version) == ("kept", 1)

    def test_a_stream_is_not_a_document(self) -> None:
        """A document cannot be put where a stream is; the stream stays as it was."""
        self.do(append(self.key(), "kept"))
        with raises(InvalidInput):
            self.do(put(self.key()))
        assert self.bodies(Range(self.key())) == ["kept"]

    def test_a_shape_outlives_deletion(self) -> None:
        """A key keeps its shape for life, deleted or not."""
        self.do(put(self.key("document")), append(self.key("stream"), 1))
        self.do(Delete(self.key("document")), Delete(self.key("stream")))
        with raises(InvalidInput):
            self.do(append(self.key("document"), 1))
        with raises(InvalidInput):
            self.do(put(self.key("stream")))

    def test_one_commit_cannot_give_two_shapes(self) -> None:
        """A commit that makes one key both a document and a stream is refused."""
        with raises(InvalidInput):
            self.do(put(self.key()), append(self.key(), 1))
        with raises(InvalidInput):
            self.do(append(self.key("b"), 1), put(self.key("b")))
        assert self.get(self.key()) is None
        assert self.stream(self.key("b")).length == 0

    def test_reading_the_wrong_shape_is_refused(self) -> None:
        """Asking a stream for a document, or a document for records, is an error and never an empty answer."""
        self.do(put(self.key("document")), append(self.key("stream"), 1))
        for question in (Get(self.key("stream")), Range(self.key("document")), Tail(self.key("document"))):
            with raises(InvalidInput):
                self.store.read([question])

    # ---- size -------------------------------------------------------------------------------------------------------

    def test_a_value_at_the_limit_is_stored(self) -> None:
        """A value of exactly the largest size is stored and comes back whole."""
        value = json_of(self.max_record_bytes)
        self.do(Put(self.key(), value))
        assert self.document(self.key()).value == value

    def test_a_value_over_the_limit_is_refused(self) -> None:
        """A value one byte too large is refused, and nothing of its commit happens."""
        with raises(InvalidInput):
            self.do(put(self.key("b")), Put(self.key(), json_of(self.max_record_bytes + 1)))
        assert self.get(self.key("b")) is self.get(self.key()) is None

    def test_a_record_over_the_limit_is_refused(self) -> None:
        """A record one byte too large is refused, and nothing of its commit happens."""
        with raises(InvalidInput):
            self.do(Append(self.key(), (Entry("note", encode(1)), Entry("note", json_of(self.max_record_bytes + 1)))))
        assert self.stream(self.key()).length == 0
