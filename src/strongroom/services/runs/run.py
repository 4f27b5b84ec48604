"""AsyncRun: one run, as its user holds it. Each method reads, lets a pure function decide, and makes one commit.

`working_set` and `seq` are what this handle saw last. A stale handle does no harm: its update is refused.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from strongroom.arguments import checked
from strongroom.bridge import can_search
from strongroom.errors import InvalidInput
from strongroom.files import name_of, reading, writing
from strongroom.services.runs import (
    artifacts,
    brief,
    episodes,
    exports,
    forks,
    history,
    ledger,
    milestones,
    updates,
    updating,
    verifying,
)
from strongroom.services.runs.ledger import EventTypes, event, recorded
from strongroom.services.runs.long_term import LongTerm
from strongroom.services.runs.repeats import receipt_of, require_own, used_otherwise
from strongroom.services.runs.state import Ref, RunState, Stored, load, read, record
from strongroom.services.runs.working_set import view
from strongroom.store import EXISTS, Append, Commit, Expect, Get, Range, Receipt, Tail, Write, new_id
from strongroom.values import (
    ArtifactRef,
    Brief,
    Diff,
    Episode,
    Event,
    Eviction,
    Head,
    Listing,
    Pack,
    RunConfig,
    Step,
    Verification,
    WorkingSet,
)

Fields = Mapping[str, Any]
T = TypeVar("T")


@checked
class AsyncRun:
    """A run: its working set, ledger, episodes and artifacts. Made by `ctx.runs`."""

    def __init__(
        self, ref: Ref, state: RunState, *, actor: str, types: EventTypes, memories: LongTerm | None = None
    ) -> None:
        self._ref = ref
        self._config = state.config
        self._actor = actor
        self._types = types
        self._memories = memories
        self._known: Stored | None = None
        self._eviction: Eviction | None = None
        self._working_set = view(state.working_set)
        self._ids = {name: state.working_set[name] for name in ("run_id", "task_id", "thread_id")}

    @property
    def id(self) -> str:
        return self._ref.run_id

    @property
    def working_set(self) -> WorkingSet:
        """The state this handle saw last; `refresh` looks again."""
        return self._working_set

    @property
    def seq(self) -> int:
        return self._working_set.seq

    @property
    def config(self) -> RunConfig:
        return self._config

    @property
    def eviction(self) -> Eviction | None:
        """What the last update through this handle had to leave out (None: nothing)."""
        return self._eviction

    async def refresh(self) -> WorkingSet:
        """Read the working set as it is now."""
        return self._see(await read(self._ref))

    # ---- updates ----------------------------------------------------------------------------------------------------

    async def update(
        self,
        /,
        *,
        expected_seq: int | None = None,
        append: Mapping[str, Sequence[Any]] | None = None,
        remove: Mapping[str, Sequence[Any]] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
        **fields: Any,
    ) -> WorkingSet:
        """Replace fields, if nobody else has updated the run since `expected_seq` (default: what this handle saw).

        `append` and `remove` edit list fields instead: `append={"blockers": ["429s"]}`. Alone, and without an
        expected_seq, they commute: whoever else is writing, they are applied to what is there. A refusal is recorded
        in the ledger and raised. A repeat with the same `commit_id` changes nothing and returns the first result.
        """
        asked = updates.Request(fields, append or {}, remove or {}, actor or self._actor, parent)
        commutes = not fields and expected_seq is None and (append or remove)
        expected = None if commutes else self.seq if expected_seq is None else expected_seq
        if (done := await receipt_of(self._ref, commit_id)) is not None:
            return await self._result_of(done)
        return await self._update(lambda stored: _ready(asked), expected=expected, commit_id=commit_id)

    async def update_with(
        self,
        decide: Callable[[WorkingSet], Fields | Awaitable[Fields | None] | None],
        *,
        actor: str | None = None,
        parent: str | None = None,
    ) -> WorkingSet:
        """Read, let `decide` return the fields to replace (None: nothing), commit; again if somebody was faster."""

        async def ask(stored: Stored) -> updates.Request | None:
            answer = decide(view(stored.working_set))
            fields = await answer if inspect.isawaitable(answer) else answer
            if fields is not None and not isinstance(fields, Mapping):
                raise InvalidInput(f"a decision must be a mapping of fields, not {type(fields).__name__}")
            return None if fields is None else updates.Request(fields, {}, {}, actor or self._actor, parent)

        return await self._update(ask)

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

        async def ask(stored: Stored) -> updates.Request | None:
            old = await history.at(stored, seq)
            who = actor or self._actor
            payload = {"to_seq": seq, "new_seq": stored.seq + 1}
            told = record(self._ref, "ROLLED_BACK", payload, actor=who, parent=parent)
            return updates.Request(updates.back_to(old), {}, {}, who, parent, (told,))

        if (done := await receipt_of(self._ref, commit_id)) is not None:
            return await self._result_of(done)
        expected = self.seq if expected_seq is None else expected_seq
        return await self._update(ask, expected=expected, commit_id=commit_id)

    async def _update(
        self, ask: updating.Ask, *, expected: int | None = None, commit_id: str | None = None
    ) -> WorkingSet:
        known = self._known if self._known is not None and self._known.seq == expected else None
        done = await updating.update(
            self._ref, ask, actor=self._actor, known=known, expected=expected, commit_id=commit_id
        )
        if not done.made:
            return self._see(done.stored)
        # A repeat is answered with the first receipt, which need not speak of what this one planned.
        self._known = done.stored if commit_id is None else None
        self._eviction = done.eviction
        self._working_set = view(done.stored.working_set)
        if self._config.milestone_step_cap is not None:
            await milestones.make_if_due(self._ref, actor=self._actor)
        return self._working_set

    # ---- the ledger -------------------------------------------------------------------------------------------------

    async def record(
        self,
        type: str,
        payload: Mapping[str, Any],
        *,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> Event:
        """Add an event to the ledger. Its type and payload are checked. It never conflicts, whoever else records."""
        told = self._types.check(type, dict(payload) if isinstance(payload, Mapping) else payload)
        entry = record(self._ref, type, told, actor=actor or self._actor, parent=parent)
        append = Append(self._ref.ledger, (entry,))
        receipt = await self._commit((Expect(self._ref.key, EXISTS),), (append,), commit_id)
        require_own(receipt, 1)
        if self._known is not None:
            self._known = msgspec.structs.replace(self._known, length=receipt.versions[0])
        if type == "ERROR" and self._config.milestone_error_cap is not None:
            await milestones.make_if_due(self._ref, actor=self._actor)
        if commit_id is not None:
            return await self._event(receipt.versions[0])  # perhaps a repeat: say what the first one said
        return event(recorded(entry, receipt.versions[0] - 1), self._ids)

    async def events(self, *, after: int = 0, limit: int = 100, types: Sequence[str] | None = None) -> Listing[Event]:
        """Return events in order, from the first one after sequence id `after`; `next` continues from there."""
        return await history.events(self._ref, after, limit, types)

    async def follow(self, *, after: int = 0, idle_seconds: float | None = None) -> AsyncIterator[Event]:
        """Yield the events after sequence id `after`, then each new one as it is recorded, by whatever process.

        Ends only if `idle_seconds` pass without a new event.
        """
        async for told in history.follow(self._ref, self._ids, after, idle_seconds):
            yield told

    async def head(self) -> Head:
        """Return the ledger's length and hash, to keep elsewhere and give to `verify` later."""
        [tail] = await self._ref.scope.store.read([Tail(self._ref.ledger, 1)])
        return Head(tail.length, (tail.records[0].chain if tail.records else ledger.GENESIS).hex())

    async def verify(self, *, head: Head | None = None) -> Verification:
        """Check every event against the hash chain, and the working set against the events.

        A chain alone can not show that its end was cut off: give a `head` that was kept elsewhere.
        """
        return await verifying.verify(self._ref, head)

    # ---- time travel ------------------------------------------------------------------------------------------------

    async def at(self, seq: int) -> WorkingSet:
        """Return the working set as it was after update `seq`."""
        return view(await history.at(await read(self._ref), seq))

    async def diff(self, from_seq: int, to_seq: int) -> Diff:
        """Return what differs between two versions, field by field."""
        stored = await read(self._ref)
        return history.diff(await history.at(stored, from_seq), await history.at(stored, to_seq))

    async def replay(self) -> AsyncIterator[Step]:
        """Yield every event up to now, in order, with the working set after it."""
        async for step in history.replay(await read(self._ref)):
            yield step

    async def fork(
        self,
        seq: int | None = None,
        *,
        run_id: str | None = None,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> AsyncRun:
        """Start a new run from what this one was after update `seq` (default: now). This one stays as it is."""
        ref, state = await forks.fork(self._ref, seq, run_id=run_id, actor=actor or self._actor, commit_id=commit_id)
        return AsyncRun(ref, state, actor=actor or self._actor, types=self._types, memories=self._memories)

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
    ) -> ArtifactRef:
        """Store a file's or bytes' content with the run and point to it from the working set, in one commit.

        `preview_tokens` leaves the beginning of it in the sliding context, for a tool result too large to keep there.
        """
        with reading(source) as chunks:
            content = await artifacts.upload(self._ref.scope, self.id, chunks)
        who = actor or self._actor
        name = name_of(source) if path is None else path
        pointer = ArtifactRef(type=type, id=f"art_{os.urandom(8).hex()}", path=name, sha256=content.sha256)
        append: dict[str, list[Any]] = {"artifact_refs": [pointer]}
        if preview_tokens:
            shown = artifacts.preview(self._ref.scope, content, pointer, preview_tokens, priority)
            append["sliding_context"] = [shown]

        async def ask(stored: Stored) -> updates.Request | None:
            expects, writes = await artifacts.store_writes(self._ref.scope, self.id, pointer, content)
            return updates.Request({}, append, {}, who, parent, (), expects, writes)

        try:
            await self._update(ask)
        except BaseException:
            await content.staging.abandon()
            raise
        return pointer

    async def artifact(self, artifact_id: str) -> AsyncIterator[bytes]:
        """Yield an artifact's content in chunks; raise `Damaged` if it is not what was stored."""
        async for chunk in artifacts.read(self._ref, artifact_id):
            yield chunk

    async def export(
        self, path: str | os.PathLike[str], *, signing_key: bytes | None = None, actor: str | None = None
    ) -> Pack:
        """Write everything of this run to a resume pack, and record that in the ledger.

        The file is complete and on disk, or not there. `signing_key` is an Ed25519 private key (32 bytes).
        """
        with writing(path) as file:
            made = await exports.export(self._ref, file, memories=self._memories, signing_key=signing_key)
        told = {"pack_id": made.pack_id, **exports.told(made)}
        entry = record(self._ref, "SNAPSHOT", told, actor=actor or self._actor)
        await self._commit((Expect(self._ref.key, EXISTS),), (Append(self._ref.ledger, (entry,)),))
        return made

    # ---- milestones and briefs --------------------------------------------------------------------------------------

    async def milestone(
        self,
        reason: str = "",
        *,
        memory_batch_id: str | None = None,
        next_entry_point: str = "",
        reviewer: str | None = None,
        summarizer: Callable[[Sequence[Event]], str | Awaitable[str]] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> Episode:
        """Freeze what happened since the last milestone; commit a batch of memories with it. All in one commit."""
        return await milestones.make(
            self._ref,
            self._memories,
            reason=reason,
            memory_batch_id=memory_batch_id,
            next_entry_point=next_entry_point,
            reviewer=reviewer or actor or self._actor,
            summarizer=summarizer,
            actor=actor or self._actor,
            parent=parent,
            commit_id=commit_id,
        )

    async def episodes(self, *, after: int = 0, limit: int = 50) -> Listing[Episode]:
        """Return milestones, oldest first, from place `after`."""
        [page] = await self._ref.scope.store.read([Range(self._ref.episodes, after, None, limit)])
        found = [made for kept in page.records if (made := episodes.read(kept)) is not None]
        end = page.records[-1].index + 1 if page.records else page.length
        return Listing(found, str(end) if end < page.length else None)

    async def brief(
        self,
        max_tokens: int = 2000,
        *,
        memories: Sequence[Any] | None = None,
        min_confidence: float = 0.8,
        user_id: str | None = None,
        project_id: str | None = None,
    ) -> Brief:
        """Return the text to put before a model, at most `max_tokens`, and a receipt of what was left out.

        `memories` are memories, hits of a search, or v2.1 items; by default those that answer to the objective and
        the next action, among those that `user_id` and `project_id` may see, on a store that can search.
        """
        working_set = (await read(self._ref)).working_set
        if memories is None:
            query = f"{working_set['objective']} {working_set['next_action']}"
            memories = ()
            if self._memories is not None and can_search(self._ref.scope.store):
                memories = await self._memories.search(query, user_id=user_id, project_id=project_id)
        return brief.compose(
            working_set,
            [brief.memory_of(item) for item in memories],
            max_tokens=max_tokens,
            min_confidence=min_confidence,
            tokenizer=self._ref.scope.tokenizer,
        )

    # ---- what the methods share -------------------------------------------------------------------------------------

    def _see(self, stored: Stored) -> WorkingSet:
        if stored.seq >= self.seq:
            self._known = stored
            self._working_set = view(stored.working_set)
        return self._working_set

    async def _commit(
        self, expects: tuple[Expect, ...], writes: tuple[Write, ...], commit_id: str | None = None
    ) -> Receipt:
        return await self._ref.scope.store.commit(Commit(new_id() if commit_id is None else commit_id, expects, writes))

    async def _result_of(self, receipt: Receipt) -> WorkingSet:
        """Return what an update of the past returned. Its event is the last that its commit appended."""
        found = await self.events(after=receipt.versions[1] - 1, limit=1) if len(receipt.versions) > 1 else ()
        told = next(iter(found), None)
        if told is None or not (told.erased or "new_seq" in told.payload):
            raise used_otherwise(receipt.id)
        return await self.refresh() if told.erased else await self.at(told.payload["new_seq"])

    async def _event(self, sequence_id: int) -> Event:
        document, page = await self._ref.scope.store.read(
            [Get(self._ref.key), Range(self._ref.ledger, sequence_id - 1, sequence_id)]
        )
        return event(page.records[0], load(document, self.id).working_set)


async def _ready(value: T) -> T:
    return value
