"""AsyncRuns: making runs, finding them, bringing them back, erasing what they hold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from strongroom.arguments import checked
from strongroom.errors import Conflict, InvalidInput
from strongroom.files import opened
from strongroom.scope import Scope
from strongroom.services.runs import erasure, restores
from strongroom.services.runs.eviction import make_room
from strongroom.services.runs.forks import taken
from strongroom.services.runs.ledger import EventTypes
from strongroom.services.runs.long_term import LongTerm
from strongroom.services.runs.packs import MAX_PACK_BYTES
from strongroom.services.runs.repeats import new_run_id, started
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.state import KIND, Mark, Ref, RunState, find, load, put, record, whole
from strongroom.services.runs.working_set import initial, require_id
from strongroom.store import Append, Commit, Expect, Scan, new_id
from strongroom.values import Erasure, Head, Listing, RunConfig, Status

ACTOR = "agent"
CONFIG_LIMITS = (
    ("ws_max_tokens", 1, 10**9),
    ("pinned_context_max_items", 0, 10),
    ("milestone_step_cap", 1, 10**9),
    ("milestone_error_cap", 1, 10**9),
)


@checked
class AsyncRuns:
    """The runs of one space."""

    def __init__(self, scope: Scope, *, memories: LongTerm | None = None) -> None:
        self._scope = scope
        self._memories = memories
        self._types = EventTypes()

    def inline(self) -> AsyncRuns:
        """Return the same runs for code without an event loop: nothing is moved to another thread."""
        twin = AsyncRuns(self._scope, memories=None if self._memories is None else self._memories.inline())
        twin._types = self._types
        return twin

    def register_event(self, type: str, schema: Mapping[str, Any]) -> None:
        """Let runs of this context record events of a `custom.` type, checked against a JSON Schema."""
        self._types.register(type, schema)

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
        actor: str = ACTOR,
        commit_id: str | None = None,
    ) -> AsyncRun:
        """Start a run. An id that is taken is refused (`Conflict`): a run is never reset.

        A repeat with the same `commit_id` returns the run that the first one started.
        """
        ids = {
            "run_id": new_run_id(commit_id) if run_id is None else require_id(run_id, "run_id"),
            "task_id": _fresh("task") if task_id is None else require_id(task_id, "task_id"),
            "thread_id": _fresh("thread") if thread_id is None else require_id(thread_id, "thread_id"),
        }
        chosen = _config(config)
        working_set = initial(
            **ids,
            objective=objective,
            acceptance_criteria=acceptance_criteria,
            constraints=constraints,
            current_stage=current_stage,
        )
        make_room(None, working_set, max_tokens=chosen.ws_max_tokens, tokenizer=self._scope.tokenizer)
        ref = Ref(self._scope, ids["run_id"], ids["run_id"])
        state = RunState(working_set=working_set, streams=ref.streams, config=chosen, mark=Mark(0, 0))
        told = {"config": msgspec.to_builtins(chosen)}
        start = record(ref, "RUN_START", told, actor=actor, detail=whole(working_set))
        try:
            await self._scope.store.commit(
                Commit(
                    new_id() if commit_id is None else commit_id,
                    (Expect(ref.key, 0),),
                    (put(ref, state), Append(ref.ledger, (start,))),
                )
            )
        except Conflict as conflict:
            raise taken(ref.run_id, conflict) from None
        if commit_id is not None:
            ref, state = await started(self._scope, ref.run_id, commit_id)
        return self._handle(ref, state, actor)

    async def get(self, run_id: str, *, actor: str = ACTOR) -> AsyncRun:
        """Return a run, or raise `NotFound`."""
        ref, state = await find(self._scope, require_id(run_id, "run_id"))
        return self._handle(ref, state, actor)

    async def list(
        self, *, status: Status | None = None, after: str | None = None, limit: int = 50, actor: str = ACTOR
    ) -> Listing[AsyncRun]:
        """Return runs in order of creation, a page at a time; `next` of a page is `after` of the next one."""
        tags: dict[str, str] = {} if status is None else {"status": status}
        [page] = await self._scope.store.read([Scan(self._scope.space, KIND, tags, after, limit)])
        found = []
        for document in page.documents:
            state = load(document, document.key.id)
            found.append(self._handle(Ref(self._scope, document.key.id, state.streams), state, actor))
        return Listing(found, page.next)

    async def restore(
        self,
        path: str | os.PathLike[str],
        *,
        run_id: str | None = None,
        public_key: bytes | None = None,
        head: Head | None = None,
        max_bytes: int = MAX_PACK_BYTES,
        actor: str = ACTOR,
    ) -> AsyncRun:
        """Bring a run back from a resume pack, under its own id or a new one. All of it appears, or none.

        Nothing is written before the whole pack has been checked. `public_key` (32 bytes) demands a signature by that
        key; `head` demands that the pack is not older than the moment the head was kept.
        """
        with opened(path) as file:
            ref, state = await restores.restore(
                self._scope,
                file,
                run_id=run_id,
                memories=self._memories,
                public_key=public_key,
                head=head,
                actor=actor,
                max_bytes=max_bytes,
            )
        return self._handle(ref, state, actor)

    async def erase(self, run_id: str, *, reason: str, actor: str = ACTOR) -> Erasure:
        """Erase what a run holds, for good, and return the receipt. Its ledger still verifies.

        Events lose their content, episodes and artifacts go, the working set is emptied. Packs made before and forks
        are copies of their own.
        """
        ref, _ = await find(self._scope, require_id(run_id, "run_id"))
        return await erasure.erase(ref, reason=reason, actor=actor)

    def _handle(self, ref: Ref, state: RunState, actor: str) -> AsyncRun:
        return AsyncRun(ref, state, actor=actor, types=self._types, memories=self._memories)


def _fresh(kind: str) -> str:
    return f"{kind}_{os.urandom(8).hex()}"


def _config(config: RunConfig | Mapping[str, Any] | None) -> RunConfig:
    given = msgspec.to_builtins(config) if isinstance(config, RunConfig) else dict(config or {})
    try:
        made = msgspec.convert(given, RunConfig)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"{problem}; nothing changed", path="config") from None
    for name, low, high in CONFIG_LIMITS:
        value = getattr(made, name)
        if value is not None and not low <= value <= high:
            raise InvalidInput(f"must be {low} to {high}, not {value}; nothing changed", path=f"config.{name}")
    return made
