"""One turn, one commit: whatever an agent does in a step becomes visible and durable together, or not at all.

Theory of operation
-------------------
A turn collects calls. Each is prepared by its ordinary service: what can be refused without looking is refused at once,
and what it was given is encoded or copied, for its caller may change it afterwards. At the end of the block every call
is planned over an `Overlay`, which joins what they want to write, and that is one commit under the turn's own id. If
somebody was faster, nothing was written, and the calls are planned anew about what is there now. A call that expects
what is no longer so is refused as ever (`Conflict`), and the turn with it.

Over HTTP what was collected is sent, and the server does the same with it. What a call answers is made from the receipt
of the turn, wherever and however often that was made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Literal, Protocol, Unpack, overload

from msgspec.structs import replace

from strongroom.arguments import checked, got_by
from strongroom.entering import EnteredAsync
from strongroom.errors import BudgetExceeded, Closed, Conflict, InvalidInput, StrongroomError
from strongroom.meant import Meant
from strongroom.operations import Operation, Plan, Prepared, made_here, refusing
from strongroom.payloads import ErrorTold, EventType, ModelAction, ModelUpdate, Said, StepRequest, ToolCall, ToolResult
from strongroom.scope import Scope
from strongroom.services.memories.keys import decided_by
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.policy import require_not_program
from strongroom.services.memories.values import MemoryRequest, Request
from strongroom.services.runs import own_state, updates
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.state import ACTOR, EPISODES, Ref
from strongroom.services.runs.updates import Outcome
from strongroom.services.runs.usage import keep_up
from strongroom.services.runs.verifying import Seal
from strongroom.services.runs.working_set import check_edits
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.values import Messages
from strongroom.services.sessions.writes import Ids
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Slot
from strongroom.services.turns.overlay import Overlay
from strongroom.services.turns.parts import (
    COLLECTED,
    IN_TURN,
    MAX_PARTS,
    Made,
    Part,
    PlanPart,
    content_of,
    made_once,
    part_of,
    plan,
    planned,
    require_size,
    retold,
    size_of,
    target_of,
)
from strongroom.store import AnyQuestion, Append, Key, Range, Receipt, require_name
from strongroom.values import ListFields, Removed, UpdateFields, WorkingSet


class Services(Protocol):
    """What a turn needs of a context."""

    scope: Scope
    memories: AsyncMemories
    threads: AsyncThreads


@got_by("`async with ctx.turn() as turn`", lambda given: hasattr(given, "scope"))
@checked
class AsyncTurn(EnteredAsync, Meant):
    """A unit of work over everything in a space. Made by `ctx.turn`; its calls are made when its block ends.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         run, chat = await ctx.runs.create(objective="Answer a ticket"), await ctx.sessions.open("support-7")
    ...         async with ctx.turn() as turn:
    ...             turn.append(chat, {"role": "user", "content": "Hello!"})
    ...             turn.update(run, status="BUSY")
    ...         return len(await chat.load()), run.working_set.status
    >>> asyncio.run(main())
    (1, 'BUSY')
    """

    _ENTER = "async with ctx.turn() as turn"

    def __init__(self, services: Any, commit_id: str | None = None) -> None:
        self._services: Services = services
        self._scope = self._services.scope
        self._overlay = Overlay(self._scope.store)
        self._over = replace(self._scope, store=self._overlay)
        self._commit_id = commit_id
        self._parts: list[Part] = []
        self._bytes = 0
        self._updates: dict[str, int] = {}
        self._typed = False  # whether the state of a run is patched that has a type
        self._runs: dict[str, list[AsyncRun]] = {}  # every handle that took part
        self._left: dict[str, Callable[[Receipt], Outcome]] = {}  # what the last attempt leaves the runs as
        self._remembers = False  # whether a run is planned from what its handle knows
        self._sessions: dict[int, AsyncSession] = {}
        self._revisions: dict[Key, str | None] = {}  # what the first append to a session expects of it
        self._made: Made | None = None
        self._begun = False
        self._ended = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._parts)} parts{', over' if self._ended else ''}>"

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
        with refusing:
            prepared = session._appending(messages, sidecars, ids, expected, IN_TURN, self._over)
        self._add(prepared, prepared.replay)
        self._sessions[len(self._parts) - 1] = session
        self._revisions.setdefault(session._stream, expected_revision)
        return COLLECTED

    def update(
        self,
        run: AsyncRun,
        /,
        *,
        expected_seq: int | None = None,
        append: ListFields | None = None,
        remove: Removed | None = None,
        state_patch: Mapping[str, Any] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        **fields: Unpack[UpdateFields],
    ) -> None:
        """Update a run. See `Run.update`; what is expected is said of the run as it was before the turn."""
        self._require_here(run._ref.scope)
        earlier, expected = self._updates.get(run.id, 0), expected_seq
        if expected is not None or not updates.commute(fields, append, remove, state_patch):
            expected = (run.seq if expected is None else expected) + earlier
        with refusing:
            operation, by, request, expected = run._asked(
                expected, append, remove, state_patch, actor, parent, IN_TURN, fields, recorded=False
            )
        check_edits(request.fields, request.append, request.remove)
        nothing = request.changes_nothing
        known = run._remembered(expected) if made_here(self._scope) else None
        by = by._replace(actor=by.actor or ACTOR)  # what is planned here of a server's turn is not what it writes
        prepared = updates.prepare(
            self._ref(run), operation, by, updates.unchanging(request), known, expected, None, []
        )

        async def plan(scope: Scope, id: str) -> None:
            made = await planned(self._overlay, prepared, id)
            if nothing:
                return
            span = self._overlay.spans[id]
            self._left[run.id] = lambda receipt: made.result(part_of(receipt, span.start, span.stop))
            if run.config.milestone_step_cap is not None:
                await self._there(run)._milestone_if_due()

        async def told(receipt: Receipt) -> WorkingSet:
            return (await prepared.replay(receipt)).working_set

        self._add(prepared, told, plan)
        self._remembers |= known is not None
        self._updates[run.id] = earlier + (not nothing)
        self._takes_part(run)
        self._typed |= bool(state_patch) and run._state_type is not None
        return COLLECTED

    @overload
    def record(
        self, run: AsyncRun, type: Literal["STEP_REQUEST"], payload: StepRequest, **said: Unpack[Said]
    ) -> None: ...
    @overload
    def record(
        self, run: AsyncRun, type: Literal["MODEL_ACTION"], payload: ModelAction, **said: Unpack[Said]
    ) -> None: ...
    @overload
    def record(self, run: AsyncRun, type: Literal["TOOL_CALL"], payload: ToolCall, **said: Unpack[Said]) -> None: ...
    @overload
    def record(
        self, run: AsyncRun, type: Literal["TOOL_RESULT"], payload: ToolResult, **said: Unpack[Said]
    ) -> None: ...
    @overload
    def record(
        self, run: AsyncRun, type: Literal["MODEL_UPDATE"], payload: ModelUpdate, **said: Unpack[Said]
    ) -> None: ...
    @overload
    def record(self, run: AsyncRun, type: Literal["ERROR"], payload: ErrorTold, **said: Unpack[Said]) -> None: ...
    @overload
    def record(self, run: AsyncRun, type: EventType, payload: Mapping[str, Any], **said: Unpack[Said]) -> None: ...
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
        with refusing:
            prepared = run._recording(type, payload, actor, parent, IN_TURN, self._ref(run))

        async def plan(scope: Scope, id: str) -> None:
            await planned(self._overlay, prepared, id)
            if type == "ERROR" and run.config.milestone_error_cap is not None:
                await self._there(run)._milestone_if_due()

        self._add(prepared, prepared.replay, plan)
        self._takes_part(run)
        return COLLECTED

    def send(self, thread_id: str, payload: Any, *, from_id: str, to_id: str = "") -> None:
        """Add a message to a thread. See `ctx.threads.append`."""
        threads = self._services.threads
        there = AsyncThreads(self._over, limits=threads.limits, types=threads.types)
        with refusing:
            entry = there.entry(payload, from_id=from_id, to_id=to_id)
            prepared = there._appending("threads.append", thread_id, (entry,), IN_TURN)

        async def told(receipt: Receipt) -> Slot:
            [slot] = await prepared.replay(receipt)
            return slot

        # Whether the thread is there decides what is written: better known now than by a commit that is refused.
        self._add(prepared, told, None, Range(prepared.operation.target, 0, 0))
        return COLLECTED

    def propose(
        self,
        requests: MemoryRequest | Request | Sequence[MemoryRequest | Request],
        *,
        proposer: str,
        run_id: str | None = None,
        batch_id: str | None = None,
    ) -> None:
        """Stage memories for review. See `ctx.memories.propose`."""
        there = AsyncMemories(self._over, policy=self._services.memories._policy)
        with refusing:
            who = require_not_program(proposer)
            prepared = there._proposing(requests, who, run_id, batch_id, commit_id=IN_TURN)
        self._add(prepared, prepared.replay, None, decided_by(self._scope.space, proposer))
        return COLLECTED

    # ---- its end ----------------------------------------------------------------------------------------------------

    async def results(self) -> list[Any]:
        """Return what each call answers, in their order, as it would have answered alone."""
        if self._made is None:
            raise InvalidInput("a turn has results once its block has ended")
        return await retold(self._parts, self._made.receipt) if self._parts else []

    async def __aenter__(self) -> AsyncTurn:
        self._begin()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._require_open()
        self._ended = True
        if kind is None:
            await self._commit()

    def _begin(self) -> None:
        self._require_open()
        if self._begun:
            raise InvalidInput("the block of this turn has begun already; begin another turn; nothing was written")
        self._begun = True

    async def _commit(self) -> None:
        if self._commit_id is not None:
            require_name(self._commit_id, "a commit id")
        if not self._parts:  # nothing to make, and its id stands for nothing
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
        await self._finish(await made_once(self._scope, operation, attempt))

    async def _plan(self, moved: Conflict | None, lost: Callable[[Conflict], None]) -> Plan[Made]:
        self._left.clear()
        try:
            return await plan(self._over, self._parts, moved, lost)
        except StrongroomError:
            if not self._remembers:
                raise
        # Nobody is refused for what a handle remembers: now the runs are read.
        self._remembers = False
        return await self._plan(moved, lost)

    async def _check_states(self) -> None:
        """Refuse what does not fit the type of a run's own state, which a server does not know: plan the turn here too.

        Whatever else is wrong with it is for the server to say.
        """
        if not self._typed or made_here(self._scope):
            return
        try:
            updating = [part for part in self._parts if part.operation.name == "run.update"]
            await plan(self._over, updating, None, lambda conflict: None)
        except InvalidInput as problem:
            if problem.path == own_state.FIELD:
                raise
        except StrongroomError:
            pass

    async def _finish(self, made: Made) -> None:
        """Let the handles that took part know. The turn is made, whatever becomes of this."""
        self._made = made
        if made.writes is None:  # by an earlier call
            self._left.clear()
        self._overlay.begin()  # what was planned is in the store below by now
        told = {write.key.id for write in made.writes or () if write.key.kind == EPISODES}
        for id, (run, *others) in self._runs.items():
            left = self._left[id](made.receipt) if id in self._left else None
            for handle in (run, *others):
                if left is not None and left.stored is not None:
                    handle._see(left.working_set, replace(left.stored, ref=handle._ref))
                    handle._eviction = left.eviction
                elif id in self._updates:
                    with suppress(StrongroomError):
                        await handle.refresh()
            if run._ref.streams in told:
                # As after an update: the next milestone is anchored, and its past with it.
                with suppress(StrongroomError):
                    await run._sealed()
            with suppress(StrongroomError):
                await _keep_up(run, made)
        waiting = [place for place, session in self._sessions.items() if session._has_work]
        if waiting and self._parts:
            with suppress(StrongroomError):
                results = await self.results()
                for place in waiting:
                    await self._sessions[place]._appended(results[place])

    async def _look_again(self) -> None:
        """Let the handles see what others have changed."""
        for id in self._updates:
            for run in self._runs[id]:
                await run.refresh()

    # ---- small parts ------------------------------------------------------------------------------------------------

    def _add(
        self,
        prepared: Prepared[Any],
        told: Callable[[Receipt], Awaitable[Any]],
        plan: PlanPart | None = None,
        *ahead: AnyQuestion,
    ) -> None:
        self._require_open()
        if not self._begun:
            raise InvalidInput(
                "a turn is written when its block ends, and this one has none: write `with ctx.turn() as turn` "
                "(`async with` where ctx is async); nothing was written"
            )
        if len(self._parts) == MAX_PARTS:
            raise BudgetExceeded(
                f"a turn has at most {MAX_PARTS} parts; nothing changed", limit=MAX_PARTS, needed=MAX_PARTS + 1
            )
        size = self._bytes + size_of(prepared.operation.content, prepared.operation.besides)
        require_size(size)

        def alone(scope: Scope, id: str) -> Awaitable[Any]:
            return planned(self._overlay, prepared, id)

        self._parts.append(Part(prepared.operation, plan or alone, told, ahead))
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

    def _ref(self, run: AsyncRun) -> Ref:
        """Return where a run is kept, as what is planned shows it. Its keys are the same."""
        ref = Ref(self._over, run._ref.run_id, run._ref.streams)
        vars(ref).update(vars(run._ref))
        return ref

    def _there(self, run: AsyncRun) -> AsyncRun:
        """Return a handle on the same run, as what is planned shows it. What it knows of the run it looks up."""
        there = copy(run)
        there._ref, there._seal = self._ref(run), Seal()
        return there

    def _require_open(self) -> None:
        if self._ended:
            raise Closed("this turn is over; begin another one; nothing changed")

    def _require_here(self, scope: Scope) -> None:
        if scope.store is not self._scope.store or scope.space != self._scope.space:
            raise InvalidInput("everything in a turn must be of the turn's own context; nothing changed")


async def _keep_up(run: AsyncRun, made: Made) -> None:
    """Bring what is kept about a run's ledger up to date with what the turn has added to it."""
    added = [
        (length - len(write.entries), length)
        for write, length in zip(made.writes or (), made.receipt.versions, strict=False)
        if isinstance(write, Append) and write.key == run._ref.ledger
    ]
    if added:
        await keep_up(run._ref, added[0][0], added[-1][1])
