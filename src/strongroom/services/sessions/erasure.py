"""Removing for good: a whole session, deleted or erased, or the content of some of its messages.

Deleting a session: gone at once, its messages in steps. The first commit removes the document, so that nobody sees the
session any more, and with it the oldest messages. Those of a long session follow in commits of their own, because one
that removes a million would keep every other writer waiting. Until they are gone a small document says how far they
are to be removed, and whose they were. Should the process die in between, what is left cannot be seen, and whoever
comes next removes it: a repeat, whoever deletes a session of this space, a piece of it whoever opens a new one, and
whoever erases its owner. What has no document is deleted and erased too, if there is anything of it: first what would
not be found without what an adapter knows the session by, which goes last.

Erasing a session, for whoever erases its owner: the other way round, because its document says whose it is. First it is
closed: nothing of it is shown any more, nor of what is still appended, and nothing more is made of it or learnt from
it. Then its messages go in steps, and the document goes last. So whatever a kill leaves is found by its owner.

Erasing messages: they are hidden so that no `restore` brings them back, what was made of them is dropped (summaries,
and vectors, which are made anew of what is left), and they are blanked: in one commit, or in steps if they are many.
Then they are hidden first, and a kill leaves what a repeat finds: messages that are named are blanked last, and the one
before which all go stays. Whoever made a summary or a vector of them before and comes to store it only now is refused.
Their places and times stay. Copies in other sessions (`fork`) are theirs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from msgspec import structs

from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Conflict, Damaged, InvalidInput, StrongroomError
from strongroom.operations import (
    NOTHING,
    OURS,
    Operation,
    Plan,
    again,
    erasing_step,
    itself,
    made_here,
    partly,
    perform,
    step,
    traces,
)
from strongroom.scope import Scope
from strongroom.services.owning import OWNER
from strongroom.services.sessions import writes
from strongroom.services.sessions.beside import Taking, its_own, positions
from strongroom.services.sessions.ids import bearing, find_any
from strongroom.services.sessions.layouts import DOCUMENTS
from strongroom.services.sessions.records import own_id
from strongroom.services.sessions.state import (
    MESSAGE,
    NEVER,
    NOTHING_SHOWN,
    REST,
    SESSION,
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
from strongroom.services.sessions.view import PAGE, View, both, missing
from strongroom.services.sessions.writes import Decision
from strongroom.store import (
    EXISTS,
    Delete,
    Document,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    Scan,
    Truncate,
    Write,
)

Step = Callable[[Scope, Key, Callable[[], Awaitable[Plan[bool]]]], Awaitable[bool]]


async def delete(scope: Scope, session_id: str, commit_id: str | None, own: int | None = None) -> None:
    """Remove a session and its messages for good.

    `own` is the version that an adapter has seen of what it knows the session by: if there is another, that is a
    conflict, and nothing changed. Version 0 stands for what is left of a session that is gone.
    """
    key, stream, lines = scope.key(SESSION, session_id), scope.key(MESSAGE, session_id), 0

    async def attempt() -> Plan[Receipt]:
        nonlocal lines
        document, end = await scope.read(*both(scope, session_id))
        expects, known = await its_own(scope, session_id, end.length)
        if own is not None:
            _require(own, session_id, document, expects)
        lines += await Taking(scope).of_session(session_id)
        as_placed, entries = await positions(scope, session_id, NEVER, writes.DELETED_AT_ONCE)
        if document is None:
            if end.first == end.length and not (known or lines or entries):
                raise missing(session_id)
            await _rest(scope, session_id, end.length)
            left: list[Write] = [Truncate(stream, end.first + writes.DELETED_AT_ONCE), *known]
            return Plan([Expect(key, 0), *expects], left, itself)
        gone = [*writes.deleting(scope, session_id, end.first), *known]
        if max(end.length - end.first, len(entries)) <= writes.DELETED_AT_ONCE:
            return Plan(_once(Expect(key, EXISTS), *expects, *as_placed), [*gone, *entries], itself)
        owner = {OWNER: document.tags[OWNER]} if OWNER in document.tags else {}
        rest = Put(scope.key(REST, session_id), encode(end.length), owner)
        as_seen = _once(Expect(key, document.version), Expect(stream, end.length), *expects)
        return Plan(as_seen, [*gone, rest], itself)

    besides = None if own is None else encode({"own": own})
    receipt = await perform(scope, Operation("sessions.delete", key, NOTHING, commit_id, besides), attempt, again)
    if not made_here(scope):
        return
    try:
        await _rest(scope, session_id, receipt.versions[0])
    except CommitUnknown as problem:
        problem.commit_id = OURS + receipt.id if commit_id is None else commit_id
        raise
    except StrongroomError as problem:
        raise partly(problem) from None
    with suppress(StrongroomError):  # what others left is none of our caller's business
        async for page in scope.pages(Scan(scope.space, REST)):
            for one in page:
                await _rest(scope, one.key.id, _stop(one))


async def remove_some(scope: Scope) -> None:
    """Go on a little with a deletion that somebody did not finish."""
    with suppress(StrongroomError):  # whoever comes next may have better luck
        for one in (await scope.get(Scan(scope.space, REST, limit=1))).documents:
            await _one_step(scope, one.key.id, _stop(one), step)


async def rests_of(scope: Scope, user_id: str) -> list[str]:
    """Return the sessions of a user that were deleted, and of which something is left."""
    return await scope.ids(Scan(scope.space, REST, {OWNER: user_id}))


async def erase_rest(scope: Scope, session_id: str) -> int:
    """Erase what is left of a deleted session; return how many messages that were."""
    end, rest = await scope.read(Range(scope.key(MESSAGE, session_id), 0, 0), Get(scope.key(REST, session_id)))
    if rest is None:
        return 0
    await _rest(scope, session_id, _stop(rest), erases=True)
    return max(0, _stop(rest) - end.first)


async def erase_all(scope: Scope, session_id: str) -> Plan[Receipt]:
    """Take a session away in steps, and say what pays for all of them: nothing is left of it but its name."""
    stream = scope.key(MESSAGE, session_id)
    count = 0
    if await scope.get(Get(scope.key(SESSION, session_id))) is None:  # a deletion that was killed may have left some
        end = await scope.get(Range(stream, 0, 0))
        if not await erase_left(scope, session_id) and not end.length:
            raise missing(session_id)
        count = end.length - end.first
    while await close(scope, session_id):  # again, if an adapter that was at work has shown something since
        count += await remove(scope, session_id)
    return Plan((), (traces(stream),), itself, encode(count))


async def erase_left(scope: Scope, session_id: str) -> bool:
    """Erase what is left of a session that has no document; tell whether it was more than messages."""
    key, stream = scope.key(SESSION, session_id), scope.key(MESSAGE, session_id)
    stop = (await scope.get(Range(stream, 0, 0))).length

    async def attempt() -> Plan[bool]:
        document = await scope.get(Get(key))
        expects, known = await its_own(scope, session_id, stop)
        if document is not None or not known:  # somebody has begun it anew: what is there by now is another's
            return Plan((), (), lambda _: False)
        return Plan([Expect(key, 0), *expects], known, lambda _: True)

    beside = await Taking(scope, stream).of_session(session_id)
    await _rest(scope, session_id, stop, erases=True)
    return await erasing_step(scope, stream, attempt) or beside > 0


async def close(scope: Scope, session_id: str) -> bool:
    """Let a session show nothing any more, and keep of its document only whose it is. False if there is none."""
    key = scope.key(SESSION, session_id)

    async def attempt() -> Plan[bool]:
        document = await scope.get(Get(key))
        if document is None:
            return Plan((), (), lambda _: False)
        state, owner = parse(document.value), {OWNER: document.tags[OWNER]} if OWNER in document.tags else {}
        closed = State("", state.created, state.tokenizer, state.tokenizer, NOTHING_SHOWN)
        if state == closed and document.tags == owner:
            return Plan((), (), lambda _: True)
        gone = [Delete(scope.key(kind, session_id)) for kind in writes.SIDES]
        return Plan([Expect(key, document.version)], [Put(key, dump(closed), owner), *gone], lambda _: True)

    return await erasing_step(scope, scope.key(MESSAGE, session_id), attempt)


async def remove(scope: Scope, session_id: str) -> int:
    """Remove a closed session in steps, its document last. Return how many messages it held.

    Where messages cannot be counted, or cut off, because they are damaged, they go at once.
    """
    key, stream = scope.key(SESSION, session_id), scope.key(MESSAGE, session_id)

    async def attempt() -> Plan[tuple[int, bool]]:
        document, end = await scope.read(*both(scope, session_id))
        if document is None or parse(document.value).visible != NOTHING_SHOWN:
            return Plan((), (), lambda _: (0, True))  # somebody else removed it, and perhaps opened it anew
        as_placed, entries = await positions(scope, session_id, NEVER, writes.DELETED_AT_ONCE)
        stop, some = min(end.first + writes.DELETED_AT_ONCE, end.length), entries[: writes.DELETED_AT_ONCE]
        if stop < end.length or some != entries:
            return Plan(as_placed, [Truncate(stream, stop), *some], lambda _: (stop - end.first, False))
        # All that is there by then: somebody may still append.
        expects, own = await its_own(scope, session_id, end.length)
        gone = [Delete(scope.key(kind, session_id)) for kind in (SESSION, *writes.SIDES)]
        return Plan(
            _once(Expect(key, document.version), *expects, *as_placed),
            [Truncate(stream, NEVER), *gone, *own, *entries],
            lambda made: (made.versions[0] - end.first, True),
        )

    async def at_once() -> Plan[None]:
        document = await scope.get(Get(key))
        if document is None or parse(document.value).visible != NOTHING_SHOWN:
            return Plan((), (), lambda _: None)
        return Plan([Expect(key, document.version)], [Delete(stream)], lambda _: None)

    taking = Taking(scope, stream)
    await taking.of_session(session_id)
    try:
        messages = await _in_steps(scope, stream, attempt)
    except Damaged:
        await erasing_step(scope, stream, at_once)
        messages = await _in_steps(scope, stream, attempt)
    await taking.of_session(session_id)  # what an agent that was at work has put since
    return messages


async def erase_said(scope: Scope, session_id: str) -> int:
    """Erase what was said in a session whose document stays, and what was made of it; return how many messages.

    Either it is damaged: nobody knows what it says, but nobody can open the session by it either. Or something else is
    that is found by it.
    """
    stream = scope.key(MESSAGE, session_id)
    made = [Delete(scope.key(kind, session_id)) for kind in writes.SIDES]

    async def attempt() -> Plan[tuple[int, bool]]:
        end = await scope.get(Range(stream, 0, 0))
        stop = min(end.first + writes.DELETED_AT_ONCE, end.length)
        return Plan((), [Truncate(stream, stop), *made], lambda _: (stop - end.first, stop == end.length))

    async def at_once() -> Plan[int]:
        return Plan((), [Delete(stream), *made], lambda made: made.versions[0])

    try:
        return await _in_steps(scope, stream, attempt)
    except Damaged:
        return await erasing_step(scope, stream, at_once)


async def _in_steps(scope: Scope, stream: Key, attempt: Callable[[], Awaitable[Plan[tuple[int, bool]]]]) -> int:
    """Take messages away until none is left; return how many they were."""
    messages, done = 0, False
    while not done:
        some, done = await erasing_step(scope, stream, attempt)
        messages += some
    return messages


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


async def _rest(scope: Scope, session_id: str, stop: int, *, erases: bool = False) -> None:
    """Remove messages up to where the session ended: one that was opened anew meanwhile keeps what is its own."""
    while not await _one_step(scope, session_id, stop, erasing_step if erases else step):
        pass


async def _one_step(scope: Scope, session_id: str, stop: int, make: Step) -> bool:
    """Remove some messages of those up to where the session ended; tell whether they were the last."""
    key, stream = scope.key(SESSION, session_id), scope.key(MESSAGE, session_id)

    async def attempt() -> Plan[bool]:
        end, rest, document = await scope.read(Range(stream, 0, 0), Get(scope.key(REST, session_id)), Get(key))
        last = NEVER if document is None else stop
        expects, entries = await positions(scope, session_id, last, writes.DELETED_AT_ONCE)
        if entries and document is None:
            expects.append(Expect(key, 0))
        cut, some = min(end.first + writes.DELETED_AT_ONCE, stop), entries[: writes.DELETED_AT_ONCE]
        gone: list[Write] = [*([Truncate(stream, cut)] if end.first < stop else []), *some]
        if cut < stop or some != entries:
            return Plan(expects, gone, lambda _: False)
        if rest is None or _stop(rest) > stop:  # somebody has opened it anew, and deleted it too
            return Plan(expects, gone, lambda _: True)
        return Plan([*expects, Expect(rest.key, rest.version)], [*gone, Delete(rest.key)], lambda _: True)

    return await make(scope, stream, attempt)


def _require(own: int, session_id: str, document: Document | None, expects: Sequence[Expect]) -> None:
    """Refuse what is no longer as an adapter has seen it."""
    now = [one for one in expects if one.key.kind in DOCUMENTS.values()]
    if not now:
        raise InvalidInput(f"no adapter has a document of session {session_id!r:.80}; nothing changed", path="own")
    if own != now[0].version or (not own and document is not None):
        raise Conflict(
            f"session {session_id!r:.80} has changed since it was seen; nothing changed",
            expected=own,
            actual=now[0].version,
            key=now[0].key,
        )


def _once(*expects: Expect) -> list[Expect]:
    return list(dict.fromkeys(expects))


def _stop(rest: Document) -> int:
    """Return up to where messages of a deleted session are to be removed."""
    stop = rest.value.load()
    if not isinstance(stop, int):
        raise Damaged(f"what is left of session {rest.key.id!r} is not told by a number", reason="corrupt")
    return stop
