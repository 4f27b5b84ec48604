"""A run's own state: any JSON object of its user's, kept beside the v2.1 fields (pure).

Inside Strongroom it is one more field of the working set, under the name `state`, so ledger, time travel, diff,
rollback and fork treat it as they treat the others. Seen from outside it is not part of the v2.1 JSON. A run that never
had one has no such field; one whose state was taken away has None.

A type of the user's (a msgspec struct, a dataclass, a pydantic model) is a view of it in one process: what is stored is
JSON, and loading never imports anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from strongroom.codec import encode, pack
from strongroom.errors import BudgetExceeded, InvalidInput, shown
from strongroom.services.runs.state_types import wrong_name
from strongroom.values import RunConfig

FIELD = "state"

WorkingSetJson = dict[str, Any]


def plain(value: Any, kind: type[Any] | None = None) -> dict[str, Any] | None:
    """Return a state as JSON; raise `InvalidInput` unless it is an object, and one that fits its type."""
    if value is None:
        return None
    stored: dict[str, Any] = encode(_object(_builtins(value), value), depth=2).load()
    typed(stored, kind, "; nothing changed")
    return stored


def typed(state: dict[str, Any] | None, kind: type[Any] | None, told: str = "") -> Any:
    """Return a state as an instance of its type; if it does not fit, raise `InvalidInput` that ends with `told`."""
    if state is None or kind is None:
        return state
    try:
        if hasattr(kind, "model_validate"):
            return kind.model_validate(state)
        return msgspec.convert(state, kind)
    except (msgspec.ValidationError, ValueError, TypeError) as problem:
        raise InvalidInput(f"the state does not fit {kind.__name__}: {str(problem)[:300]}{told}", path=FIELD) from None


def type_of(value: Any) -> type[Any] | None:
    """Return the type that a state was given as; None if it is plain JSON."""
    return None if value is None or isinstance(value, Mapping) else type(value)


def merged(state: Any, patch: Mapping[str, Any]) -> Any:
    """Return a state with a JSON merge patch applied (RFC 7396): null takes a member away, objects are merged."""
    after = dict(state) if isinstance(state, dict) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merged(after.get(name), value) if isinstance(value, Mapping) else value
    return after


def patched(state: Any, patch: Mapping[str, Any], kind: type[Any] | None) -> Any:
    """Return a state with a merge patch applied, if the type has what the patch names and what comes of it fits."""
    given = plain(patch) or {}
    if kind is not None and (wrong := wrong_name(state, given, kind)):
        raise InvalidInput(f"the state does not fit {kind.__name__}: {wrong}; nothing changed", path=FIELD)
    after = merged(state, given)
    typed(after, kind, "; nothing changed")
    return after


def differs(before: Any, after: Any) -> bool:
    """Tell whether two states are not the same JSON. Python takes 1, 1.0 and True for equal."""
    return pack({FIELD: before}) != pack({FIELD: after})


def put(after: WorkingSetJson, state: dict[str, Any] | None, config: RunConfig) -> None:
    """Make this plain state the one in a working set that is being changed, if it is within its budget."""
    if state is None and FIELD not in after:
        return
    size = 0 if state is None else len(encode(_object(state, state), depth=2))
    if size > config.state_max_bytes:
        raise BudgetExceeded(
            f"the state takes {size} bytes, and may take {config.state_max_bytes}; attach what is large; "
            "nothing changed",
            limit=config.state_max_bytes,
            needed=size,
        )
    after[FIELD] = state


def without(working_set: WorkingSetJson) -> WorkingSetJson:
    """Return the v2.1 fields alone."""
    return {name: value for name, value in working_set.items() if name != FIELD}


def _object(made: Any, given: Any) -> dict[str, Any]:
    if isinstance(made, dict):
        return made
    raise InvalidInput(
        f"a state must be a JSON object, or an instance of a struct, a dataclass or a pydantic model, not "
        f"{shown(given)}; nothing changed",
        path=FIELD,
    )


def _builtins(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, msgspec.Struct) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        try:
            return msgspec.to_builtins(value)
        except TypeError as problem:
            raise InvalidInput(f"this state cannot be JSON: {problem}; nothing changed", path=FIELD) from None
    return value
