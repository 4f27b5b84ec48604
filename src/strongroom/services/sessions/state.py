"""A session's document: its settings, and which stretches of its stream are visible. Pure functions over ranges.

Nothing is cut out of the stream. Truncating hides a stretch by writing other ranges here; what it hid is recorded in
the stream of cuts, newest on top, so that `restore` can bring exactly that back. The last range is always open: what
is appended next is visible, whoever cut what meanwhile.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import Json, encode
from strongroom.errors import Damaged, InvalidInput
from strongroom.store import Key, Slice

Ranges = tuple[tuple[int, int | None], ...]

SESSION = "session"
MESSAGE = "message"
CUT = "session_cut"
KEPT = "session_kept"
SUMMARY = "session_summary"
COUNT = "session_count"
VECTOR = "session_vector"
REST = "session_rest"  # what a deletion has still to remove
ID = "mid"  # short, like its keys: there is one for each message id that a caller chose
LONGEST_ID = 255
NEVER = 2**52  # an index that no stream gets to
NOTHING_SHOWN: Ranges = ((NEVER, None),)  # what a closed session shows
COUNTED = 256  # how many messages a block of counts covers


class Hidden(Struct, frozen=True):
    """What one cut hid, and what the state was before it: a record of the stream of cuts."""

    ranges: list[tuple[int, int]]
    previous: int | None
    kept_from: int


class Recount(Struct, frozen=True):
    """Which messages are counted anew since the tokenizer changed: `start` up to `stop`.

    Their counts stand block by block in the stream of counts, those of the newest messages first, because windows want
    them first. How many blocks there are says how far it has come, so anybody can go on.
    """

    start: int
    stop: int

    @property
    def blocks(self) -> int:
        return -(-(self.stop - self.start) // COUNTED)

    def block(self, index: int) -> int:
        """Return which block holds the count of a message."""
        return (self.stop - 1 - index) // COUNTED

    def span(self, block: int) -> tuple[int, int]:
        """Return the messages of a block, from the first to before the second."""
        stop = self.stop - block * COUNTED
        return max(self.start, stop - COUNTED), stop


class State(Struct, frozen=True, omit_defaults=True):
    """The value of a session's document.

    `counted_by` is the tokenizer of records that do not name one; `tokenizer` the one in force. `cut` is the place of
    the newest cut not yet restored in the stream of cuts. Notes of kept messages before `kept_from` are all of hidden
    messages. `erased` are the messages that nothing brings back. `restored` is when it came back from a pack, if it
    did: `created` is of the session that went into it. `begun_by` is the commit that began it with its first messages,
    if a caller named one.
    """

    title: str
    created: int
    tokenizer: str
    counted_by: str
    visible: Ranges = ((0, None),)
    cut: int | None = None
    kept_from: int = 0
    pins: tuple[int, ...] = ()
    metadata: dict[str, Any] = {}
    forked_from: str | None = None
    recount: Recount | None = None
    erased: tuple[tuple[int, int], ...] = ()
    restored: int = 0
    begun_by: str = ""

    @property
    def life(self) -> str:
        """What tells a session from those that had its name before."""
        return str(self.restored or self.created)

    def in_life(self, life: str) -> State:
        """Return the state of another life of the session, of which no more is known."""
        if re.fullmatch(r"[1-9][0-9]{0,18}", life, re.ASCII) is None:
            raise InvalidInput(f"no session has a life {life!r:.40}; nothing changed", path="life")
        return replace(self, restored=int(life), begun_by="")

    @property
    def mixed(self) -> bool:
        """Whether some records may have been counted by another tokenizer than the one in force."""
        return self.recount is not None or self.tokenizer != self.counted_by

    def revision(self, version: int, length: int) -> str:
        """Return a word for what a session is while its document has this version and its stream this length.

        Neither number ever goes back in the life of a session, and `created` tells one life from another.
        """
        return f"{self.created:x}.{version}.{length}"


def changes(revision: str) -> int:
    """Return how often a session had changed at a revision."""
    match = re.fullmatch(r"[0-9a-f]{1,16}\.([0-9]{1,16})\.([0-9]{1,16})", revision, re.ASCII)
    if match is None:
        raise InvalidInput(
            f"a revision must be one that session.info() told, not {revision!r:.60}", path="expected_revision"
        )
    return int(match[1]) + int(match[2])


_decoder = msgspec.json.Decoder(State)


def dump(state: State) -> Json:
    return encode(msgspec.to_builtins(state))


def parse(value: Json) -> State:
    try:
        return _decoder.decode(value)
    except msgspec.ValidationError as problem:
        raise Damaged(f"a session's document is not one: {problem}", reason="corrupt") from None


def priority_kind(level: int) -> str:
    """Return the kind of the stream that notes a session's messages of one priority."""
    return f"session_priority_{level}"


