"""What every method of a session is built from: looking, deciding, who counts, and the work left over.

`_decide` is how a session's document is written: look, decide purely, commit on condition that nothing changed. What a
call answers is made of its receipt alone, so a repeat answers the same.

Embedding, and counting anew after a change of the tokenizer, are done a bounded piece at a time by the ordinary calls
that come by. What is left is told by the streams alone, so nothing can be lost; a failure is kept for `backlog`, and
never fails the call that it rode on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from strongroom.codec import Json
from strongroom.errors import Conflict, NotFound
from strongroom.operations import Operation, Plan, again, itself, nothing, perform
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.owning import OWNER
from strongroom.services.sessions.newest import Newest
from strongroom.services.sessions.recounts import recount
from strongroom.services.sessions.state import MESSAGE, SESSION, Naming, Recount, State, bounded, parse, size
from strongroom.services.sessions.values import Message, SessionInfo, when
from strongroom.services.sessions.vectors import BLOCK, SLICE, Meaning
from strongroom.services.sessions.view import View, fresh, look, look_closely, missing, require_revision
from strongroom.services.sessions.writes import Decision, Drafts, putting
from strongroom.store import Document, Expect, Get, Range, Receipt, Slice
from strongroom.tokens import Tokenizer
from strongroom.tokens.counting import Absent, counter

T = TypeVar("T")


class AnotherLife(Exception):
    """A session was deleted, and another one has its name now. What an id of the caller's stands for is of one of
    them alone, so what is asked for in the life of the former is not done to the latter under it."""

    def __init__(self, state: State) -> None:
        super().__init__("another session has this name now")
        self.state = state


class Handle:
    """A session's name, and what a process needs to know to write to it."""

    def __init__(
        self,
        scope: Scope,
        id: str,
        state: State,
        known: Iterable[Tokenizer],
        meaning: Meaning | None,
        version: int | None = None,
    ) -> None:
        """`version` is that of the document whose state this is, if it is known."""
        self._id = id
        self._scope = scope
        self._key, self._stream = scope.key(SESSION, id), scope.key(MESSAGE, id)
        self._known = {one.name: one for one in (scope.tokenizer, *known)}
        self._meaning = meaning
        self._naming = Naming(id)
        self._newest = Newest()
        # What appends need to know: who counts, which a record says itself if it was not the session's first tokenizer.
        # That stays the same until the session is deleted, so it is not read again. An append that reads nothing, by a
        # handle from before, leaves it unsaid if its own first tokenizer counted, and a successor takes it for its own.
        self._state = state
        # In which life the document had which version, as far as it is known: no other life ever has the same. Both in
        # one, as several calls may go on at once.
        self._seen = None if version is None else (state.life, version)
        self._settled: Recount | None = None  # the recount that is known to be finished
        self._failure: str | None = None

    @property
    def id(self) -> str:
        return self._id

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.id!r} in {self._scope.space!r}, opened {self.created_at:%Y-%m-%d %H:%M} UTC>"
        )

    @property
    def created_at(self) -> datetime:
        """When the session was opened for the first time."""
        return when(self._state.created)

    @property
    def tokenizer(self) -> Tokenizer:
        """Who counts the session's tokens, as this handle knows it."""
        return self._counter(self._state.tokenizer)

    def _count_as_at_first(self) -> None:
        """Count for somebody who does not know yet that the session has another tokenizer by now."""
        self._state = replace(self._state, tokenizer=self._state.counted_by)

    def _counter(self, name: str) -> Tokenizer:
        return counter(name, self._known)

    async def _view(self) -> View:
        return (await look(self._scope, self.id, self._counter))[0]

    def _operation(self, name: str, content: Json, commit_id: str | None, besides: Json | None = None) -> Operation:
        return Operation(f"session.{name}", self._key, content, commit_id, besides, life=self._state.life)

    def _require_here(self, view: View, mine: str) -> None:
        """Refuse to write under an id of one life to a session of another one."""
        if view.state.life == mine:
            self._seen = mine, view.version
        elif getattr(view.scope.store, "only_plans", False):  # the id of a turn is of all its parts, and stays
            raise NotFound(
                f"session {self.id!r:.80} was deleted since this handle was opened, and another one has its name; get "
                "it anew",
                kind=SESSION,
                id=self.id,
            )
        else:
            raise AnotherLife(view.state)

    async def _in_its_life(self, make: Callable[[], Awaitable[T]]) -> T:
        """Make what a handle is asked for. It stands for a name: so if another session has that now, it is asked for
        once more, of that one and under the ids of its life."""
        for _ in attempts(f"{SESSION} {self.id!r}"):
            try:
                return await make()
            except AnotherLife as found:
                self._state, self._seen = found.state, None
        raise AssertionError("attempts() raises when it is enough")

    async def _decide(
        self,
        operation: Operation,
        attempt: Callable[[View], Awaitable[Decision]],
        told: Callable[[Receipt], Awaitable[T]],
        expected_revision: str | None = None,
        first: Callable[[View], Awaitable[bool]] | None = None,
    ) -> T:
        """Look, decide, commit; if the session changed meanwhile, decide again about what it is now. `first` takes the
        steps that come before, and tells whether those have changed it."""

        async def plan(mine: str) -> Plan[Receipt] | None:
            view = await look_closely(self._scope, self.id, self._counter)
            if operation.commit_id is not None:
                self._require_here(view, mine)
            if first is not None:
                changed = await fresh(view, first(view))
                if changed is None:
                    return None
                view = await look_closely(self._scope, self.id, self._counter) if changed else view
            if expected_revision is not None:
                require_revision(view, expected_revision)
            made = await fresh(view, attempt(view))
            if made is None:
                return None
            return Plan([Expect(view.document, view.version), *made.expects], made.writes, itself, made.answer)

        async def made() -> Receipt:
            mine = self._state.life
            return await perform(self._scope, replace(operation, life=mine), lambda: plan(mine), again)

        receipt = await self._in_its_life(made)
        self._seen = None
        return await told(receipt)

    async def _change(self, operation: Operation, change: Callable[[State], State]) -> None:
        async def attempt(view: View) -> Decision:
            return putting(view, change(view.state))

        await self._decide(operation, attempt, nothing)

    def _stored(self, made: Drafts) -> Callable[[Receipt], Awaitable[list[Message]]]:
        """Return how a receipt tells what a batch was stored as."""

        async def told(receipt: Receipt) -> list[Message]:
            if not made.drafts:
                return []
            at, tokens = (0, None) if receipt.answer is None else receipt.answer.load()
            if tokens is not None:
                return made.stored(self._naming, at, receipt, tokens)
            # None were kept: they are too many, or the call named no id. Their records tell.
            length = receipt.versions[0]
            part = await self._scope.get(Range(self._stream, length - len(made.drafts), length))
            if len(part.records) < len(made.drafts):
                raise missing(self.id)
            return made.stored(self._naming, part.records[0].at, receipt, [one.weight for one in part.records])

        return told

    @property
    def _has_work(self) -> bool:
        """Whether an append may have to go on with something."""
        return self._meaning is not None or self._state.recount not in (None, self._settled)

    async def _appended(self, stored: Sequence[Message]) -> None:
        """Go on with what is left after an append. Every so many messages one of them pays for embedding them all:
        a call to the embedder for each would cost more than it saves, and a broken one would be asked each time."""
        full = self._meaning is not None and (stored[-1].index + 1) // BLOCK > stored[0].index // BLOCK
        if not full and self._state.recount in (None, self._settled):
            return
        try:
            view = await self._view()
            if full and self._meaning is not None:
                await self._meaning.catch_up(view, SLICE)
                self._failure = None
        except Exception as problem:
            # Whatever it is, the messages are stored. They wait, and `backlog`, `search` and `wait` tell.
            self._failure = f"{type(problem).__name__}: {problem}"
            return
        await self._go_on(view)

    async def _go_on(self, view: View) -> None:
        """Count the next block of messages anew, if the tokenizer changed and some are left."""
        plan = view.state.recount
        if plan in (None, self._settled) or type(view.tokenizer) is Absent:
            return
        try:
            left = await recount(view, 1)
        except Conflict:
            return  # others are at it too
        except Exception as problem:
            self._failure = f"{type(problem).__name__}: {problem}"
            return
        self._failure = None
        if not left:
            self._settled = plan

    def _gone(self, conflict: Conflict) -> NotFound | None:
        return missing(self.id) if conflict.key == self._key else None


