"""What can be asked, and what answers it: each question says so in its first line."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

from strongroom.codec import Json
from strongroom.errors import InvalidInput
from strongroom.store.commits import Receipt
from strongroom.store.names import Key, require_name, require_natural, require_tags

A = TypeVar("A", covariant=True)


# ---- answers --------------------------------------------------------------------------------------------------------


class Document(Struct, frozen=True):
    """A document as it was stored. `text` is what `Put` made searchable."""

    key: Key
    version: int
    value: Json
    tags: dict[str, str] = {}
    text: str | None = None


class Record(Struct, frozen=True):
    """One entry of a stream as it was stored. `body` is None once it has been erased.

    `chain` is the hash of everything up to here: sha256(previous chain + commitment), from 32 zero bytes. Entries
    without a commitment carry the chain on unchanged.
    """

    index: int
    type: str
    body: Json | None
    weight: int
    at: int
    sender: str | None
    receiver: str | None
    text: str | None
    commitment: bytes | None
    chain: bytes | None
    native: Any = None


class Slice(Struct, frozen=True):
    """Records of a stream, ascending. `length` is the stream's length, `first` the oldest index still stored."""

    length: int
    first: int
    records: tuple[Record, ...]


class Page(Struct, frozen=True):
    """Documents, and the cursor of the next page (None at the end)."""

    documents: tuple[Document, ...]
    next: str | None


# ---- questions ------------------------------------------------------------------------------------------------------


class Question(Struct, Generic[A], frozen=True):
    """Something to ask, and the type of its answer."""


class Get(Question[Document | None], frozen=True):
    """Ask for one document. Answer: `Document`, or None."""

    key: Key


class Range(Question[Slice], frozen=True):
    """Ask for the records of a stream with start <= index < stop, at most `limit`. Answer: `Slice`."""

    key: Key
    start: int = 0
    stop: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        require_natural(start=self.start)
        require_natural(or_none=True, stop=self.stop, limit=self.limit)


class Tail(Question[Slice], frozen=True):
    """Ask for the newest records of a stream, oldest first. Answer: `Slice`.

    The answer is the longest run of consecutive records that ends just before index `before` (default: the end), has
    at most `count` records and weighs at most `max_weight`. The cost is what is returned, however long the stream.
    """

    key: Key
    count: int | None = None
    max_weight: int | None = None
    before: int | None = None

    def __post_init__(self) -> None:
        require_natural(or_none=True, count=self.count, max_weight=self.max_weight, before=self.before)


class Scan(Question[Page], frozen=True):
    """Ask for the documents of a kind that carry all of `tags`, in order of creation. Answer: `Page`."""

    space: str
    kind: str
    tags: dict[str, str] = {}
    after: str | None = None
    limit: int = 100
    reverse: bool = False

    def __post_init__(self) -> None:
        Key(self.space, self.kind, "-")
        require_natural(limit=self.limit)
        require_tags(self.tags)


class ReceiptOf(Question[Receipt | None], frozen=True):
    """Ask whether a commit was made. Answer: its `Receipt`, as durable as an acknowledged commit, or None."""

    space: str
    id: str

    def __post_init__(self) -> None:
        require_name(self.space, "a space")
        require_name(self.id, "a commit id")


AnyQuestion = Get | Range | Tail | Scan | ReceiptOf
Answer = Document | Slice | Page | Receipt | None


def cursor(scan: Scan) -> int | None:
    """Return the place a scan continues from: the creation order of the last document its caller saw."""
    if scan.after is None:
        return None
    if type(scan.after) is not str or not scan.after.isdecimal() or len(scan.after) > 18:
        raise InvalidInput(f"a cursor must be one that an earlier page returned, not {scan.after!r:.40}")
    return int(scan.after)
