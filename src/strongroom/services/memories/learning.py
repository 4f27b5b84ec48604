"""Learning from a session: what is new since last time, a model's answer, and one commit of both.

Which messages were learnt from is a document for each session and owner, as ranges: a message that was hidden and comes
back is new. It is written in the commit that stages the proposals, on condition that it is as it was read. So whoever
is killed before the commit has learnt nothing, whoever comes after it finds it done, and of two that read the same
messages one commits and the other is told that nothing was left. The session's own document must be as it was read,
too, or still show these messages: what was erased meanwhile is not learnt.

The model is asked before anything is decided, outside of every attempt: it may take minutes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct

import strongroom.models as models
from strongroom.codec import Json, encode, pack
from strongroom.operations import Operation, Plan, Undecided, made_here, perform, repeated
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.extraction import Extracted, Line, Whose, extracted, merged, question, texts_of
from strongroom.services.memories.keys import load
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.sources import message_source, session_source
from strongroom.services.memories.values import Batch, Learnt, Request
from strongroom.services.sessions.state import bounded, joined, size, without
from strongroom.services.sessions.values import Message
from strongroom.services.sessions.view import View, backward, both, forward, view_of
from strongroom.store import Expect, Get, Key, Put, Receipt, Write
from strongroom.tokens.counting import Absent
from strongroom.tokens.roles import speaker
from strongroom.values import moment

ROLES = frozenset({"user", "assistant"})
MOST_MESSAGES = 200
MAX_CHARS = 40_000  # of all messages that a model is shown at once
OVERLAP = 500  # characters that two pieces of a long message share: what is said across the cut stands whole in one
MOST_PIECES = 25  # of one message
BEFORE = 6

Spans = tuple[tuple[int, int], ...]
Staged = tuple[Sequence[Expect], Sequence[Write], Batch]
Staging = Callable[[Sequence[Request]], Awaitable[Staged | None]]


class Progress(Struct, frozen=True):
    """The value of the document that says which messages of a session were learnt from, for one owner."""

    session_id: str
    learnt: Spans = ()


class Lesson(Struct, frozen=True):
    """What a model made of some messages: which, of what state of things, and the requests."""

    version: int
    spans: Spans
    requests: tuple[Request, ...] = ()
    refused: tuple[str, ...] = ()


class _Seen(Struct, frozen=True):
    """One snapshot: the session, which of its messages were learnt from, and at which version that stands."""

    view: View
    place: Progress
    version: int

    @property
    def new(self) -> list[tuple[int, int]]:
        fresh = without(self.view.state.visible, self.place.learnt)
        return bounded(fresh, self.view.first, self.view.length)


def progress_key(space: str, session_id: str, owner: Whose) -> Key:
    return Key(space, keys.LEARNT, keys.digest(session_id, keys.owner(owner.user_id, owner.project_id)))


class Learning:
    """The learner of one session for one owner."""

    def __init__(self, scope: Scope, policy: Policy, session_id: str, owner: Whose, proposer: str) -> None:
        self._scope, self._policy = scope, policy
        self._session_id, self._owner, self._proposer = session_id, owner, proposer
        self._key = progress_key(scope.space, session_id, owner)

    async def learn(
        self, model: models.Model, limit: int, staging: Staging, commit_id: str | None, *, threads: bool
    ) -> Learnt:
        """Read, ask, commit. A repeat by its id asks nobody."""
        operation = self.operation(commit_id)

        async def decide() -> Json:
            lesson = await self._asked(model, limit, threads)
            told = self._policy.told
            return encode({**(told.load() if told is not None else {}), "lesson": msgspec.to_builtins(lesson)})

        lesson = None
        if made_here(self._scope) and not (commit_id is not None and await repeated(self._scope, operation)):
            lesson = await self._asked(model, limit, threads)
        return await self.record(operation, lesson, staging, decide)

    def operation(self, commit_id: str | None) -> Operation:
        owner = self._owner
        content = encode(
            {
                "session_id": self._session_id,
                "scope": owner.scope,
                "user_id": owner.user_id,
                "project_id": owner.project_id,
                "proposer": self._proposer,
            }
        )
        return Operation("memories.learn", self._key, content, commit_id, self._policy.told)

    async def record(
        self,
        operation: Operation,
        lesson: Lesson | None,
        staging: Staging,
        decide: Callable[[], Awaitable[Json]] | None = None,
    ) -> Learnt:
        """Commit what was learnt, unless somebody else was first: then nothing."""

        async def attempt() -> Plan[Learnt] | None:
            if lesson is None:
                raise Undecided
            seen = await self._look()
            if not lesson.spans or seen.version != lesson.version or not _shows(seen.new, lesson.spans):
                nothing = Learnt(session_id=self._session_id, left=size(seen.new))
                return Plan((Expect(self._key, seen.version),), (), lambda _: nothing, pack(nothing))
            view, place = seen.view, Progress(self._session_id, joined((*seen.place.learnt, *lesson.spans)))
            expects: list[Expect] = [Expect(self._key, seen.version), Expect(view.document, view.version)]
            writes: list[Write] = [Put(self._key, pack(place), {"session": keys.session_tag(self._session_id)})]
            count = size(list(lesson.spans))
            done = Learnt(
                session_id=self._session_id, messages=count, left=size(seen.new) - count, refused=lesson.refused
            )
            if lesson.requests:
                staged = await staging(lesson.requests)
                if staged is None:
                    return None
                expects, writes = [*expects, *staged[0]], [*writes, *staged[1]]
                done = msgspec.structs.replace(done, batch_id=staged[2].id, proposals=len(lesson.requests))
            return Plan(expects, writes, lambda _: done, pack(done))

        return await perform(self._scope, operation, attempt, _replay, decide)

    async def _look(self) -> _Seen:
        stored, document, end = await self._scope.read(Get(self._key), *both(self._scope, self._session_id))
        view = view_of(self._scope, self._session_id, document, end, Absent)
        return _Seen(
            view, load(stored, Progress) if stored else Progress(self._session_id), stored.version if stored else 0
        )

    async def _asked(self, model: models.Model, limit: int, threads: bool) -> Lesson:
        """Ask the model about what is new."""
        seen = await self._look()
        spans, messages = await self._new(seen, limit)
        lines = [self._line(one) for one in messages if _tells(one)]
        if not lines:
            return Lesson(seen.version, spans)
        before = [seen.view.message(record) for record in await backward(seen.view, spans[0][0], BEFORE)]
        context = [cut(self._line(one), 0) for one in before if _tells(one)]
        shown, unseen = pieces(lines)
        found: list[Extracted] = []
        for piece in shown:
            answer = await models.ask(model, question(piece, context), threads=threads)
            now = moment(self._scope.clock())
            found.append(extracted(answer, piece, self._owner, self._policy, now))
        every = merged(found, self._policy.max_items)
        requests, revoked = await believed(self._scope, every.requests)
        return Lesson(seen.version, spans, requests, (*every.refused, *revoked, *unseen))

    async def _new(self, seen: _Seen, limit: int) -> tuple[Spans, list[Message]]:
        """Return the next messages to learn from: as many as fit, at least one; and where they stand."""
        fresh, taken, spans, room = seen.new, list[Message](), list[tuple[int, int]](), MAX_CHARS
        new = msgspec.structs.replace(
            seen.view, state=msgspec.structs.replace(seen.view.state, visible=(*fresh, (seen.view.length, None)))
        )
        for record in await forward(new, 0, limit):
            message = new.message(record)
            room -= len(texts_of(message)) if _tells(message) else 0
            if taken and room < 0:
                break
            taken.append(message)
            spans.append((record.index, record.index + 1))
        return joined(spans), taken

    def _line(self, message: Message) -> Line:
        refs = (session_source(self._session_id), message_source(self._session_id, message.id))
        return Line(speaker(message), message.name, message.time, texts_of(message), refs)


def pieces(lines: Sequence[Line]) -> tuple[list[Sequence[Line]], tuple[str, ...]]:
    """Return what a model is shown, a question each: everything at once, or a message that is longer than that, which
    is alone, piece by piece; and what of it is not shown."""
    if sum(len(line.text) for line in lines) <= MAX_CHARS:
        return [lines], ()
    [line] = lines
    starts = range(0, len(line.text) - OVERLAP, MAX_CHARS - OVERLAP)
    left = max(0, len(line.text) - starts[:MOST_PIECES][-1] - MAX_CHARS)
    unseen = (f"the last {left:,} of {len(line.text):,} characters of a message, which the model was not shown",)
    return [[cut(line, start)] for start in starts[:MOST_PIECES]], unseen if left else ()


def cut(line: Line, start: int) -> Line:
    return msgspec.structs.replace(line, text=line.text[start : start + MAX_CHARS])


async def believed(scope: Scope, requests: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[str, ...]]:
    """Leave out what cites a source that was revoked, and say so; receipts keep that, so it names no source."""
    refs = list(dict.fromkeys(ref for request in requests for ref in request.source_refs))
    revocations = [Get(keys.revocation_key(scope.space, ref)) for ref in refs]
    revoked = {ref for ref, held in zip(refs, await scope.get_all(revocations), strict=True) if held}
    kept = tuple([one for one in requests if not revoked.intersection(one.source_refs)])
    left = len(requests) - len(kept)
    return kept, (f"{left} for a source that was revoked",) if left else ()


def _tells(message: Message) -> bool:
    return speaker(message) in ROLES and bool(texts_of(message).strip())


def _shows(new: Sequence[tuple[int, int]], spans: Spans) -> bool:
    """Tell whether all these messages are still among those to learn from."""
    return all(any(low <= start and stop <= high for low, high in new) for start, stop in spans)


async def _replay(receipt: Receipt) -> Learnt:
    assert receipt.answer is not None
    return msgspec.json.decode(receipt.answer, type=Learnt)
