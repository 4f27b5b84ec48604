"""Removing a whole session for good, deleted or erased. The content of some of its messages: `blanking.py`.

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
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

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
from strongroom.services.sessions.layouts import DOCUMENTS
from strongroom.services.sessions.state import (
    MESSAGE,
    NEVER,
    NOTHING_SHOWN,
    REST,
    SESSION,
    State,
    dump,
    parse,
)
from strongroom.services.sessions.view import both, missing
from strongroom.store import (
    EXISTS,
    Delete,
    Document,
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
        closed = State("", state.created, state.tokenizer, state.tokenizer, NOTHING_SHOWN, restored=state.restored)
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
