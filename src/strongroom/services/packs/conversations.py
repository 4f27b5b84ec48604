"""A session as lines of a pack, and back: every message it holds, hidden ones too, and the cuts that hid them.

The first line tells what the session is; then come its messages, then its cuts, each in order. Places are told from the
first message that is still stored. Counts are those of the session's tokenizer, for whoever reads the file: on the way
back every message is counted again, because a window is only as right as its counts. What follows from these (ids,
notes of pinned and system messages, summaries, vectors) is not in the pack: it is made again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput
from strongroom.scope import Scope
from strongroom.services.packs.unzip import refused
from strongroom.services.sessions.records import Draft, draft, own_id
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import (
    CUT,
    ID,
    KEPT,
    MESSAGE,
    SESSION,
    Hidden,
    Ranges,
    Recount,
    State,
    dump,
    is_visible,
)
from strongroom.services.sessions.view import learn
from strongroom.services.sessions.writes import Drafts, appending
from strongroom.store import CLAIM, Append, Entry, Expect, Get, Put, Range, Write, require_name
from strongroom.tokens.counting import Absent, Tokenizer, counter, tokenizer

PAGE = 256


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """What a session is."""

    session: str
    title: str
    created: int
    tokenizer: str
    visible: Ranges
    messages: int
    cuts: int
    pins: tuple[int, ...] = ()
    cut: int | None = None
    kept_from: int = 0
    metadata: dict[str, Any] = {}
    forked_from: str | None = None
    tags: dict[str, str] = {}


class Said(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One message. `named`: its id is its own; else it is data, or the session names it."""

    message: dict[str, Any]
    at: int
    tokens: int
    named: bool = False
    sidecar: Any = None


class Undone(Struct, frozen=True, forbid_unknown_fields=True):
    """One record of the stream of cuts: what was hidden, or that it came back."""

    type: str
    body: Any
    at: int


async def lines(session: AsyncSession) -> AsyncIterator[dict[str, Any]]:
    """Yield a session, a line at a time."""
    view = await session._view()
    scope, state, first = view.scope, view.state, view.first
    cuts = (await scope.get(Range(view.side(CUT)))).records
    yield msgspec.to_builtins(
        Header(
            session=session.id,
            title=state.title,
            created=state.created,
            tokenizer=view.tokenizer.name,
            visible=_moved(state.visible, -first),
            messages=view.length - first,
            cuts=len(cuts),
            pins=tuple(index - first for index in state.pins if index >= first),
            cut=None if state.cut is None or first else state.cut,
            kept_from=0 if first else state.kept_from,
            metadata=state.metadata,
            forked_from=state.forked_from,
            tags=view.tags,
        )
    )
    place = first
    while place < view.length:
        page = (await scope.get(Range(view.stream, place, view.length, PAGE))).records
        await learn(view, list(page))
        for record in page:
            one = view.message(record)
            named = own_id(record) is not None
            yield msgspec.to_builtins(Said(dict(one), record.at, one.tokens, named, one.sidecar))
        place = page[-1].index + 1
    for cut in cuts:
        yield {"type": cut.type, "body": None if cut.body is None else cut.body.load(), "at": cut.at}


async def writes(scope: Scope, told: Iterator[dict[str, Any]]) -> tuple[str, list[Expect], list[Write]]:
    """Return the id of a session in a pack, and what brings it back; raise if it is not one that could have been."""
    header: Header = _read(Header, next(told, {}))
    id = require_name(header.session, "a session's id")
    document, stream = scope.key(SESSION, id), scope.key(MESSAGE, id)
    there, end, notes = await scope.read(Get(document), Range(stream, 0, 0), Range(scope.key(KEPT, id), 0, 0))
    if there is not None:
        raise Conflict(
            f"there is a session {id!r} already; nothing changed", expected=0, actual=there.version, key=document
        )
    said = [_read(Said, line) for _, line in zip(range(header.messages), told, strict=False)]
    cuts = [_read(Undone, line) for line in told]
    if len(said) != header.messages or len(cuts) != header.cuts:
        raise refused(f"session {id!r:.60} does not hold what it says")
    # Where a session of that name has been before, cuts and notes go on counting from places that nobody knows: a
    # stream that was deleted does not tell its length. So what was hidden stays hidden there, as `restore` says.
    anew = not end.length and not notes.length
    _check_cuts(header.cut, cuts, len(said))
    counting = _counting(scope, header.tokenizer)
    state = replace(_state(header, counting.name, end.length, anew, len(said)), restored=scope.clock())
    made = Drafts(tuple([_draft(one, counting) for one in said]), tuple([one.at for one in said]))
    new = appending(scope, id, state, counting, made, end.length, 0)
    # An id that was used again after its first message was hidden is that of the visible one.
    ids = [write for write in new if write.key.kind == ID]
    shown = sorted(ids, key=lambda put: is_visible(state.visible, put.value.load()) if isinstance(put, Put) else False)
    others = [write for write in new if write.key.kind != ID]
    past = [Append(scope.key(CUT, id), tuple([_cut(one) for one in cuts]))] if cuts and anew else []
    expects = [Expect(document, 0), Expect(stream, end.length)]
    return id, expects, [*others, *shown, *past, Put(document, dump(state), header.tags)]


