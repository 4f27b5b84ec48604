"""What every method of a session is built from: looking, deciding, committing, who counts, and the work left over.

`decide` is the only way to write a session's document: look, decide purely, commit on condition that nothing changed,
and look again if something did.

Embedding, and counting anew after a change of the tokenizer, are done a bounded piece at a time by the ordinary calls
that come by. What is left is told by the streams alone, so nothing can be lost; a failure is kept for `backlog`, and
never fails the call that it rode on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.sessions.recounts import recount
from strongroom.services.sessions.state import MESSAGE, SESSION, Naming, Recount, State, bounded, dump, parse, size
from strongroom.services.sessions.values import Message, SessionInfo, when
from strongroom.services.sessions.vectors import BLOCK, SLICE, Meaning
from strongroom.services.sessions.view import PAGE, View, forward, look, look_closely
from strongroom.store import Commit, Document, Expect, Put, Range, Receipt, Record, Slice, Write, new_id
from strongroom.tokens import Tokenizer, is_built_in
from strongroom.tokens import tokenizer as find_tokenizer

TRIES = 100
AnyTokenizer = str | Tokenizer | Callable[[str], Any]


class Plan(Struct, frozen=True):
    """What one attempt wants to write, provided the session's document has not changed."""

    writes: list[Write]
    expects: list[Expect] = []
    result: Any = None


class Handle:
    """A session's name, and what a process needs to know to write to it."""

    def __init__(
        self, scope: Scope, document: Document, chosen: Tokenizer | None, meaning: Meaning | None = None
    ) -> None:
        self.id = document.key.id
        self._scope = scope
        self._chosen = chosen
        self._meaning = meaning
        self._naming = Naming(self.id)
        # What appends need to know. They do not read it again: it only says who counts, and a record says so itself.
        self._state = parse(document.value)
        self._settled: Recount | None = None  # the recount that is known to be finished
        self._failure: str | None = None

    @property
    def created_at(self) -> datetime:
        """When the session was opened for the first time."""
        return when(self._state.created)

    async def _view(self) -> View:
        return (await look(self._scope, self.id, self._counter))[0]

    def _counter(self, name: str) -> Tokenizer:
        """Return the tokenizer a session names: ours if it is that one, otherwise one that can be made again."""
        for known in (self._chosen, self._scope.tokenizer):
            if known is not None and known.name == name:
                return known
        if is_built_in(name):
            return find_tokenizer(name)
        raise InvalidInput(
            f"session {self.id!r} counts with the tokenizer {name!r}; pass it to sessions.open(tokenizer=)"
        )

    def _any_counter(self, name: str) -> Tokenizer:
        # Renaming or deleting a session must not depend on having its tokenizer at hand.
        try:
            return self._counter(name)
        except InvalidInput:
            return self._scope.tokenizer

    async def _decide(self, attempt: Callable[[View], Awaitable[Plan]]) -> tuple[Any, Receipt]:
        """Look, decide, commit; if the session changed meanwhile, decide again about what it is now."""
        for _ in range(TRIES):
            view = await look_closely(self._scope, self.id, self._any_counter)
            plan = await attempt(view)
            try:
                receipt = await self._commit([Expect(view.document, view.version), *plan.expects], plan.writes, None)
            except Conflict:
                continue
            return plan.result, receipt
        raise contended(self.id)

    async def _change(self, change: Callable[[State], State]) -> None:
        async def attempt(view: View) -> Plan:
            return putting(view, change(view.state))

        await self._decide(attempt)
        self._state = change(self._state)

    async def _commit(self, expects: Sequence[Expect], writes: Sequence[Write], commit_id: str | None) -> Receipt:
        return await self._scope.store.commit(
            Commit(new_id() if commit_id is None else commit_id, tuple(expects), tuple(writes))
        )

    async def _appended(self, start: int, stop: int) -> None:
        """Go on with what is left after an append. Every so many messages one of them pays for embedding them all:
        a call to the embedder for each would cost more than it saves, and a broken one would be asked each time."""
        full = self._meaning is not None and stop // BLOCK > start // BLOCK
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
        if plan in (None, self._settled):
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

    async def _visible(self, view: View, stop: int) -> list[Record]:
        found: list[Record] = []
        start = 0
        while page := [one for one in await forward(view, start, PAGE) if one.index < stop]:
            found += page
            start = page[-1].index + 1
        return found

    async def _stored(self, start: int, stop: int) -> list[Message]:
        view, (part,) = await look(
            self._scope, self.id, self._any_counter, [Range(self._scope.key(MESSAGE, self.id), start, stop)]
        )
        return [view.message(record) for record in part.records]

    def _missing(self) -> NotFound:
        return NotFound(f"there is no session {self.id!r}; nothing changed", kind=SESSION, id=self.id)


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
    )


def contended(session_id: str) -> Conflict:
    """Say that others were faster again and again."""
    return Conflict(
        f"session {session_id!r} changed during each of {TRIES} tries; nothing changed", expected=0, actual=0
    )


def putting(view: View, state: State) -> Plan:
    """Write the document, and nothing else."""
    return Plan([Put(view.document, dump(state), view.tags)])
