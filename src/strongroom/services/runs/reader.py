"""What a run can be asked: its state now and earlier, its ledger, episodes and artifacts, and whether all of it holds.

`working_set` and `seq` are what this handle saw last. A stale handle does no harm: its update is refused.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from strongroom.arguments import Count, checked
from strongroom.bridge import can_search
from strongroom.errors import InvalidInput, Unavailable
from strongroom.payloads import EventName
from strongroom.queries import LONGEST_QUERY
from strongroom.services.owning import whose
from strongroom.services.runs import artifacts, brief, episodes, events, history, own_state, usage, verifying
from strongroom.services.runs.episodes import LongTerm
from strongroom.services.runs.ledger import EventTypes
from strongroom.services.runs.state import Ref, RunState, Stored, read
from strongroom.services.runs.verifying import Seal, kept
from strongroom.services.runs.working_set import view
from strongroom.values import (
    Anchor,
    Brief,
    Cursor,
    Diff,
    Episode,
    Event,
    Eviction,
    Head,
    Listing,
    RunConfig,
    Step,
    Usage,
    Verification,
    WorkingSet,
    moment,
    place_of,
)


@checked
class RunReader:
    """The reading half of a run."""

    def __init__(
        self,
        ref: Ref,
        state: RunState,
        *,
        actor: str,
        types: EventTypes,
        memories: LongTerm | None = None,
        seal: Seal | None = None,
        state_type: type[Any] | None = None,
    ) -> None:
        self._ref = ref
        self._config = state.config
        self._user_id = state.user_id
        self._created = state.created
        self._actor = actor
        self._types = types
        self._memories = memories
        self._seal = seal or Seal()
        self._state_type = state_type
        self._own: tuple[WorkingSet, Any] | None = None  # the state of a working set, as an instance of its type
        self._known: Stored | None = None
        self._eviction: Eviction | None = None
        self._working_set = view(state.working_set)
        self._ids = {name: state.working_set[name] for name in ("run_id", "task_id", "thread_id")}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} seq={self.seq} status={self.working_set.status}>"

    @property
    def id(self) -> str:
        return self._ref.run_id

    @property
    def working_set(self) -> WorkingSet:
        """The state this handle saw last; `refresh` looks again."""
        return self._working_set

    @property
    def state(self) -> Any:
        """The run's own state as this handle saw it last: JSON, or an instance of its type; None if there is none.

        None and `{}` are told apart: ask `"x" in (run.state or {})`, or start the run with `state={}`. It is the same
        object until this handle sees another version; editing it changes nothing before `update(state=run.state)`.
        """
        if self._own is None or self._own[0] is not self._working_set:
            self._own = self._working_set, own_state.typed(self._working_set.state, self._state_type)
        return self._own[1]

    @property
    def seq(self) -> int:
        return self._working_set.seq

    @property
    def config(self) -> RunConfig:
        return self._config

    @property
    def user_id(self) -> str | None:
        """Whose run it is, as this handle saw it last; None if nobody's."""
        return self._user_id

    @property
    def created_at(self) -> datetime:
        """When the run's first event was recorded."""
        return moment(self._created)

    @property
    def eviction(self) -> Eviction | None:
        """What the last update through this handle had to leave out (None: nothing)."""
        return self._eviction

    async def refresh(self) -> WorkingSet:
        """Read the working set as it is now."""
        stored = await read(self._ref)
        return self._see(view(stored.working_set), stored)

    async def events(
        self, *, after: Cursor = None, limit: Count = 100, types: EventName | Sequence[EventName] | None = None
    ) -> Listing[Event]:
        """Return events in order, from the first one after sequence id `after`, or after a page: its `next`.

        `types` is one type of events, or a list of them.
        """
        return await events.events(self._ref, place_of(after), limit, types)

    async def follow(self, *, after: Cursor = None, idle_seconds: float | None = None) -> AsyncIterator[Event]:
        """Yield the events after sequence id `after`, then each new one as it is recorded, by whatever process.

        Ends only if `idle_seconds` pass without a new event.
        """
        async for told in events.follow(self._ref, self._ids, place_of(after), idle_seconds):
            yield told

    async def usage(self) -> Usage:
        """Return what models and tools came to so far: tokens, time, cost and failures, in all and by model.

        It sums up what `MODEL_ACTION` and `TOOL_RESULT` events say, in one read however long the ledger is.
        """
        return await usage.usage(self._ref)

    async def episodes(self, *, after: Cursor = None, limit: Count = 50) -> Listing[Episode]:
        """Return milestones, oldest first, from place `after`, or after a page: its `next`."""
        return await episodes.page(self._ref, place_of(after), limit)

    async def artifact(self, artifact_id: str) -> AsyncIterator[bytes]:
        """Yield an artifact's content in chunks; raise `Damaged` if it is not what was stored."""
        async for chunk in artifacts.read(self._ref, artifact_id):
            yield chunk

    async def brief(
        self,
        max_tokens: int = 2000,
        *,
        memories: Sequence[Any] | None = None,
        min_confidence: float = 0.8,
        user_id: str | None = None,
        project_id: str | None = None,
        state: bool = False,
    ) -> Brief:
        """Return the text to put before a model, at most `max_tokens`, and a receipt of what was left out.

        `memories` are memories, hits of a search, or v2.1 items; by default those that answer to the objective and
        the next action, among those that `user_id` (by default the run's owner, and no other than that) and
        `project_id` may see, on a store that can search. Where a file that is opened read-only lacks the index, the
        receipt says so (`no_index`), and so it does of memories that cannot be read (`damaged`). With `state` the run's
        own state is shown too.
        """
        stored = await read(self._ref)
        working_set, user_id = stored.working_set, whose(user_id, run=(self.id, stored.state.user_id))
        if memories is None:
            query = f"{working_set['objective']} {working_set['next_action']}"[:LONGEST_QUERY]
            memories = ()
            if self._memories is not None and can_search(self._ref.scope.store):
                try:
                    memories = await self._memories.search(query, user_id=user_id, project_id=project_id)
                except Unavailable as problem:
                    if problem.reason != "read_only":
                        raise
                    memories = None  # the receipt says so
        return brief.compose(
            working_set,
            None if memories is None else [brief.memory_of(item) for item in memories],
            max_tokens=max_tokens,
            min_confidence=min_confidence,
            tokenizer=self._ref.scope.tokenizer,
            with_state=state,
            damaged=getattr(memories, "damaged", ()),
        )

    async def at(self, seq: int) -> WorkingSet:
        """Return the working set as it was after update `seq`."""
        return view(await history.at(await read(self._ref), seq))

    async def diff(self, from_seq: int, to_seq: int | None = None) -> Diff:
        """Return what differs between two versions (the later one is by default what is there now), field by field."""
        stored = await read(self._ref)
        after = stored.working_set if to_seq is None else await history.at(stored, to_seq)
        return history.diff(await history.at(stored, from_seq), after)

    async def replay(self) -> AsyncIterator[Step]:
        """Yield every event up to now, in order, with the working set after it."""
        async for step in history.replay(await read(self._ref)):
            yield step

    async def head(self) -> Head:
        """Return the ledger's length and hash, to keep elsewhere and give to `verify` later."""
        return await verifying.head(self._ref)

    async def verify(
        self,
        *,
        head: Head | None = None,
        anchors: str | os.PathLike[str] | Sequence[Anchor] | None = None,
        public_key: bytes | None = None,
    ) -> Verification:
        """Check every event against the hash chain, and all that the run is and has against the events.

        A chain alone cannot show that its end was cut off, or that all of it was written anew: give a `head` that was
        kept elsewhere, or `anchors`. With `public_key` only those count that are signed by that key.
        """
        if public_key is not None and anchors is None:
            raise InvalidInput("a public_key is for anchors; give those too")
        sealed = None if anchors is None else kept(self._ref, anchors, public_key)
        return await verifying.verify(self._ref, head, sealed)

    def _see(self, seen: WorkingSet, stored: Stored | None) -> WorkingSet:
        if seen.seq >= self.seq:
            self._working_set, self._known = seen, stored
            self._user_id = self._user_id if stored is None else stored.state.user_id
        return seen
