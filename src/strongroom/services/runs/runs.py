"""AsyncRuns: making runs, finding them, bringing them back, erasing what they hold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from strongroom.arguments import Count, checked
from strongroom.encryption import Secret
from strongroom.errors import Damaged
from strongroom.meant import Meant
from strongroom.payloads import EventType
from strongroom.scope import Scope
from strongroom.services.owning import owned
from strongroom.services.packs.archive import MAX_PACK_BYTES
from strongroom.services.packs.given import given
from strongroom.services.runs import erasure, own_state, restores, starts
from strongroom.services.runs.episodes import LongTerm
from strongroom.services.runs.ledger import EventTypes
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.state import KIND, Ref, RunState, find, find_to_update, load, refs, speaker
from strongroom.services.runs.state_types import require_type
from strongroom.services.runs.verifying import Seal
from strongroom.services.runs.working_set import require_id
from strongroom.store import Scan
from strongroom.values import Erasure, Head, Listing, RunConfig, Status


@checked
class AsyncRuns(Meant):
    """The runs of one space.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         await ctx.runs.create(objective="Answer a ticket", run_id="ticket-7")
    ...         return [run.id for run in await ctx.runs.list()]
    >>> asyncio.run(main())
    ['ticket-7']
    """

    def __init__(self, scope: Scope, *, memories: LongTerm | None = None) -> None:
        self._scope = scope
        self._memories = memories
        self._types = EventTypes()
        self._seal = Seal()

    def __repr__(self) -> str:
        return f"<runs of space {self._scope.space!r}>"

    def register_event(self, type: str, schema: Mapping[str, Any]) -> EventType:
        """Let runs of this context record events of a `custom.` type, checked against a JSON Schema.

        Returns the type as `record` takes it, so that a type checker knows it for one.
        """
        self._types.register(type, schema)
        return EventType(type)

    def anchor_milestones(self, path: str | os.PathLike[str] | None, *, signing_key: bytes | None = None) -> None:
        """Let every milestone of this context's runs end with an anchor in this file (None: no longer)."""
        self._seal.path, self._seal.signing_key = path, signing_key

    async def create(
        self,
        *,
        objective: str,
        acceptance_criteria: Sequence[str] = (),
        constraints: Sequence[str] = (),
        current_stage: str = "BOOT",
        run_id: str | None = None,
        task_id: str | None = None,
        thread_id: str | None = None,
        config: RunConfig | Mapping[str, Any] | None = None,
        state: Any = None,
        user_id: str | None = None,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> AsyncRun:
        """Start a run. An id that is taken is refused (`Conflict`): a run is never reset.

        `state` is a JSON object of your own, or an instance of a msgspec struct, a dataclass or a pydantic model.
        `user_id` says whose the run is: `list` finds it by that, `ctx.erase` erases it, and forks are theirs too.
        A repeat with the same `commit_id` returns the run that the first one started, as it is by now.
        """
        by = speaker(self._scope, actor)
        ref, made = await starts.start(
            self._scope,
            ids={"run_id": run_id, "task_id": task_id, "thread_id": thread_id},
            config=config,
            actor=by,
            commit_id=commit_id,
            objective=objective,
            acceptance_criteria=acceptance_criteria,
            constraints=constraints,
            current_stage=current_stage,
            own=state,
            user_id=user_id,
        )
        return self._handle(ref, made, by, own_state.type_of(state))

    async def open(
        self,
        run_id: str,
        *,
        objective: str,
        acceptance_criteria: Sequence[str] = (),
        constraints: Sequence[str] = (),
        current_stage: str = "BOOT",
        task_id: str | None = None,
        thread_id: str | None = None,
        config: RunConfig | Mapping[str, Any] | None = None,
        state: Any = None,
        state_type: type[Any] | None = None,
        user_id: str | None = None,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> AsyncRun:
        """Return the run of that id, starting it if there is none.

        What is said besides the id is for a new run and leaves an old one as it is, but for `user_id`: a run without
        an owner gets it, one of somebody else's is a `Conflict`. `state_type` is what its own state comes back as, and
        must fit; by default the type of `state`.
        """
        require_type(state_type)
        kind = state_type or own_state.type_of(state)
        by = speaker(self._scope, actor)
        ref, made = await starts.start(
            self._scope,
            ids={"run_id": run_id, "task_id": task_id, "thread_id": thread_id},
            config=config,
            actor=by,
            commit_id=commit_id,
            existing=True,
            objective=objective,
            acceptance_criteria=acceptance_criteria,
            constraints=constraints,
            current_stage=current_stage,
            own=state,
            own_type=kind,
            user_id=user_id,
        )
        return self._handle(ref, made, by, kind)

    async def get(self, run_id: str, *, state_type: type[Any] | None = None, actor: str | None = None) -> AsyncRun:
        """Return a run, or raise `NotFound`. `state_type` is what its own state comes back as, and must fit."""
        require_type(state_type)
        ref, state, known = await find_to_update(self._scope, require_id(run_id, "run_id"))
        run = self._handle(ref, state, speaker(self._scope, actor), state_type)
        run._known = known
        return run

    async def list(
        self,
        *,
        status: Status | None = None,
        user_id: str | None = None,
        after: str | None = None,
        limit: Count = 50,
        reverse: bool = False,
    ) -> Listing[AsyncRun]:
        """Return runs in order of creation, or the newest first, those of a user, those in a status, a page at a time;
        `next` of a page is `after` of the next one.

        Whoever writes through one of them says for whom (`actor=`) at each call, or gets it by `runs.get(id, actor=)`.
        """
        tags = owned({} if status is None else {"status": status}, user_id)
        states, next_page, bad = await self._scope.listed(
            Scan(self._scope.space, KIND, tags, after, limit, reverse),
            lambda document: (document.key.id, load(document, document.key.id)),
        )
        found, damaged = [], list(bad)
        for ref, (run_id, state) in zip(await refs(self._scope, states), states, strict=True):
            if isinstance(ref, Damaged):
                damaged.append(run_id)
            else:
                found.append(self._handle(ref, state, speaker(self._scope)))
        return Listing(found, next_page, tuple(damaged))

    async def restore(
        self,
        path: str | os.PathLike[str],
        *,
        run_id: str | None = None,
        public_key: bytes | None = None,
        key: Secret | None = None,
        head: Head | None = None,
        max_bytes: int = MAX_PACK_BYTES,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> AsyncRun:
        """Bring a run back from a resume pack, under its own id or a new one. All of it appears, or none.

        Nothing is written before the whole pack has been checked. `public_key` (32 bytes) demands a signature by that
        key; `head` demands that the pack is not older than the moment the head was kept; `key` opens an encrypted one.
        """
        by = speaker(self._scope, actor)
        with given(path, key) as file:
            ref, state = await restores.restore(
                self._scope,
                file,
                run_id=run_id,
                memories=self._memories,
                public_key=public_key,
                head=head,
                actor=by,
                max_bytes=max_bytes,
                commit_id=commit_id,
            )
        return self._handle(ref, state, by)

    async def erase(
        self, run_id: str, *, reason: str, actor: str | None = None, commit_id: str | None = None
    ) -> Erasure:
        """Erase what a run holds, for good, and return the receipt. Its ledger still verifies.

        Events lose their content, episodes and artifacts go, the working set is emptied. Packs made before and forks
        are copies of their own.
        """
        ref, _ = await find(self._scope, require_id(run_id, "run_id"))
        return await erasure.erase(ref, reason=reason, actor=speaker(self._scope, actor), commit_id=commit_id)

    def _handle(self, ref: Ref, state: RunState, actor: str, state_type: type[Any] | None = None) -> AsyncRun:
        return AsyncRun(
            ref,
            state,
            actor=actor,
            types=self._types,
            memories=self._memories,
            seal=self._seal,
            state_type=state_type,
        )
