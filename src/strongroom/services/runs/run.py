"""AsyncRun: one run, as its user holds it. Each method reads, lets a pure function decide, and makes one commit."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Unpack, overload

import msgspec

from strongroom.arguments import checked, got_by
from strongroom.codec import encode
from strongroom.encryption import Secret
from strongroom.errors import InvalidInput, StrongroomError
from strongroom.meant import Unsettable
from strongroom.operations import NOTHING, Operation, Prepared, made_here, perform
from strongroom.payloads import (
    ErrorTold,
    EventType,
    ModelAction,
    ModelUpdate,
    Recorded,
    StepRequest,
    ToolCall,
    ToolResult,
)
from strongroom.services.memories.values import Batch, Written, id_of
from strongroom.services.runs import (
    artifacts,
    episodes,
    events,
    own_state,
    packs,
    starts,
    updates,
    usage,
    verifying,
)
from strongroom.services.runs.reader import RunReader
from strongroom.services.runs.state import Ref, Stored
from strongroom.services.runs.updates import By, Outcome, Request
from strongroom.values import (
    Anchor,
    ArtifactRef,
    Episode,
    Event,
    ListFields,
    Pack,
    Removed,
    UpdateFields,
    WorkingSet,
)

Fields = UpdateFields | Mapping[str, Any]


@got_by("`await ctx.runs.create(objective=...)`, or `await ctx.runs.get(run_id)`", lambda given: isinstance(given, Ref))
@checked
class AsyncRun(RunReader, Unsettable):
    """A run: its working set, ledger, episodes and artifacts. Made by `ctx.runs`.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         run = await ctx.runs.create(objective="Answer a ticket")
    ...         await run.update(status="BUSY", next_action="call the carrier")
    ...         return run.working_set.next_action
    >>> asyncio.run(main())
    'call the carrier'
    """

    _GOT_BY = " (`await ctx.runs.get(...)`)"  # what is told to whoever gives something else, an id say

    # ---- updates ----------------------------------------------------------------------------------------------------

    async def update(
        self,
        /,
        *,
        expected_seq: int | None = None,
        append: ListFields | None = None,
        remove: Removed | None = None,
        state_patch: Mapping[str, Any] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
        **fields: Unpack[UpdateFields],
    ) -> WorkingSet:
        """Replace fields, if nobody else has updated the run since `expected_seq` (default: what this handle saw).

        `state_patch` merges into the run's own state (null takes a member away; what then does not fit its type is
        refused). `append` and `remove` edit list fields: `append={"blockers": ["429s"]}`. Alone, and without an
        expected_seq, those two commute: whoever else is writing, they are applied to what is there. With nothing to
        change it writes nothing, and `seq` stays. What the run refuses is recorded in its ledger. A repeat with the
        same `commit_id` changes nothing and returns the first result; what it expects is not part of what it asks for.
        """
        operation, by, request, expected = self._asked(
            expected_seq, append, remove, state_patch, actor, parent, commit_id, fields
        )
        await updates.check_state(self._ref, request)
        return (await self._update(operation, by, updates.unchanging(request), expected)).working_set

    def _asked(
        self,
        expected_seq: int | None,
        append: Mapping[str, Any] | None,
        remove: Mapping[str, Any] | None,
        state_patch: Mapping[str, Any] | None,
        actor: str | None,
        parent: str | None,
        commit_id: str | None,
        fields: Fields,
        *,
        recorded: bool = True,
    ) -> tuple[Operation, By, Request, int | None]:
        """Say what an update asks for, by whom, and which version it expects. See `updates.content_of`."""
        request = Request(self._plain(fields), append or {}, remove or {}, state_patch, self._state_type)
        commutes = updates.commute(fields, append, remove, state_patch)
        expected = expected_seq if expected_seq is not None or commutes else self.seq
        by = By(actor or self._actor, parent)
        content = updates.content_of(request, by, recorded=recorded and made_here(self._ref.scope))
        if content is not NOTHING:
            request = updates.request_in(content, self._state_type)
        operation = Operation("run.update", self._ref.key, content, commit_id, encode({"expected_seq": expected}))
        return operation, by, request, expected

    async def _count(self, *, expected_seq: int, actor: str, commit_id: str | None) -> WorkingSet:
        """Make an update that changes nothing and counts all the same. What the run is then is no part of what its id
        stands for: a repeat asks for the same, whatever happened since."""
        operation, by, _, expected = self._asked(expected_seq, None, None, None, actor, None, commit_id, {})
        as_it_is = updates.by_callback(lambda working_set: {"status": working_set.status}, self._plain)
        return (await self._update(operation, by, as_it_is, expected)).working_set

    async def update_with(
        self,
        decide: Callable[[WorkingSet], UpdateFields | Awaitable[UpdateFields | None] | None],
        *,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> WorkingSet:
        """Read, let `decide` return the fields to replace ({} or None: nothing), commit; again if somebody was faster.

        What `decide` says is not part of what a `commit_id` stands for: a repeat does not ask it.
        """
        make_request = updates.by_callback(decide, self._plain)
        return await self._update_decided(
            By(actor or self._actor, parent), make_request, commit_id, updates.deciding(self._ref, make_request)
        )

    async def _update_decided(
        self, by: By, make_request: updates.MakeRequest, commit_id: str | None, decide: updates.Decide | None = None
    ) -> WorkingSet:
        operation = Operation("run.update_with", self._ref.key, encode(by._asdict()), commit_id)
        return (await self._update(operation, by, make_request, decide=decide)).working_set

    async def rollback(
        self,
        seq: int,
        *,
        expected_seq: int | None = None,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> WorkingSet:
        """Make the run what it was after update `seq`, as a new update. Nothing in the past changes."""
        by = By(actor or self._actor, parent)
        expected = self.seq if expected_seq is None else expected_seq
        content, besides = encode({"seq": seq, **by._asdict()}), encode({"expected_seq": expected})
        operation = Operation("run.rollback", self._ref.key, content, commit_id, besides)
        return (await self._update(operation, by, updates.back_to(self._ref, seq, by), expected)).working_set

    async def _update(
        self,
        operation: Operation,
        by: By,
        make_request: updates.MakeRequest,
        expected: int | None = None,
        decide: updates.Decide | None = None,
    ) -> Outcome:
        done = await updates.update(
            self._ref, operation, by, make_request, known=self._remembered(expected), expected=expected, decide=decide
        )
        self._see(done.working_set, done.stored)
        if done.made:
            self._eviction = done.eviction
            if done.stored is not None:
                await usage.keep_up(self._ref, done.stored.length - done.events, done.stored.length)
            if self._config.milestone_step_cap is not None:
                await self._milestone_if_due()
        return done

    def _remembered(self, seq: int | None) -> Stored | None:
        """Return the run at this version, if this handle knows it."""
        return self._known if self._known is not None and self._known.seq == seq else None

    async def _milestone_if_due(self) -> None:
        if not made_here(self._ref.scope):
            return  # whoever made the update has looked
        # What was asked for is done, whatever becomes of this: a milestone that is due stays due.
        with suppress(StrongroomError):
            if await episodes.make_if_due(self._ref, actor=self._actor):
                await self._sealed()

    async def _sealed(self) -> None:
        if self._seal.path is not None:
            try:
                await verifying.anchor(self._ref, self._seal.path, self._seal.signing_key)
            except StrongroomError as problem:
                problem.args = (f"the milestone was made; its anchor was not: {problem}",)
                raise

    # ---- the ledger -------------------------------------------------------------------------------------------------

    @overload
    async def record(self, type: Literal["STEP_REQUEST"], payload: StepRequest, **said: Unpack[Recorded]) -> Event: ...
    @overload
    async def record(self, type: Literal["MODEL_ACTION"], payload: ModelAction, **said: Unpack[Recorded]) -> Event: ...
    @overload
    async def record(self, type: Literal["TOOL_CALL"], payload: ToolCall, **said: Unpack[Recorded]) -> Event: ...
    @overload
    async def record(self, type: Literal["TOOL_RESULT"], payload: ToolResult, **said: Unpack[Recorded]) -> Event: ...
    @overload
    async def record(self, type: Literal["MODEL_UPDATE"], payload: ModelUpdate, **said: Unpack[Recorded]) -> Event: ...
    @overload
    async def record(self, type: Literal["ERROR"], payload: ErrorTold, **said: Unpack[Recorded]) -> Event: ...
    @overload
    async def record(self, type: EventType, payload: Mapping[str, Any], **said: Unpack[Recorded]) -> Event: ...
    async def record(
        self,
        type: str,
        payload: Mapping[str, Any],
        *,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> Event:
        """Add an event to the ledger. Its type and payload are checked. It never conflicts, whoever else records.

        A type of your own is what `ctx.runs.register_event` returned.
        """
        made = await perform(self._ref.scope, *self._recording(type, payload, actor, parent, commit_id))
        if self._known is not None and self._known.length < made.sequence_id:
            self._known = msgspec.structs.replace(self._known, length=made.sequence_id)
        await usage.keep_up(self._ref, made.sequence_id - 1, made.sequence_id)
        if type == "ERROR" and self._config.milestone_error_cap is not None:
            await self._milestone_if_due()
        return made

    def _recording(
        self,
        type: str,
        payload: Mapping[str, Any],
        actor: str | None,
        parent: str | None,
        commit_id: str | None,
        ref: Ref | None = None,
    ) -> Prepared[Event]:
        """Check an event, and say how it is recorded. A turn shows its own `ref`."""
        told = self._types.check(type, dict(payload) if isinstance(payload, Mapping) else payload)
        return events.recording(
            ref or self._ref, self._ids, type, told, actor=actor or self._actor, parent=parent, commit_id=commit_id
        )

    async def anchor(self, path: str | os.PathLike[str] | None = None, *, signing_key: bytes | None = None) -> Anchor:
        """Seal the ledger's head: add it to the end of a file, sign it with an Ed25519 key (32 bytes), or both.

        Keep the file where whoever can write the store cannot, and give it to `verify`.
        """
        return await verifying.anchor(self._ref, path, signing_key)

    # ---- forks ------------------------------------------------------------------------------------------------------

    async def fork(
        self,
        seq: int | None = None,
        *,
        run_id: str | None = None,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> AsyncRun:
        """Start a new run from what this one was after update `seq` (default: now). This one stays as it is."""
        ref, state = await starts.fork(self._ref, seq, run_id=run_id, actor=actor or self._actor, commit_id=commit_id)
        return AsyncRun(
            ref,
            state,
            actor=actor or self._actor,
            types=self._types,
            memories=self._memories,
            seal=self._seal,
            state_type=self._state_type,
        )

    # ---- artifacts and packs ----------------------------------------------------------------------------------------

    async def attach(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        type: str,
        path: str | None = None,
        preview_tokens: int = 0,
        priority: int = 5,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> ArtifactRef:
        """Store a file's or bytes' content with the run and point to it from the working set, in one commit.

        `preview_tokens` leaves the beginning of it in the sliding context, for a tool result too large to keep there.
        """
        return await artifacts.attach(
            self._ref,
            source,
            type=type,
            path=path,
            preview_tokens=preview_tokens,
            priority=priority,
            by=By(actor or self._actor, parent),
            commit_id=commit_id,
            update=self._update,
        )

    async def export(
        self,
        path: str | os.PathLike[str],
        *,
        signing_key: bytes | None = None,
        key: Secret | None = None,
        pointers: Mapping[str, Any] | None = None,
        record: bool = True,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> Pack:
        """Write everything of this run to a resume pack, and record that in the ledger.

        The file is complete and on disk, or not there. `signing_key` is an Ed25519 private key (32 bytes); `key`
        encrypts the file: a passphrase, 32 bytes, or a function that fetches one of them. `pointers` is JSON of yours
        for the manifest. A repeat with the same `commit_id` leaves the file alone. With `record=False` the store is
        only read.
        """
        if not record:
            if commit_id is not None:
                raise InvalidInput("what is not recorded is no commit and takes no commit_id; nothing was exported")
            return await packs.unrecorded(
                self._ref, path, memories=self._memories, signing_key=signing_key, key=key, pointers=pointers
            )
        return await packs.to_file(
            self._ref,
            path,
            memories=self._memories,
            signing_key=signing_key,
            key=key,
            pointers=pointers,
            actor=actor or self._actor,
            commit_id=commit_id,
        )

    # ---- milestones -------------------------------------------------------------------------------------------------

    async def milestone(
        self,
        reason: str = "",
        *,
        memory_batch_id: Batch | Written | str | None = None,
        next_entry_point: str = "",
        reviewer: str | None = None,
        summarizer: Callable[[Sequence[Event]], str | Awaitable[str]] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> Episode:
        """Freeze what happened since the last milestone; commit a batch of memories with it. All in one commit.

        A batch needs a `reviewer`, as with `ctx.memories.commit`: nobody approves what they proposed themselves.
        """
        made = await episodes.make(
            self._ref,
            self._memories,
            reason=reason,
            memory_batch_id=None if memory_batch_id is None else id_of(memory_batch_id),
            next_entry_point=next_entry_point,
            reviewer=reviewer,
            summarizer=summarizer,
            actor=actor or self._actor,
            parent=parent,
            commit_id=commit_id,
        )
        await self._sealed()
        return made

    # ---- what the methods share -------------------------------------------------------------------------------------

    def _plain(self, fields: Fields) -> Fields:
        """Return fields with the run's own state as JSON that fits its type."""
        if "state" not in fields:
            return fields
        return {**fields, "state": own_state.plain(fields["state"], self._state_type)}