def _counting(scope: Scope, name: str) -> Tokenizer:
    """Return the tokenizer that counts again: the session's own, or, where that cannot be had, the default one."""
    try:
        own = counter(name, {scope.tokenizer.name: scope.tokenizer})
    except InvalidInput:  # one of ours, whose extra is not installed here
        return tokenizer("default")
    return tokenizer("default") if type(own) is Absent else own


def _state(header: Header, counted_by: str, start: int, anew: bool, length: int) -> State:
    ranges, pins = header.visible, header.pins
    stops = [stop for _, stop in ranges]
    edges = [0, *[edge for low, high in ranges for edge in (low, length if high is None else high)]]
    # The last stretch is open, and what is appended next must lie in it: it begins at the end or before.
    if not ranges or stops[-1] is not None or None in stops[:-1] or edges != sorted(edges):
        raise refused("the visible messages of a session are not stretches of it")
    if any(not 0 <= pin < length for pin in pins) or list(pins) != sorted(set(pins)):
        raise refused("the pins of a session are not places in it")
    if any(name.startswith(CLAIM) or not name for name in header.tags):
        raise refused("a session carries a tag that none can carry")
    return State(
        title=header.title,
        created=header.created,
        tokenizer=header.tokenizer,
        counted_by=counted_by,
        visible=_moved(ranges, start),
        cut=header.cut if anew else None,
        pins=tuple(pin + start for pin in pins),
        metadata=header.metadata,
        forked_from=header.forked_from,
        # Whoever brings the session's tokenizer counts with that.
        recount=None if counted_by == header.tokenizer else Recount(start, start + length),
    )


def _check_cuts(newest: int | None, cuts: list[Undone], length: int) -> None:
    """Hold what `restore` could undo, from the newest cut to the one before it and so on, against the session."""
    after = len(cuts)
    while (place := newest) is not None:
        if not 0 <= place < after or cuts[place].type != "cut":
            raise refused("a session names a cut that it does not hold")
        hidden: Hidden = _read(Hidden, cuts[place].body)
        if hidden.kept_from < 0 or any(not 0 <= low < high <= length for low, high in hidden.ranges):
            raise refused("a cut of a session hid what is no stretch of it")
        newest, after = hidden.previous, place


def _moved(ranges: Ranges, by: int) -> Ranges:
    found = [(start + by, None if stop is None else stop + by) for start, stop in ranges]
    kept = [(max(start, 0), stop) for start, stop in found if stop is None or stop > max(start, 0)]
    return tuple(kept)


def _draft(one: Said, counting: Tokenizer) -> Draft:
    if not -(2**62) < one.at < 2**62:
        raise refused("a message has a time that none can have")
    try:
        return draft(one.message, counting, sidecar=one.sidecar, named=one.named)
    except InvalidInput as problem:
        raise refused(f"a message is none: {problem}") from None


def _cut(one: Undone) -> Entry:
    if one.type == "cut":
        body: Any = msgspec.to_builtins(_read(Hidden, one.body))
    elif one.type == "restored" and (one.body is None or type(one.body) is int):
        body = one.body
    else:
        raise refused(f"a session has no cut of the kind {one.type!r:.40}")
    return Entry(one.type, encode(body), at=one.at)


def _read(kind: type[Any], line: Any) -> Any:
    try:
        return msgspec.convert(line, kind)
    except msgspec.ValidationError as problem:
        raise refused(f"a line of a session or thread is not one ({problem})") from None
