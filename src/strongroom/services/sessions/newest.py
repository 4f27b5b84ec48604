"""The newest messages of a session, read again only as far as they are new: a window is mostly what the last one was.

A record never changes but by being erased or dropped, and whatever does that also writes, in the same commit, the
session's document (which shows it no more) or where the stream begins. Both are read anew each time, in one snapshot
with what is new, and decide what is shown. Beyond that, everything is forgotten as soon as the document has another
version, and the newest record is read again and must be the same: a file that was put in the place of this one is not
taken for it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strongroom.scope import Scope
from strongroom.services.sessions.state import MESSAGE, SESSION
from strongroom.store import Document, Get, Question, Range, Record, Slice, Tail

STEP = 32  # so few an event loop reads itself; with more new ones, all is read anew
MOST_BYTES = 1 << 20


class Known(Struct, frozen=True):
    """What a `Tail` of `max_weight` returned, the session's document having had this version."""

    version: int
    max_weight: int
    records: tuple[Record, ...] = ()
    weight: int = 0
    bytes: int = 0


class Newest:
    """What a handle remembers of the end of its session."""

    def __init__(self) -> None:
        self._known: Known | None = None

    async def read(
        self, scope: Scope, session_id: str, max_weight: int, *beside: Question[Any]
    ) -> tuple[Document | None, Slice, list[Any]]:
        """Read a session's document, the `Tail` of this weight, and in the same snapshot whatever else is asked."""
        document, stream = Get(scope.key(SESSION, session_id)), scope.key(MESSAGE, session_id)
        known = self._known
        if known is not None and known.max_weight == max_weight:
            since = Range(stream, known.records[-1].index, None, STEP)
            session, new, *more = await scope.read(document, since, *beside)
            known = self._known = _with(known, session, new)
            if known is not None:
                return session, Slice(new.length, new.first, known.records), more
        session, newest, *others = await scope.read(document, Tail(stream, max_weight=max_weight), *beside)
        if session is not None:
            self._known = _within(Known(session.version, max_weight), newest.records, newest.first)
        return session, newest, others


def _with(known: Known, session: Document | None, new: Slice) -> Known | None:
    """Return what the same `Tail` would return now, or None if that cannot be told from what is known."""
    if session is None or session.version != known.version or not new.records:
        return None
    if new.records[0] != known.records[-1] or new.records[-1].index != new.length - 1:
        return None
    return _within(known, new.records[1:], new.first)


def _within(known: Known, new: tuple[Record, ...], first: int) -> Known | None:
    """Add records, and let the oldest go that are no longer there or too many; None if there is nothing to keep."""
    records = known.records + new
    weight = known.weight + sum([one.weight for one in new])
    size = known.bytes + sum([len(one.body or b"") + len(one.text or "") for one in new])
    start = 0
    while start < len(records) and (weight > known.max_weight or records[start].index < first):
        weight -= records[start].weight
        start += 1
    if start == len(records) or size > MOST_BYTES:  # what was let go still counts: then all is read anew
        return None
    return Known(known.version, known.max_weight, records[start:], weight, size)
