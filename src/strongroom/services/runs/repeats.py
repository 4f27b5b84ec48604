"""Repeating an operation on a run under the same commit id: what the first one did is found, and not done again."""

from __future__ import annotations

import os
from hashlib import sha256

from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.runs.state import Ref, RunState, find
from strongroom.store import Commit, Expect, Receipt, require_name


async def receipt_of(ref: Ref, commit_id: str | None) -> Receipt | None:
    """Return the receipt of a commit made before, by repeating its id with what can not hold: the run is there."""
    if commit_id is None:
        return None
    try:
        return await ref.scope.store.commit(Commit(commit_id, (Expect(ref.key, 0),)))
    except Conflict:
        return None


async def started(scope: Scope, run_id: str, commit_id: str) -> tuple[Ref, RunState]:
    """Look up the run that a commit started."""
    try:
        return await find(scope, run_id)
    except NotFound:
        raise used_otherwise(commit_id) from None


def require_own(receipt: Receipt, writes: int) -> None:
    """Refuse the receipt of another operation, which a commit id that was used for it before brings back."""
    if len(receipt.versions) != writes:
        raise used_otherwise(receipt.id)


def used_otherwise(commit_id: str) -> InvalidInput:
    return InvalidInput(f"the commit id {commit_id!r} was used for something else before; nothing changed")


def new_run_id(commit_id: str | None) -> str:
    """Return an id for a run that a commit starts. It follows from the commit's, so that a repeat starts no other."""
    if commit_id is None:
        return f"run_{os.urandom(8).hex()}"
    require_name(commit_id, "a commit id")
    return f"run_{sha256(commit_id.encode()).hexdigest()[:16]}"
