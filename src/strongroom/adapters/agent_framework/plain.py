"""Values of a workflow as JSON, and back. Pure. Loading never executes code: there is no pickle here.

JSON is JSON. What JSON does not have is an object with one key that begins with `$` and says what it is. Objects are
those of the framework's own public types and of types that the caller named; whatever else there is, is refused when it
is saved, not when it is needed.
"""

from __future__ import annotations

import dataclasses
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

import agent_framework
from agent_framework import WorkflowCheckpointException, WorkflowEvent, WorkflowMessage
from pydantic import BaseModel

Types = Mapping[str, type]

PLAIN = frozenset({str, int, float, bool, type(None)})
# Name, type, how it is written and how it is read.
OTHERS: tuple[tuple[str, type, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("$tuple", tuple, list, tuple),
    ("$set", set, list, set),
    ("$frozenset", frozenset, list, frozenset),
    ("$bytes", bytes, lambda value: b64encode(value).decode(), b64decode),
    ("$time", datetime, datetime.isoformat, datetime.fromisoformat),
    ("$uuid", UUID, str, UUID),
)


def named(types: tuple[type, ...]) -> Types:
    """Return types by the names under which their objects are stored."""
    return {_name(one): one for one in types}


def dumped(value: Any, types: Types) -> Any:
    """Return a value as JSON, or raise."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is list:
        return [dumped(one, types) for one in value]
    if kind is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: dumped(one, types) for key, one in value.items()}
        return {"$dict": [[dumped(key, types), dumped(one, types)] for key, one in value.items()]}
    for name, other, write, _ in OTHERS:
        if kind is other:
            return {name: dumped(write(value), types)}
    if kind is WorkflowMessage:
        return {"$message": dumped(value.to_dict(), types)}
    if kind is WorkflowEvent and value.type == "request_info":
        return {"$event": dumped(value.to_dict(), types)}
    if _known(_name(kind), types) is kind:
        return {"$object": [_name(kind), dumped(_fields(value), types)]}
    raise WorkflowCheckpointException(
        f"an object of {_name(kind)} cannot be stored: pass its type, a dataclass, an enum or a model of Pydantic, as "
        "types=(...); nothing changed"
    )


def loaded(value: Any, types: Types) -> Any:
    """Return the value of what `dumped` returned."""
    if isinstance(value, list):
        return [loaded(one, types) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not next(iter(value)).startswith("$"):
        return {key: loaded(one, types) for key, one in value.items()}
    [(name, held)] = value.items()
    if name == "$object":
        kind = _known(held[0], types)
        if kind is None:
            raise WorkflowCheckpointException(
                f"objects of {held[0]} are not known here: pass their type as types=(...)"
            )
        return _made(kind, loaded(held[1], types))
    inner = loaded(held, types)
    if name == "$dict":
        return dict(inner)
    if name == "$message":
        return WorkflowMessage.from_dict(inner)
    if name == "$event":
        return WorkflowEvent.from_dict(inner, allowed_types={_serialized(one): one for one in types.values()})
    for other, _, _, read in OTHERS:
        if name == other:
            return read(inner)
    raise WorkflowCheckpointException(f"a checkpoint holds {name!r:.40}, which this version does not know")


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _serialized(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _known(name: str, types: Types) -> type | None:
    """Return the type of a name: one that the caller passed, or a public one of the framework's that holds data."""
    if name in types:
        return types[name]
    module, _, own = name.partition(":")
    found = getattr(agent_framework, own, None) if module.split(".")[0] == "agent_framework" else None
    if not isinstance(found, type) or _name(found) != name:
        return None
    holds = dataclasses.is_dataclass(found) or issubclass(found, Enum) or hasattr(found, "from_dict")
    return found if holds else None


def _fields(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
    return value.to_dict()


def _made(kind: type, fields: Any) -> Any:
    if issubclass(kind, Enum):
        return kind(fields)
    if issubclass(kind, BaseModel):
        return kind.model_validate(fields)
    if dataclasses.is_dataclass(kind):
        return kind(**fields)
    return kind.from_dict(fields)  # type: ignore[attr-defined]
