"""The port: two verbs over plain data. Everything else in Holdfast is a layer on top of this file.

Theory of operation
-------------------
A store holds two shapes of thing, each under a `Key` of (space, kind, id):

* a **document**: one JSON value with a version that counts its writes from 1;
* a **stream**: a gapless, append-only list of records, indexed from 0. Its version is its length.

`read` answers any number of questions from one snapshot in one round trip. `commit` applies any number of writes
if every expectation holds, all or nothing, and answers only when the store's `durability` is met.

Rules
-----
1. A commit lives in one space. A space never sees another: there is no way to ask without naming one.
2. A commit's id makes a repeat safe: the second call returns the first receipt and changes nothing. Ids are kept at
   least 24 hours. A refused commit leaves no trace, so its id may be tried again.
3. Expectations are judged against the state before the commit; writes are applied in order.
4. Appends without an expectation commute: they never conflict, whoever else is writing.
5. A key keeps its shape for life. Versions and lengths never go back, not even across `Delete`: what comes after a
   deletion continues the count, so nobody can mistake the new thing for the old one.
6. What goes in is valid by construction: `Json` is made only by `holdfast.codec.encode`, keys check themselves.
7. Errors are `holdfast.errors`; a driver's own exception never leaves a backend.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from holdfast.codec import Json
from holdfast.errors import BudgetExceeded, Conflict, InvalidInput

MAX_RECORD_BYTES = 16 * 1024 * 1024
MAX_NAME = 255
EXISTS = -1


class Key(Struct, frozen=True, order=True, cache_hash=True):
    """The name of a document or stream. Each part is 1 to 255 printable characters."""

    space: str
    kind: str
    id: str

    def __post_init__(self) -> None:
        for part in (self.space, self.kind, self.id):
            # isprintable() refuses control characters, NUL and lone surrogates, which not every database can hold.
            if type(part) is not str or not 0 < len(part) <= MAX_NAME or not part.isprintable():
                raise InvalidInput(f"a key part must be 1 to {MAX_NAME} printable characters, not {part!r:.80}")


# ---- questions ------------------------------------------------------------------------------------------------------


class Get(Struct, frozen=True):
    """Ask for one document. Answer: `Document`, or None."""

    key: Key


class Range(Struct, frozen=True):
    """Ask for the records of a stream with start <= index < stop, at most `limit`. Answer: `Slice`."""

    key: Key
    start: int = 0
    stop: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        _require_natural(start=self.start)
        _require_natural(or_none=True, stop=self.stop, limit=self.limit)


class Tail(Struct, frozen=True):
    """Ask for the newest records of a stream, oldest first. Answer: `Slice`.

    The answer is the longest run of consecutive records that ends just before index `before` (default: the end), has
    at most `count` records and weighs at most `max_weight`. The cost is what is returned, however long the stream.
    """

    key: Key
    count: int | None = None
    max_weight: int | None = None
    before: int | None = None

    def __post_init__(self) -> None:
        _require_natural(or_none=True, count=self.count, max_weight=self.max_weight, before=self.before)


class Scan(Struct, frozen=True):
    """Ask for the documents of a kind that carry all of `tags`, in order of creation. Answer: `Page`."""

    space: str
    kind: str
    tags: dict[str, str] = {}
    after: str | None = None
    limit: int = 100
    reverse: bool = False

    def __post_init__(self) -> None:
        Key(self.space, self.kind, "-")
        _require_natural(limit=self.limit)
        _require_tags(self.tags)


Question = Get | Range | Tail | Scan


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


# ---- commits --------------------------------------------------------------------------------------------------------


class Expect(Struct, frozen=True):
    """Demand that a document has this version, or a stream this length. 0: must not exist. `EXISTS`: must exist."""

    key: Key
    version: int

    def __post_init__(self) -> None:
        if type(self.version) is not int or self.version < EXISTS:
            raise InvalidInput(f"an expected version must be 0 or more, or EXISTS, not {self.version!r:.40}")


class Entry(Struct, frozen=True):
    """What to append: a type, a JSON body, and the columns a store can use without opening the body.

    `weight` is what `Tail(max_weight=)` adds up (tokens). `text` is searchable. `at` is microseconds since 1970 and
    decides nothing. `commitment` is 32 bytes that join the stream's hash chain. `native` is the caller's own object:
    a store in this process may hand the very same one back; every other store drops it.
    """

    type: str
    body: Json
    weight: int = 0
    at: int = 0
    sender: str | None = None
    receiver: str | None = None
    text: str | None = None
    commitment: bytes | None = None
    native: Any = None

    def __post_init__(self) -> None:
        if type(self.body) is not Json:
            raise _not_json(self.body)
        if type(self.weight) is not int or not 0 <= self.weight < 2**53:
            raise InvalidInput(f"a weight must be a whole number from 0 to 2**53, not {self.weight!r:.40}")
        if type(self.at) is not int or not -(2**63) <= self.at < 2**63:
            raise InvalidInput(f"a time must be a whole number of microseconds, not {self.at!r:.40}")
        if type(self.type) is not str:
            raise InvalidInput(f"a type must be text, not {self.type!r:.40}")
        if not self.type.isascii():
            _require_text(self.type)
        if self.sender is not None or self.receiver is not None or self.text is not None:
            for text in (self.sender, self.receiver, self.text):
                _require_text(text)
        if self.commitment is not None and (type(self.commitment) is not bytes or len(self.commitment) != 32):
            raise InvalidInput("a commitment must be 32 bytes")


class Put(Struct, frozen=True):
    """Write a document whole. Its version grows by one. `tags` are what `Scan` filters by, `text` what is searched."""

    key: Key
    value: Json
    tags: dict[str, str] = {}
    text: str | None = None

    def __post_init__(self) -> None:
        if type(self.value) is not Json:
            raise _not_json(self.value)
        _require_text(self.text)
        _require_tags(self.tags)


class Append(Struct, frozen=True):
    """Add records to the end of a stream, unless that would make it longer than `max_length`."""

    key: Key
    entries: tuple[Entry, ...]
    max_length: int | None = None

    def __post_init__(self) -> None:
        if not self.entries:
            raise InvalidInput("an append needs at least one entry")
        if self.max_length is not None:
            _require_natural(max_length=self.max_length)


class Truncate(Struct, frozen=True):
    """Drop the records of a stream with index < `before`, for good. The length stays."""

    key: Key
    before: int

    def __post_init__(self) -> None:
        _require_natural(before=self.before)


class Erase(Struct, frozen=True):
    """Blank body, text, sender and receiver of records start <= index < stop, for good. Index, type and chain stay."""

    key: Key
    start: int
    stop: int

    def __post_init__(self) -> None:
        _require_natural(start=self.start, stop=self.stop)


class Delete(Struct, frozen=True):
    """Remove a document or a whole stream, for good. A tombstone keeps the version, so counting goes on from there."""

    key: Key


Write = Put | Append | Truncate | Erase | Delete


class Commit(Struct, frozen=True):
    """What to check and what to write, together or not at all, in one space."""

    id: str
    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < len(self.id) <= MAX_NAME or not self.id.isprintable():
            raise InvalidInput(f"a commit id must be 1 to {MAX_NAME} printable characters, not {self.id!r:.80}")
        if not self.expects and not self.writes:
            raise InvalidInput("a commit must expect or write something")
        if self.expects or len(self.writes) > 1:
            space = self.space
            for part in (*self.expects, *self.writes):
                if part.key.space != space:
                    raise _two_spaces(space, part.key.space)

    @property
    def space(self) -> str:
        """The space that all of it lies in."""
        return (self.writes or self.expects)[0].key.space


class Receipt(Struct, frozen=True):
    """The answer to a commit: for each write, in order, the version its key has now (a stream's length)."""

    id: str
    versions: tuple[int, ...]


class Durability(Struct, frozen=True):
    """What an acknowledged write survives, in the store's own words."""

    name: Literal["durable", "relaxed", "volatile"]
    survives_process_crash: bool
    survives_power_cut: bool
    may_lose: str


# ---- the two verbs, in two colours ----------------------------------------------------------------------------------


class Store(Protocol):
    """A store for blocking code. Safe to share between threads."""

    @property
    def durability(self) -> Durability: ...
    def read(self, questions: Sequence[Question]) -> list[Any]: ...
    def commit(self, commit: Commit) -> Receipt: ...
    def close(self) -> None: ...


class AsyncStore(Protocol):
    """The same store for async code."""

    @property
    def durability(self) -> Durability: ...
    def read(self, questions: Sequence[Question]) -> Awaitable[list[Any]]: ...
    def commit(self, commit: Commit) -> Awaitable[Receipt]: ...
    def close(self) -> Awaitable[None]: ...


@runtime_checkable
class Watchable(Protocol):
    """A store that can tell when to look again. A hint, not a promise: always re-read."""

    def wait(self, key: Key, length: int, timeout_seconds: float) -> Any:
        """Return once the stream may be longer than `length`, or the time is up."""
        ...


# ---- searching, for stores that can ---------------------------------------------------------------------------------


class Find(Struct, frozen=True):
    """Ask where any of `words` stand: in one stream (`id`), in all streams of a kind, or in the documents of a kind.

    `words` come from `holdfast.stemming.words`. `tags` narrows to documents that carry all of them. At most `limit`
    places are returned, the most promising ones (`holdfast.retrieval.choose`).
    """

    space: str
    kind: str
    words: tuple[str, ...]
    id: str | None = None
    tags: dict[str, str] = {}
    limit: int = 500

    def __post_init__(self) -> None:
        Key(self.space, self.kind, self.id or "-")
        _require_natural(limit=self.limit)
        _require_tags(self.tags)


class Match(Struct, frozen=True):
    """A place that holds one of the words: a record of a stream, or a document."""

    key: Key
    record: Record | None = None
    document: Document | None = None


class Found(Struct, frozen=True):
    """How many places there are, in how many each word stands (both counted up to retrieval.MOST_PLACES), and which."""

    total: int
    counts: dict[str, int]
    matches: tuple[Match, ...]


@runtime_checkable
class Searchable(Protocol):
    """A store with a full-text index. What was committed is found at once; what was removed never is."""

    def search(self, find: Find) -> Any:
        """Return `Found` (or an awaitable of it)."""
        ...


# ---- moving, for stores that can ------------------------------------------------------------------------------------


class Parcel(Struct, frozen=True):
    """A key and all or part of what it holds, exactly as stored, tombstones included.

    `version` is a document's version, or how many of a stream's oldest records are gone; `chain` is a stream's hash
    just before its oldest record. `records` is one stretch of the stream; a long stream takes several parcels.
    """

    key: Key
    stream: bool
    alive: bool
    version: int
    value: Json | None = None
    tags: dict[str, str] = {}
    text: str | None = None
    chain: bytes | None = None
    records: tuple[Record, ...] = ()


class Shipment(Struct, frozen=True):
    """Parcels, and the cursor of the next shipment (None at the end)."""

    parcels: tuple[Parcel, ...]
    next: str | None


@runtime_checkable
class Movable(Protocol):
    """A store whose whole content, of all spaces, can be carried to another one. For operators, not for services."""

    def unload(self, after: str | None, limit: int) -> Any:
        """Return a `Shipment` of about `limit` records and documents, in order of creation."""
        ...

    def load(self, parcels: Sequence[Parcel]) -> Any:
        """Put parcels in place as they are. Loading one twice changes nothing, so a broken move can be resumed."""
        ...


# ---- small pure helpers every backend shares ------------------------------------------------------------------------


_random = random.Random()  # our own, so that nobody else's seed() repeats ids; and not one that a fork would copy:
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_id() -> str:
    """Return a fresh commit id: 64 bits of nanoseconds, 64 random bits. They grow with time, so that neighbours in time
    are neighbours in an index."""
    return (time.time_ns() << 64 | _random.getrandbits(64)).to_bytes(16, "big").hex()


def check_expectation(expect: Expect, actual: int) -> None:
    """Raise `Conflict` unless a key whose current version is `actual` (0: absent) meets the expectation."""
    if expect.version == actual or (expect.version == EXISTS and actual > 0):
        return
    key = expect.key
    wanted = {0: "not to exist", EXISTS: "to exist"}.get(expect.version, f"to be at {expect.version}")
    found = f"it is at {actual}" if actual else "it does not exist"
    raise Conflict(
        f"{key.kind} {key.id!r} was expected {wanted}, but {found}; nothing changed",
        expected=expect.version,
        actual=actual,
        key=key,
    )


def check_length(write: Append, length: int) -> None:
    """Raise `BudgetExceeded` if the append would pass its own `max_length`."""
    if write.max_length is None:
        return
    needed = length + len(write.entries)
    if needed > write.max_length:
        raise BudgetExceeded(
            f"{write.key.kind} {write.key.id!r} holds {length} records and may hold {write.max_length}; "
            "nothing changed",
            limit=write.max_length,
            needed=needed,
        )


def check_sizes(commit: Commit, limit: int) -> None:
    """Raise `InvalidInput` if any value or record of the commit is larger than `limit` bytes."""
    for write in commit.writes:
        if type(write) is Append:
            for entry in write.entries:
                if (size := len(entry.body) + (len(entry.text) if entry.text else 0)) > limit:
                    raise _too_large(write.key, size, limit)
        elif type(write) is Put and len(write.value) > limit:
            raise _too_large(write.key, len(write.value), limit)


def cursor(scan: Scan) -> int | None:
    """Return the place a scan continues from: the creation order of the last document its caller saw."""
    if scan.after is None:
        return None
    if type(scan.after) is not str or not scan.after.isdecimal() or len(scan.after) > 18:
        raise InvalidInput(f"a cursor must be one that an earlier page returned, not {scan.after!r:.40}")
    return int(scan.after)


def wrong_shape(key: Key, is_stream: bool) -> InvalidInput:
    """Say that a write does not fit the shape its key already has."""
    has, not_a = ("stream", "document") if is_stream else ("document", "stream")
    return InvalidInput(f"{key.kind} {key.id!r} is a {has}, not a {not_a}; nothing changed")


def _two_spaces(one: str, other: str) -> InvalidInput:
    return InvalidInput(f"one commit can not span the spaces {one!r} and {other!r}; nothing changed")


def _too_large(key: Key, size: int, limit: int) -> InvalidInput:
    return InvalidInput(
        f"{key.kind} {key.id!r}: a record of {size} bytes is over the limit of {limit}; nothing changed"
    )


def _not_json(value: object) -> InvalidInput:
    return InvalidInput(f"a stored value must come from holdfast.codec.encode, not be a {type(value).__name__}")


def _require_natural(*, or_none: bool = False, **numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is None and or_none:
            continue
        if type(number) is not int or not 0 <= number < 2**63 - 1:
            raise InvalidInput(f"{name} must be a whole number, 0 or more, not {number!r:.40}")


def _require_text(text: str | None) -> None:
    # Lone surrogates come from cut-off UTF-16 and escape sequences of models; no database can hold them.
    if text is None or (type(text) is str and text.isascii()):
        return
    if type(text) is not str:
        raise InvalidInput(f"text must be a string, not {text!r:.40}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"text holds a lone surrogate: {text!r:.40}") from None


def _require_tags(tags: dict[str, str]) -> None:
    for name, value in tags.items():
        if type(name) is not str or type(value) is not str or not name.isprintable() or not value.isprintable():
            raise InvalidInput(f"a tag must be a printable name and value, not {name!r:.40}: {value!r:.40}")
