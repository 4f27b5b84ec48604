"""Errors on the wire. A server answers with JSON and a stable code; a client makes the same exception again. Pure."""

from __future__ import annotations

from typing import Any

from strongroom.errors import (
    BudgetExceeded,
    Closed,
    CommitUnknown,
    Conflict,
    Damaged,
    Immutable,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StoreError,
    StrongroomError,
    Unavailable,
)
from strongroom.store import Key

# What each error carries besides its message, so that it can be made again.
ERRORS: dict[str, tuple[type[StrongroomError], tuple[str, ...]]] = {
    kind.code: (kind, facts)
    for kind, facts in (
        (InvalidInput, ("path",)),
        (NotFound, ("kind", "id")),
        (Conflict, ("expected", "actual", "key")),
        (Immutable, ("field",)),
        (BudgetExceeded, ("limit", "needed")),
        (Closed, ()),
        (StoreError, ("reason",)),
        (Unavailable, ("reason",)),
        (CommitUnknown, ("reason", "commit_id")),
        (SchemaMismatch, ("reason",)),
        (Damaged, ("reason", "place", "id")),
    )
}


def facts(error: StrongroomError) -> dict[str, Any]:
    """Return what an error carries besides its message."""
    _, names = ERRORS.get(error.code, (StrongroomError, ()))
    found = {name: getattr(error, name, None) for name in names}
    if isinstance(key := found.get("key"), Key):
        found["key"] = [key.space, key.kind, key.id]
    return {name: value for name, value in found.items() if value not in (None, "")}


def revive(code: str, message: str, details: dict[str, Any]) -> StrongroomError | None:
    """Make the error again that a server raised; None if it is not one of ours."""
    if code not in ERRORS:
        return None
    kind, names = ERRORS[code]
    error = kind.__new__(kind)
    Exception.__init__(error, details.get("message", message))
    empty = {"expected": 0, "actual": 0, "limit": 0, "needed": 0, "key": None}
    for name in names:
        setattr(error, name, details.get(name, empty.get(name, "")))
    if isinstance(key := getattr(error, "key", None), list):
        error.key = Key(*key) if len(key) == 3 else None  # type: ignore[attr-defined]
    return error
