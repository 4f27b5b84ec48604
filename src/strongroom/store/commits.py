"""What can be written, under which conditions, and the answer to it."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from msgspec import Struct

from strongroom.codec import Json
from strongroom.errors import InvalidInput
from strongroom.store.names import MAX_NAME, Key, not_json, require_name, require_natural, require_tags, require_text

EXISTS = -1
MAX_DIGEST = 32
MAX_ANSWER = 65536  # what is long follows from the versions and what they point to


class Expect(Struct, frozen=True, gc=False):
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
            raise not_json(self.body)
        if type(self.weight) is not int or not 0 <= self.weight < 2**53:
            raise InvalidInput(f"a weight must be a whole number from 0 to 2**53, not {self.weight!r:.40}")
        if type(self.at) is not int or not -(2**63) <= self.at < 2**63:
            raise InvalidInput(f"a time must be a whole number of microseconds, not {self.at!r:.40}")
        if type(self.type) is not str:
            raise InvalidInput(f"a type must be text, not {self.type!r:.40}")
        if not self.type.isascii():
            require_text(self.type)
        if self.sender is not None or self.receiver is not None or self.text is not None:
            for text in (self.sender, self.receiver, self.text):
                require_text(text)
        if self.commitment is not None and (type(self.commitment) is not bytes or len(self.commitment) != 32):
            raise InvalidInput("a commitment must be 32 bytes")


class Put(Struct, frozen=True, gc=False):
    """Write a document whole. Its version grows by one. `tags` are what `Scan` filters by, `text` what is searched."""

    key: Key
    value: Json
    tags: dict[str, str] = {}
    text: str | None = None

    def __post_init__(self) -> None:
        if type(self.value) is not Json:
            raise not_json(self.value)
        if self.text is not None:
            require_text(self.text)
        if self.tags:
            require_tags(self.tags)


class Append(Struct, frozen=True):
    """Add records to the end of a stream, unless that would make it longer than `max_length`."""

    key: Key
    entries: tuple[Entry, ...]
    max_length: int | None = None

    def __post_init__(self) -> None:
        if not self.entries:
            raise InvalidInput("an append needs at least one entry")
        if self.max_length is not None:
            require_natural(max_length=self.max_length)


class Truncate(Struct, frozen=True):
    """Drop the records of a stream with index < `before`, for good. The length stays."""

    key: Key
    before: int

    def __post_init__(self) -> None:
        require_natural(before=self.before)


class Erase(Struct, frozen=True):
    """Blank body, text, sender and receiver of records start <= index < stop, for good. Index, type and chain stay.

    A commit with an `Erase`, be it of no record at all, is an erasure: whatever any of its writes takes away leaves the
    store's files, too.
    """

    key: Key
    start: int
    stop: int

    def __post_init__(self) -> None:
        require_natural(start=self.start, stop=self.stop)


class Delete(Struct, frozen=True):
    """Remove a document or a whole stream, for good. A tombstone keeps the version, so counting goes on from there.

    What is damaged can be deleted too, where nothing is expected of it: whatever it was, it is gone. Only a document
    whose words are in an index may be refused, as they are found there by its text alone. Every other write to what is
    damaged is refused, but for an `Erase` of no record.
    """

    key: Key


Write = Put | Append | Truncate | Erase | Delete


class Commit(Struct, frozen=True):
    """What to check and what to write, together or not at all, in one space.

    `digest` stands for what was asked for: a commit with an id that is known and another digest is refused. `answer`
    is kept with the receipt, for a caller who must repeat an answer that the versions do not tell; no erasure reaches
    it, so it must not hold content. `keep` says that the caller chose the id, so that its receipt is kept as long as
    the store was told to. `owes` is for a step of a longer erasure: what it takes away is on record as still to leave
    the store's files, and leaves them with the last commit of the erasure, which does not owe.
    """

    id: str
    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()
    digest: bytes = b""
    answer: Json | None = None
    keep: bool = False
    owes: bool = False

    def __post_init__(self) -> None:
        id = self.id
        if type(id) is not str or not 0 < len(id) <= MAX_NAME or not id.isprintable():
            require_name(id, "a commit id")
        if type(self.digest) is not bytes or len(self.digest) > MAX_DIGEST:
            raise InvalidInput(f"a digest must be at most {MAX_DIGEST} bytes")
        if self.answer is not None and (type(self.answer) is not Json or len(self.answer) > MAX_ANSWER):
            raise InvalidInput(f"an answer must come from strongroom.codec.encode and hold at most {MAX_ANSWER} bytes")
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
    """The answer to a commit: for each write, in order, the version its key had then (a stream's length).

    `repeated` says that the commit had been made before, and that this time nothing was done. `pending` says why what
    an `Erase` erased may still lie somewhere in the store's files, out of anybody's reach through the store; None if it
    does not.
    """

    id: str
    versions: tuple[int, ...]
    digest: bytes = b""
    answer: Json | None = None
    repeated: bool = False
    pending: str | None = None


_random = random.Random()  # our own, so that nobody else's seed() repeats ids; and not one that a fork would copy:
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_id(now_ns: int | None = None) -> str:
    """Return a fresh commit id: 64 bits of nanoseconds, 64 random bits. They grow with time, so that neighbours in time
    are neighbours in an index. `now_ns` is what another clock shows than that of this machine."""
    return ((time.time_ns() if now_ns is None else now_ns) << 64 | _random.getrandbits(64)).to_bytes(16, "big").hex()


def _two_spaces(one: str, other: str) -> InvalidInput:
    return InvalidInput(f"one commit cannot span the spaces {one!r} and {other!r}; nothing changed")