async def found(scope: Scope, session_id: str, life: str = "") -> tuple[str, State, int]:
    """Return a session that must exist, as a handle is made of it, or raise `NotFound`; also if its life is another."""
    document = await scope.get(Get(scope.key(SESSION, session_id)))
    if document is None:
        raise missing(session_id)
    state = parse(document.value)
    if life not in ("", state.life):
        raise NotFound(
            f"session {session_id!r:.80} was deleted since this was done, and another one has its name",
            kind=SESSION,
            id=session_id,
        )
    return session_id, state, document.version


async def owner_of(scope: Scope, session_id: str) -> str | None:
    """Return whose session this is, None if nobody said; raise `NotFound` if there is none of that id."""
    document = await scope.get(Get(scope.key(SESSION, session_id)))
    if document is None:
        raise missing(session_id)
    return document.tags.get(OWNER)


def info(document: Document, end: Slice) -> SessionInfo:
    """Return the facts about a session from its document and the end of its stream."""
    state = parse(document.value)
    return SessionInfo(
        document.key.id,
        state.title,
        when(state.created),
        state.tokenizer,
        size(bounded(state.visible, end.first, end.length)),
        state.metadata,
        document.tags,
        state.pins,
        state.forked_from,
        state.revision(document.version, end.length),
    )
