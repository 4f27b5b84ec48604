"""Making an update: read, let the caller ask, plan, commit; again if somebody else was faster.

A handle that expects a version may say what it knows of it. That saves the read, and is safe because the commit
expects the very document it was planned for. Only a commit may follow from memory: before a refusal the run is read, so
nobody is ever refused for what is no longer so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from strongroom.errors import Conflict, StrongroomError
from strongroom.services.runs import updates
from strongroom.services.runs.repeats import require_own
from strongroom.services.runs.state import Ref, Stored, read, retries
from strongroom.store import EXISTS, Commit, Expect, new_id
from strongroom.values import Eviction

Ask = Callable[[Stored], Awaitable[updates.Request | None]]


class Outcome(Struct, frozen=True):
    """The run after an update, or as it was found if there was nothing to do (`made` is False)."""

    stored: Stored
    made: bool = False
    eviction: Eviction | None = None


async def update(
    ref: Ref,
    ask: Ask,
    *,
    actor: str,
    known: Stored | None = None,
    expected: int | None = None,
    commit_id: str | None = None,
) -> Outcome:
    """Make the update that `ask` asks for, or record why it is refused and raise."""
    lost: StrongroomError
    for _ in retries():
        from_memory, known = known, None
        stored = from_memory or await read(ref)
        asked = None
        try:
            if expected is not None:
                updates.require_seq(stored, expected)
            asked = await ask(stored)
            if asked is None:
                return Outcome(stored)
            plan = updates.plan(stored, asked)
        except StrongroomError as refusal:
            if from_memory is not None:
                lost = refusal
                continue
            await _reject(stored, refusal, asked, actor)
            raise
        try:
            receipt = await ref.scope.store.commit(
                Commit(new_id() if commit_id is None else commit_id, plan.expects, plan.writes)
            )
        except Conflict as conflict:
            lost = conflict
            continue
        require_own(receipt, len(plan.writes))
        version, length, *_ = receipt.versions
        return Outcome(Stored(ref, plan.state, version, length, plan.size), True, plan.eviction)
    raise lost


async def _reject(stored: Stored, refusal: StrongroomError, asked: updates.Request | None, actor: str) -> None:
    who, parent = (asked.actor, asked.parent) if asked else (actor, None)
    try:
        told = updates.rejection(stored, refusal, who, parent)
        await stored.ref.scope.store.commit(Commit(new_id(), (Expect(stored.ref.key, EXISTS),), (told,)))
    except StrongroomError as failure:
        refusal.add_note(f"this refusal could not be recorded: {failure}")
