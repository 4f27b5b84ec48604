"""The items of a conversation for a framework that asks for all of them at each turn.

Records never change, and whatever hides, restores or erases messages writes the session's document. So as long as that
is the one that was seen, only what was appended since is read. The rest is kept here as JSON and decoded in one pass:
each caller has objects of its own. The newest record is read again and must be the same: a store that a failover or a
backup has set back is read anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.adapters.exact import restored
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.owning import OWNER
from strongroom.services.sessions.records import opened
from strongroom.services.sessions.state import MESSAGE, SESSION, State, bounded, is_visible, parse
from strongroom.services.sessions.view import missing
from strongroom.store import Document, Get, Key, Range, Record, Slice, Tail

MOST_BYTES = 32 * 1024 * 1024  # of items that are kept; a longer conversation is read anew each time
FEW = 32  # new records that one quick read may bring
PAGE = 5000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Any]).decode


class Seen(Struct, frozen=True):
    """The newest visible items of a session as one read saw them. A newer one takes its place as a whole."""

    version: int  # of the session's document
    state: State
    first: int  # the oldest record that was still stored
    length: int  # how many records there had been
    items: Sequence[bytes]
    is_whole: bool  # whether these are all that are visible
    size: int  # how many bytes these are
    are_plain: bool  # whether JSON says all of them
    last: Record | None  # the newest one, visible or not
    owner: str | None  # whose session it was

    def since(self, stream: Key) -> Range:
        """Return what asks for the newest record that is known, and what came since."""
        return Range(stream, self.length if self.last is None else self.last.index, None, FEW + 1)

    def reaches(self, most: int | None) -> bool:
        return self.is_whole or (most is not None and len(self.items) >= most)

    def newest(self, most: int | None) -> list[Any]:
        """Return the newest items, the oldest of them first, as fresh objects."""
        wanted = self.items if most is None else self.items[max(0, len(self.items) - most) :]
        found = _decode(b"[" + b",".join(wanted) + b"]")
        return found if self.are_plain else [json.loads(one) if type(one) is str else one for one in found]

    def grown(self, document: Document | None, part: Slice) -> Seen | None:
        """Return what is seen after a look at what came since; None if there is more to look at."""
        if document is None or document.version != self.version or part.first != self.first:
            return None
        since = part.records
        if self.last is not None:
            if not since or since[0] != self.last:
                return None
            since = since[1:]
        if part.length != self.length + len(since) or any(record.body is None for record in since):
            return None
        if not since:
            return self
        new = [_json(record) for record in since if is_visible(self.state.visible, record.index)]
        return msgspec.structs.replace(
            self,
            length=part.length,
            items=[*self.items, *new],
            size=self.size + _size(new),
            are_plain=self.are_plain and _are_plain(new),
            last=since[-1],
        )


async def see(scope: Scope, session_id: str, seen: Seen | None, most: int | None) -> Seen:
    """Return the newest `most` items of a session, or all of them, and perhaps more; raise `NotFound` without one."""
    document, stream = scope.key(SESSION, session_id), scope.key(MESSAGE, session_id)
    if seen is not None and seen.reaches(most):
        grown = seen.grown(*await scope.read(Get(document), seen.since(stream)))
        if grown is not None:
            return grown
    for _ in attempts(f"session {session_id!r}"):
        # The newest records of all are nearly always the newest visible ones, so they come in the same round trip.
        found, tail = await scope.read(Get(document), Tail(stream, PAGE if most is None else min(most, PAGE)))
        if found is None:
            raise missing(session_id)
        state = parse(found.value)
        records = await _visible(scope, state, tail, most, Range(stream))
        if all(record.body is not None for record in records):  # else somebody erased one of them meanwhile
            items = [_json(record) for record in records]
            is_whole = most is None or len(records) < most
            size, are_plain = _size(items), _are_plain(items)
            last = tail.records[-1] if tail.records else None
            return Seen(
                found.version,
                state,
                tail.first,
                tail.length,
                items,
                is_whole,
                size,
                are_plain,
                last,
                found.tags.get(OWNER),
            )
    raise AssertionError("attempts() raises when it is enough")


def kept(seen: Seen, most: int | None) -> Seen | None:
    """Return what is worth keeping in memory for whoever asks for so many items again."""
    if most is not None and len(seen.items) > 2 * most + FEW:
        items = seen.items[len(seen.items) - most :]
        seen = msgspec.structs.replace(seen, items=items, size=_size(items), is_whole=False)
    return seen if seen.size <= MOST_BYTES else None


async def _visible(scope: Scope, state: State, tail: Slice, most: int | None, stream: Range) -> list[Record]:
    """Return the newest visible records, of which the newest of all are known."""
    known = tail.records[0].index if tail.records else tail.length
    records = [record for record in tail.records if is_visible(state.visible, record.index)]
    for low, high in reversed(bounded(state.visible, tail.first, known)):
        while low < high and (most is None or len(records) < most):
            start = max(low, high - (PAGE if most is None else min(PAGE, most - len(records))))
            part = await scope.get(Range(stream.key, start, high))
            if len(part.records) < high - start:
                raise missing(stream.key.id)
            records, high = [*part.records, *records], start
    return records


def _json(record: Record) -> bytes:
    """Return an item as JSON. One that JSON does not hold as it was given becomes a text, the JSON of Python."""
    value, note = opened(record)
    sidecar = note.get("sidecar")
    given = restored(value, sidecar)
    return _encode(given) if given is value else _encode(json.dumps(given))


def _size(items: Sequence[bytes]) -> int:
    return sum(map(len, items))


def _are_plain(items: Sequence[bytes]) -> bool:
    return not any(one.startswith(b'"') for one in items)
