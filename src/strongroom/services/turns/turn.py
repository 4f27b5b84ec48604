"""One turn, one commit: whatever an agent does in a step becomes visible and durable together, or not at all.

Theory of operation
-------------------
A turn collects calls; what can be refused without looking is refused at once, and what a call was given is copied,
for its caller may change it afterwards. At the end of the block every call is made by its ordinary service over an
`Overlay`, which joins what they want to write, and that is one commit under the turn's own id. If somebody was faster,
nothing was written, and the calls are made anew about what is there now. A call that expects what is no longer so is
refused as ever (`Conflict`), and the turn with it.

Over HTTP what was collected is sent, and the server does the same with it. What a call answers is made from the receipt
of the turn, wherever and however often that was made.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, Unpack

from strongroom.arguments import checked
from strongroom.codec import Json, pack
from strongroom.errors import BudgetExceeded, Closed, Conflict, InvalidInput, StrongroomError
from strongroom.operations import NOTHING, Operation, Plan, made_here, perform
from strongroom.scope import Scope
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.requests import read_requests
from strongroom.services.memories.values import MemoryRequest, Request
from strongroom.services.runs import own_state
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.state import EPISODES, Ref
from strongroom.services.runs.verifying import Seal
from strongroom.services.runs.working_set import check_edits
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.values import Messages
from strongroom.services.sessions.writes import Ids
from strongroom.services.threads.plans import THREAD
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.turns.parts import Made, Part, ServiceCall, content_of, plan, retold, take
from strongroom.store import AnyQuestion, Append, Get, Key, Range, Receipt
from strongroom.values import UpdateFields

KIND = "turn"
MAX_PARTS = 100
MAX_BYTES = 7 << 20  # with what goes around it, what a server takes in one request

R = TypeVar("R")


class Services(Protocol):
    """What a turn needs of a context."""

    scope: Scope
    memories: AsyncMemories
    threads: AsyncThreads


@checked
class AsyncTurn:
    """A unit of work over everything in a space. Made by `ctx.turn`; its calls are made when its block ends."""

    def __init__(self, services: Any, commit_id: str | None = None) -> None:
        self._services: Services = services
        self._scope = self._services.scope
        self._commit_id = commit_id
        self._parts: list[Part] = []
        self._bytes = 0
        self._updates: dict[str, int] = {}
        self._typed = False  # whether the state of a run is patched that has a type
        self._runs: dict[str, list[AsyncRun]] = {}  # every handle that took part
        self._left: dict[str, AsyncRun] = {}  # what the last attempt would leave the runs as
        self._sessions: dict[int, AsyncSession] = {}
        self._revisions: dict[Key, str | None] = {}  # what the first append to a session expects of it
        self._made: Made | None = None
        self._over = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._parts)} parts{', over' if self._over else ''}>"

    # ---- what can be part of a turn ---------------------------------------------------------------------------------

    def append(
        self,
        session: AsyncSession,
        messages: Messages,
        *,
        sidecars: Sequence[Any] | None = None,
        ids: Ids = "unique",
        expected_revision: str | None = None,
    ) -> None:
        """Add messages to a session. See `Session.append`; what is expected is said of it as it was before the turn."""
        self._require_here(session._scope)
        expected = self._revision(session, expected_revision)
        one = isinstance(messages, Mapping | str | bytes)
        given: Any = _kept(messages) if one else [_kept(message) for message in messages]
        beside = _kept(sidecars)

        def call(scope: Scope, id: str) -> Awaitable[Any]:
            there = _session(session, scope)
            return there.append(given, sidecars=beside, ids=ids, expected_revision=expected, commit_id=id)

        place = len(self._parts)
        self._add(call, Range(session._stream, limit=0))
        self._sessions[place] = session
        self._revisions.setdefault(session._stream, expected_revision)

    def update(
        self,
        run: AsyncRun,
        /,
        *,
        expected_seq: int | None = None,
        append: Mapping[str, Sequence[Any]] | None = None,
        remove: Mapping[str, Sequence[Any]] | None = None,
        state_patch: Mapping[str, Any] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        **fields: Unpack[UpdateFields],
    ) -> None:
        """Update a run. See `Run.update`; what is expected is said of the run as it was before the turn."""
        self._require_here(run._ref.scope)
        earlier, expected = self._updates.get(run.id, 0), expected_seq
        if fields or expected is not None or not (append or remove or state_patch is not None):
            expected = (run.seq if expected is None else expected) + earlier
        check_edits(fields, append or {}, remove or {})
        edits: dict[str, Any] = {"append": append, "remove": remove, "state_patch": state_patch, **fields}
        told = {name: _kept(value) for name, value in edits.items()} | {"actor": actor, "parent": parent}

        async def call(scope: Scope, id: str) -> Any:
            there = _run(run, scope)
            made = await there.update(expected_seq=expected, commit_id=id, **told)
            self._left[run.id] = there
            return made

        self._add(call, Get(run._ref.key), Range(run._ref.ledger, limit=0))
        self._updates[run.id] = earlier + 1
        self._takes_part(run)
        self._typed |= state_patch is not None and run._state_type is not None

    def record(
        self,
        run: AsyncRun,
        type: str,
        payload: Mapping[str, Any],
        *,
        actor: str | None = None,
        parent: str | None = None,
    ) -> None:
        """Add an event to a run's ledger. See `Run.record`."""
        self._require_here(run._ref.scope)
        told = _kept(payload)

        def call(scope: Scope, id: str) -> Awaitable[Any]:
            return _run(run, scope).record(type, told, actor=actor, parent=parent, commit_id=id)

        self._add(call, Range(run._ref.ledger, limit=0))
        self._takes_part(run)

    def send(self, thread_id: str, payload: Any, *, from_id: str, to_id: str = "") -> None:
        """Add a message to a thread. See `ctx.threads.append`."""
        threads, told = self._services.threads, _kept(payload)

        def call(scope: Scope, id: str) -> Awaitable[Any]:
            there = AsyncThreads(scope, limits=threads.limits, types=threads.types)
            return there.append(thread_id, told, from_id=from_id, to_id=to_id, commit_id=id)

        self._add(call, Range(self._scope.key(THREAD, thread_id), 0, 0))

    def propose(
        self,
        requests: MemoryRequest | Request | Sequence[MemoryRequest | Request],
        *,
        proposer: str,
        run_id: str | None = None,
        batch_id: str | None = None,
    ) -> None:
        """Stage memories for review. See `ctx.memories.propose`."""
        policy, wanted = self._services.memories._policy, read_requests(requests)

        def call(scope: Scope, id: str) -> Awaitable[Any]:
            there = AsyncMemories(scope, policy=policy, threads=False)
            return there.propose(wanted, proposer=proposer, run_id=run_id, batch_id=batch_id, commit_id=id)

        self._add(call)

    # ---- its end ----------------------------------------------------------------------------------------------------

    async def results(self) -> list[Any]:
        """Return what each call answers, in their order, as it would have answered alone."""
        if self._made is None:
            raise InvalidInput("a turn has results once its block has ended")
        return await retold(self._scope, self._parts, self._made.receipt) if self._parts else []

    async def __aenter__(self) -> AsyncTurn:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._require_open()
        self._over = True
        if kind is None:
            await self._commit()

    async def _commit(self) -> None:
        if not self._parts and self._commit_id is None:
            self._made = Made(Receipt("", ()))
            return
        moved: Conflict | None = None

        def lost(conflict: Conflict) -> None:
            nonlocal moved
            moved = conflict

        async def attempt() -> Plan[Made]:
            return await self._plan(moved, lost)

        content, besides = content_of(self._parts)
        operation = Operation("turn", target_of(self._scope), content, self._commit_id, besides)
        await self._check_states()
        await self._finish(await perform(self._scope, operation, attempt, _before))

    async def _plan(self, moved: Conflict | None, lost: Callable[[Conflict], None]) -> Plan[Made]:
        self._left.clear()
        return await plan(self._scope, self._parts, moved, lost)

    async def _check_states(self) -> None:
        """Refuse what does not fit the type of a run's own state, which a server does not know: plan the turn here too.

        Whatever else is wrong with it is for the server to say.
        """
        if not self._typed or made_here(self._scope):
            return
        try:
            await plan(self._scope, self._parts, None, lambda conflict: None)
        except InvalidInput as problem:
            if problem.path == own_state.FIELD:
                raise
        except StrongroomError:
            pass

    async def _finish(self, made: Made) -> None:
        """Let the handles that took part know. The turn is made, whatever becomes of this."""
        self._made = made
        told = {write.key.id for write in made.writes or () if write.key.kind == EPISODES}
        for id, (run, *others) in self._runs.items():
            left = None if made.writes is None else self._left.get(id)
            for handle in (run, *others):
                if left is not None:
                    handle._see(left.working_set, None)
                    handle._eviction = left.eviction
                elif id in self._updates:
                    with suppress(StrongroomError):
                        await handle.refresh()
            if run._ref.streams in told:
                await run._sealed()
            await _keep_up(run, made)
        waiting = [place for place, session in self._sessions.items() if session._has_work]
        if waiting and self._parts:
            results = await self.results()
            for place in waiting:
                await self._sessions[place]._appended(results[place])

    async def _look_again(self) -> None:
        """Let the handles see what others have changed."""
        for id in self._updates:
            for run in self._runs[id]:
                await run.refresh()

    # ---- small parts ------------------------------------------------------------------------------------------------

    def _add(self, call: ServiceCall, *ahead: AnyQuestion) -> None:
        self._require_open()
        if len(self._parts) == MAX_PARTS:
            raise BudgetExceeded(
                f"a turn has at most {MAX_PARTS} parts; nothing changed", limit=MAX_PARTS, needed=MAX_PARTS + 1
            )
        part = take(self._scope, call, *ahead)
        size = self._bytes + size_of(part.operation.content, part.operation.besides)
        require_size(size)
        self._parts.append(part)
        self._bytes = size

    def _revision(self, session: AsyncSession, expected: str | None) -> str | None:
        """Return what an append has to expect: what the first one to the same session expects holds for all."""
        if expected is None or session._stream not in self._revisions:
            return expected
        first = self._revisions[session._stream]
        if first is None:
            raise InvalidInput(
                "what is expected of a session is said by the first append to it in a turn; nothing changed",
                path="expected_revision",
            )
        return None if first == expected else expected

    def _takes_part(self, run: AsyncRun) -> None:
        known = self._runs.setdefault(run.id, [])
        if not any(run is one for one in known):
            known.append(run)

    def _require_open(self) -> None:
        if self._over:
            raise Closed("this turn is over; begin another one; nothing changed")

    def _require_here(self, scope: Scope) -> None:
        if scope.store is not self._scope.store or scope.space != self._scope.space:
            raise InvalidInput("everything in a turn must be of the turn's own context; nothing changed")