def id_key(session: Key, message_id: str) -> Key:
    """Return the key that makes a message id unique in its session. Hashed, so that any id fits and none is told."""
    whole = f"{len(session.id)}:{session.id}{message_id}"
    digest = blake2b(whole.encode(errors="surrogatepass"), digest_size=12)
    return Key(session.space, ID, urlsafe_b64encode(digest.digest()).decode())


def check_id(message_id: object) -> str:
    """Return a message id that the caller gave, or raise."""
    if not isinstance(message_id, str) or not 0 < len(message_id) <= LONGEST_ID:
        raise InvalidInput(f"a message id must be a string of 1 to {LONGEST_ID} characters, not {message_id!r:.60}")
    return message_id


class Naming:
    """Ids for messages that came without one: the session's mark and the message's index, so nothing is stored.

    Indexes never come again, not even after the session was deleted and opened anew.
    """

    def __init__(self, session_id: str) -> None:
        self._mark = blake2b(session_id.encode(), digest_size=6).hexdigest()

    def id(self, index: int) -> str:
        return f"{self._mark}.{index}"

    def index(self, message_id: str) -> int | None:
        """Return the index such an id stands for, or None if it is not one."""
        mark, _, digits = message_id.partition(".")
        fits = mark == self._mark and digits.isdecimal() and digits.isascii() and len(digits) < 16
        return int(digits) if fits and str(int(digits)) == digits else None


# ---- ranges ---------------------------------------------------------------------------------------------------------


def beginning(end: Slice) -> Ranges:
    """Return what a new session shows: what comes after whatever an earlier one of its name has left."""
    return ((end.length, None),)


def is_visible(ranges: Ranges, index: int) -> bool:
    place = bisect_right(ranges, index, key=itemgetter(0))
    stop = ranges[place - 1][1] if place else -1
    return stop is None or index < stop


def bounded(ranges: Ranges, first: int, length: int) -> list[tuple[int, int]]:
    """Return the visible stretches of a stream that holds records `first` to `length`, oldest first."""
    found = [(max(start, first), length if stop is None else min(stop, length)) for start, stop in ranges]
    return [(start, stop) for start, stop in found if start < stop]


def gaps(stretches: list[tuple[int, int]], first: int, length: int) -> list[tuple[int, int]]:
    """Return what lies between the visible stretches of a stream, oldest first."""
    starts, stops = [first, *(stop for _, stop in stretches)], [*(start for start, _ in stretches), length]
    return [(low, high) for low, high in zip(starts, stops, strict=True) if low < high]


def size(stretches: list[tuple[int, int]]) -> int:
    return sum(stop - start for start, stop in stretches)


def upward(stretches: list[tuple[int, int]], start: int) -> Iterator[int]:
    return chain.from_iterable(range(max(low, start), high) for low, high in stretches)


def downward(stretches: list[tuple[int, int]]) -> Iterator[int]:
    return chain.from_iterable(reversed(range(low, high)) for low, high in reversed(stretches))


def below(ranges: Ranges, stop: int) -> list[tuple[int, int]]:
    """Return the visible stretches before index `stop`."""
    return bounded(ranges, 0, stop)


def hide(ranges: Ranges, start: int, length: int) -> tuple[Ranges, list[tuple[int, int]]]:
    """Hide everything from `start` to `length`; return the ranges left, and what was hidden by this."""
    left = below(ranges, start)
    hidden = [(max(low, start), high) for low, high in below(ranges, length) if high > start]
    return (*left, (max(length, ranges[-1][0]), None)), hidden


def joined(stretches: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return stretches in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return tuple(found)


def covers(stretches: Iterable[tuple[int, int]], index: int) -> bool:
    return any(start <= index < stop for start, stop in stretches)


def without(ranges: Ranges, gone: Iterable[tuple[int, int]]) -> Ranges:
    """Take stretches out of what is visible. What comes next stays visible."""
    left: list[tuple[int, int | None]] = []
    holes = deque(joined(hole for hole in gone if hole[0] < hole[1]))
    for start, stop in ranges:
        edge = start
        while holes and (stop is None or holes[0][0] < stop):
            low, high = holes[0]
            if edge < low:
                left.append((edge, low))
            edge = max(edge, high)
            if stop is not None and high > stop:
                break  # it reaches into the next one
            holes.popleft()
        if stop is None or edge < stop:
            left.append((edge, stop))
    return tuple(left)


def show(ranges: Ranges, hidden: list[tuple[int, int]]) -> Ranges:
    """Make hidden stretches visible again, joining what touches."""
    joined: list[tuple[int, int | None]] = []
    for start, stop in sorted([*ranges, *hidden], key=lambda one: one[0]):
        if joined and (joined[-1][1] is None or start <= joined[-1][1]):
            low, high = joined[-1]
            joined[-1] = (low, None if high is None or stop is None else max(high, stop))
        else:
            joined.append((start, stop))
    return tuple(joined)
