"""Message ids: found, unique, free again once their message is hidden.

An id that a caller chose has a document of its own (about 140 bytes), written in the commit of its message with the
expectation that nobody else has it. The document says where the message was expected to land; it stands there, or a
little later if others were faster. Ids that the session gives out cost nothing: they are made of the message's index.

Such documents outlive a session that is deleted. A later one of that name knows them by their place, which is before
its stream begins: whoever writes one expects the session to be what it saw, so none is written across two lives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.sessions.records import own_id
from strongroom.services.sessions.state import gaps, id_key
from strongroom.services.sessions.view import PAGE, View, at, stored_at
from strongroom.store import Document, Expect, Get, Key, Put, Range, Record, Tail, Write


async def locate(view: View, hint: int, fits: Callable[[Record], bool]) -> Record | None:
    """Return the first record at or after `hint` that fits.

    A writer notes where it expects its record to land; others may land first, so it stands there or a little later.
    """
    start, step = hint, 1
    while True:
        part = await view.scope.some(Range(view.stream, start, None, step))
        for record in part.records:
            if fits(record):
                return record
        if not part.records:
            return None
        start, step = part.records[-1].index + 1, min(step * 8, PAGE)


async def bearer(view: View, message_id: str) -> Record | None:
    """Return the newest message that a caller gave this id, be it hidden; None if the id has no note."""
    return await bearing(view, message_id, await view.scope.get(Get(id_key(view.document, message_id))))


async def find(view: View, message_id: str) -> Record:
    """Return the visible message of that id, or raise `NotFound`."""
    record = await bearer(view, message_id)
    if record is not None and view.shows(record.index):
        return record
    index = view.naming.index(message_id)
    if index is not None:
        record = (await at(view, [index])).get(index)
        if record is not None and own_id(record) is None:
            return record
    raise NotFound(f"session {view.id!r} has no message {message_id!r:.80}", kind="message", id=message_id)


async def find_any(view: View, message_id: str) -> Record:
    """Return the message of that id, be it hidden; the newest that bore it. Raise `NotFound` if there is none."""
    record = await bearer(view, message_id)
    if record is not None:
        return record
    index = view.naming.index(message_id)
    if index is not None and index < view.length:
        record = (await stored_at(view, [index])).get(index)
        if record is not None and own_id(record) is None:
            return record
    record = await _hidden_bearer(view, message_id)
    if record is not None:
        return record
    raise NotFound(f"session {view.id!r} has no message {message_id!r:.80}", kind="message", id=message_id)


async def _hidden_bearer(view: View, message_id: str) -> Record | None:
    """Return the newest hidden message of an id without a note: that went with a later message of the same id."""
    for low, high in reversed(gaps(view.stretches, view.first, view.length)):
        while low < high:
            part = await view.scope.get(Tail(view.stream, min(PAGE, high - low), None, high))
            for record in reversed(part.records):
                if own_id(record) == message_id:
                    return record
            if not part.records:
                break
            high = part.records[0].index
    return None


async def taken(scope: Scope, session: Key, ids: Sequence[str]) -> dict[str, int]:
    """Return the versions of ids that have been used before, visible or not."""
    notes = await scope.get_all([Get(id_key(session, one)) for one in ids])
    return {one: note.version for one, note in zip(ids, notes, strict=True) if note is not None}


async def reusable(view: View, ids: Sequence[str], notes: Sequence[Document | None]) -> dict[str, int]:
    """Return the versions of ids that only hidden messages bear; raise `Conflict` for one that is in use."""
    versions: dict[str, int] = {}
    for one, note in zip(ids, notes, strict=True):
        if note is not None:
            record = await bearing(view, one, note)
            # What came after the view is visible, as long as the session's document stays as the view saw it.
            if record is not None and (record.index >= view.length or view.shows(record.index)):
                raise _duplicate(view, one)
            versions[one] = note.version
    return versions


async def free(view: View, ids: Sequence[str]) -> dict[str, int]:
    """Return the versions of ids that have been used before; raise for one that is in use, or that we give out."""
    await refuse_ours(view, ids)
    if not view.stretches:
        return await taken(view.scope, view.document, ids)
    return await reusable(view, ids, await view.scope.get_all([Get(id_key(view.document, one)) for one in ids]))


async def refuse_ours(view: View, ids: Sequence[str]) -> None:
    """Refuse ids of the form we give out ourselves, unless they belonged to a message that is hidden now."""
    ours = {one: index for one in ids if (index := view.naming.index(one)) is not None}
    for one, index in ours.items():
        if index >= view.length:
            raise InvalidInput(f"{one!r} is an id this session will give to a later message; nothing changed")
    found = await at(view, ours.values())
    for one, index in ours.items():
        if index in found and own_id(found[index]) is None:
            raise _duplicate(view, one)


async def reclaimed(view: View, ranges: Sequence[tuple[int, int]]) -> tuple[list[Expect], list[Write]]:
    """Give ids back to the messages of these ranges, unless another visible message bears one of them now."""
    expects: list[Expect] = []
    writes: list[Write] = []
    for start, stop in ranges:
        while start < stop:
            part = await view.scope.some(Range(view.stream, start, stop, PAGE))
            if not part.records:
                break
            start = part.records[-1].index + 1
            given = {one: record.index for record in part.records if (one := own_id(record)) is not None}
            notes = await view.scope.get_all([Get(id_key(view.document, one)) for one in given])
            versions = await reusable(view, list(given), notes)
            expects += [Expect(id_key(view.document, one), versions.get(one, 0)) for one in given]
            writes += [Put(id_key(view.document, one), encode(index)) for one, index in given.items()]
    return expects, writes


async def bearing(view: View, message_id: str, note: Document | None) -> Record | None:
    """Return the message that the note of an id tells of; None if it is of an earlier session of this name."""
    hint = -1 if note is None else note.value.load()
    return None if hint < view.first else await locate(view, hint, lambda record: own_id(record) == message_id)


def _duplicate(view: View, message_id: str) -> Conflict:
    key = id_key(view.document, message_id)
    return Conflict(
        f"session {view.id!r} has a message {message_id!r} already; nothing changed", expected=0, actual=1, key=key
    )