async def turn_with(
    services: Services,
    decide: Callable[[AsyncTurn], R | Awaitable[R]],
    commit_id: str | None,
) -> R | None:
    """Let `decide` read and fill a turn, and make it; again if somebody was faster. A repeat does not ask it."""
    scope = services.scope
    turn, value, moved = AsyncTurn(services), None, None

    async def asked() -> AsyncTurn:
        nonlocal turn, value
        await turn._look_again()
        turn = AsyncTurn(services)
        answer = decide(turn)
        value = await answer if inspect.isawaitable(answer) else answer
        return turn

    def lost(conflict: Conflict) -> None:
        nonlocal moved
        moved = None  # decided anew, from what is there then

    async def attempt() -> Plan[Made] | None:
        nonlocal moved
        now = await asked()
        try:
            return await now._plan(None, lost)
        except Conflict as conflict:
            if moved is not None and _same(moved, conflict):
                raise  # decided twice about the same: nobody was faster
            moved = conflict
            return None

    async def elsewhere() -> Json:
        now = await asked()
        await now._check_states()
        content, besides = content_of(now._parts)
        return pack({**content.load(), "besides": besides.load()["parts"]})

    operation = Operation("turn_with", target_of(scope), NOTHING, commit_id)
    made = await perform(scope, operation, attempt, _before, elsewhere)
    turn._over = True
    await turn._finish(made)
    return value


