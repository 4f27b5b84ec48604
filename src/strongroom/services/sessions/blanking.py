"""Erasing messages of a session.

They are hidden so that no `restore` brings them back, what was made of them is dropped (summaries,
and vectors, which are made anew of what is left), and they are blanked: in one commit, or in steps if they are many.
Then they are hidden first, and a kill leaves what a repeat finds: messages that are named are blanked last, and the one
before which all go stays. Whoever made a summary or a vector of them before and comes to store it only now is refused.
Their places and times stay. Copies in other sessions (`fork`) are theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from strongroom.codec import encode
from strongroom.operations import Plan, erasing_step, traces
from strongroom.services.sessions import writes
from strongroom.services.sessions.beside import Taking
from strongroom.services.sessions.ids import bearing, find_any
from strongroom.services.sessions.records import own_id
from strongroom.services.sessions.state import (
    SUMMARY,
    VECTOR,
    State,
    covers,
    dump,
    id_key,
    joined,
    parse,
    size,
    without,
)
from strongroom.services.sessions.view import PAGE, View
from strongroom.services.sessions.writes import Decision
from strongroom.store import Delete, Erase, Expect, Get, Put, Range, Truncate, Write


class Erasing:
    """How messages are erased: most of a long stretch in steps, the rest with the commit that answers."""

    def __init__(self, message_ids: Sequence[str], before: str | None) -> None:
        self._message_ids, self._before = message_ids, before
        self._done = 0  # what stands before this place is blank, but for messages that are named

    async def steps(self, view: View) -> bool:
        """Blank what one commit cannot take; tell whether the session has changed by that.

        First all of it is hidden: nobody sees a message without its content, and no `restore` brings one back.
        """
        if self._before is None:  # those that are named are no more than one commit takes
            return False
        named, stop = await self._found(view)
        start, last = max(view.first, self._done), stop - writes.DELETED_AT_ONCE
        if start >= last:
            return False
        await _hide(view, (view.first, stop))
        while start < last:
            some = start, min(start + writes.DELETED_AT_ONCE, last)
            if not await _blank(view, some, named):
                break
            self._done = start = some[1]
        return True

    async def decide(self, view: View) -> Decision:
        """Decide what to write so that nothing is left of messages, visible or not.

        What an adapter made of them goes before that is written, but after all that could be a reason to refuse.
        """
        named, stop = await self._found(view)
        gone = _proper([*named, (view.first, stop)])
        expects, hiding = await _hiding(view, gone)
        as_noted, blanking = await _blanking(view, _proper([*named, (max(view.first, self._done), stop)]))
        await Taking(view.scope, view.stream).of_session(view.id, whole=False)
        return Decision([*hiding, *blanking, traces(view.stream)], [*expects, *as_noted], encode(size(list(gone))))

    async def _found(self, view: View) -> tuple[list[tuple[int, int]], int]:
        """Return where the messages are that are named, and the place before which all are meant."""
        found = [(await find_any(view, one)).index for one in self._message_ids]
        stop = view.first if self._before is None else (await find_any(view, self._before)).index
        return [(index, index + 1) for index in found], stop


def _proper(stretches: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return joined(stretch for stretch in stretches if stretch[0] < stretch[1])


async def _hiding(view: View, gone: Sequence[tuple[int, int]]) -> tuple[list[Expect], list[Write]]:
    """Return what hides messages for ever and drops what was made of them, and what that expects."""
    state = structs.replace(
        view.state,
        visible=without(view.state.visible, gone),
        erased=joined((*view.state.erased, *gone)),
        pins=tuple(index for index in view.state.pins if not covers(gone, index)),
    )
    summaries, vectors = await view.scope.read(Range(view.side(SUMMARY), 0, 0), Range(view.side(VECTOR), 0, 0))
    made = [
        Truncate(view.side(kind), end.length) for kind, end in ((SUMMARY, summaries), (VECTOR, vectors)) if end.length
    ]
    # Somebody may just be storing what was made of them.
    expects = [Expect(view.side(SUMMARY), summaries.length), Expect(view.side(VECTOR), vectors.length)]
    return expects, [Put(view.document, dump(state), view.tags), *made]


async def _hide(view: View, gone: tuple[int, int]) -> None:
    async def attempt() -> Plan[None]:
        expects, hiding = await _hiding(view, [gone])
        as_seen = [Expect(view.document, view.version), *expects]
        return Plan(as_seen, hiding, lambda _: None, refusal=lambda conflict: conflict)

    if not _covered(view.state, gone):
        await erasing_step(view.scope, view.stream, attempt)


async def _blank(view: View, some: tuple[int, int], besides: Sequence[tuple[int, int]]) -> bool:
    """Blank hidden messages but for some, as one step. False if the session is not what it was."""

    async def attempt() -> Plan[bool]:
        document = await view.scope.get(Get(view.document))
        if document is None or not _covered(parse(document.value), some):
            return Plan((), (), lambda _: False)
        left = [(start, stop) for start, stop in without((some,), besides) if stop is not None]
        expects, blanking = await _blanking(view, left)
        return Plan([Expect(document.key, document.version), *expects], blanking, lambda _: True)

    return await erasing_step(view.scope, view.stream, attempt)


def _covered(state: State, some: tuple[int, int]) -> bool:
    return any(start <= some[0] and some[1] <= stop for start, stop in state.erased)


async def _blanking(view: View, stretches: Sequence[tuple[int, int]]) -> tuple[list[Expect], list[Write]]:
    """Return what leaves nothing in messages, and of the ids that callers gave them if they bear those still; nothing
    where nothing is left. Whoever gives such an id to a new message meanwhile keeps it: that is expected not to be."""
    expects, gone = list[Expect](), list[Write]()
    for start, stop in stretches:
        place, is_blank = start, True
        while place < stop:
            part = await view.scope.some(Range(view.stream, place, stop, PAGE))
            if not part.records:
                break
            place = part.records[-1].index + 1
            for record in part.records:
                is_blank = is_blank and record.body is None
                given = own_id(record)
                note = None if given is None else await view.scope.get(Get(id_key(view.document, given)))
                newest = None if given is None else await bearing(view, given, note)
                if note is not None and newest is not None and newest.index == record.index:
                    expects.append(Expect(note.key, note.version))
                    gone.append(Delete(note.key))
        if not is_blank:
            gone.append(Erase(view.stream, start, stop))
    return expects, gone
