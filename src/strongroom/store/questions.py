"""What can be asked. Each question says in its first line what answers it."""

from __future__ import annotations

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.store.names import Key, require_natural, require_tags


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
        require_natural(start=self.start)
        require_natural(or_none=True, stop=self.stop, limit=self.limit)


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
        require_natural(or_none=True, count=self.count, max_weight=self.max_weight, before=self.before)


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
        require_natural(limit=self.limit)
        require_tags(self.tags)


Question = Get | Range | Tail | Scan


def cursor(scan: Scan) -> int | None:
    """Return the place a scan continues from: the creation order of the last document its caller saw."""
    if scan.after is None:
        return None
    if type(scan.after) is not str or not scan.after.isdecimal() or len(scan.after) > 18:
        raise InvalidInput(f"a cursor must be one that an earlier page returned, not {scan.after!r:.40}")
    return int(scan.after)