def _same(one: Conflict, other: Conflict) -> bool:
    return (one.key, one.expected, one.actual) == (other.key, other.expected, other.actual)


def size_of(content: Json, besides: Json | None) -> int:
    """Return how much of a turn's bytes a part takes."""
    return len(content) + len(besides or b"")


def require_size(size: int) -> None:
    """Refuse a turn that is too large, before anything is made of it."""
    if size > MAX_BYTES:
        raise BudgetExceeded(
            f"a turn holds at most {MAX_BYTES} bytes, and this one has {size}; nothing changed",
            limit=MAX_BYTES,
            needed=size,
        )


def target_of(scope: Scope) -> Key:
    """Return what the id of a turn is about: the whole space."""
    return scope.key(KIND, KIND)


async def _keep_up(run: AsyncRun, made: Made) -> None:
    """Bring what is kept about a run's ledger up to date with what the turn has added to it."""
    added = [
        (length - len(write.entries), length)
        for write, length in zip(made.writes or (), made.receipt.versions, strict=False)
        if isinstance(write, Append) and write.key == run._ref.ledger
    ]
    if added:
        await run._keep_up(added[0][0], added[-1][1])


async def _before(receipt: Receipt) -> Made:
    return Made(receipt)


def _kept(given: Any) -> Any:
    """Return a copy of what a call was given, which nobody else can change: it is made later, perhaps several times."""
    try:
        return deepcopy(dict(given) if isinstance(given, MappingProxyType) else given)
    except Exception as problem:
        told = "it is nested too deep" if isinstance(problem, RecursionError) else str(problem)[:200]
        raise InvalidInput(
            f"a turn cannot keep a {type(given).__name__} until it ends: {told}; nothing changed"
        ) from None


def _run(run: AsyncRun, scope: Scope) -> AsyncRun:
    """Return a handle on the same run over another store. What it knows of the run it looks up."""
    there = copy(run)
    there._ref = Ref(scope, run._ref.run_id, run._ref.streams)
    there._known, there._eviction, there._seal, there._in_turn = None, None, Seal(), True
    return there


def _session(session: AsyncSession, scope: Scope) -> AsyncSession:
    """Return a handle on the same session over another store. It only appends: what is left to do is done later."""
    there = copy(session)
    there._scope, there._meaning, there._settled = scope, None, session._state.recount
    return there
