"""The type that a run's own state is seen as: whether it can be one, and which members it knows (pure).

A misspelt member of a patch would be stored, and never seen through a type that does not have it. So the names of a
patch are held against the type, as deep as the type tells. One that allows more, such as a mapping or a model that
keeps what it does not know, refuses no name. A whole state is not held against it: it may carry on what a newer version
of the program has put there.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from strongroom.errors import InvalidInput, shown
from strongroom.schemas import no_field


def require_type(kind: Any) -> None:
    """Refuse what no state can come back as; None means that it comes back as JSON."""
    if kind is not None and not isinstance(kind, type) and typing.get_origin(kind) is None:
        raise InvalidInput(
            f"state_type must be a class (a msgspec struct, a dataclass or a pydantic model) or None, not {shown(kind)}"
        )


def wrong_name(state: Any, patch: Mapping[str, Any], kind: Any) -> str:
    """Say which name of a patch its type does not have, and which there are; nothing if it has them all.

    What is there although the type does not have it may be taken away.
    """
    members = _members(kind)
    if members is None:
        return ""
    before = state if isinstance(state, Mapping) else {}
    for name, value in patch.items():
        if name not in members:
            if value is None and name in before:
                continue
            return no_field(name, members)
        if isinstance(value, Mapping) and (wrong := wrong_name(before.get(name), value, members[name])):
            return f"in {name}, {wrong}"
    return ""


def _members(kind: Any) -> dict[str, Any] | None:
    """Return the members of a type by their names in JSON, each with its own type; None if it allows any."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _of_any(kind)
    if origin is not None:
        return _members(typing.get_args(kind)[0] if origin is Annotated else origin)
    if hasattr(kind, "model_fields"):
        return None if kind.model_config.get("extra") == "allow" else _of_model(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        tag = kind.__struct_config__.tag_field
        return {field.encode_name: field.type for field in msgspec.structs.fields(kind)} | ({tag: str} if tag else {})
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    return None


def _of_any(kind: Any) -> dict[str, Any] | None:
    """Return the members of a union: those of each that is an object, for a patch does not say which it is."""
    found: dict[str, Any] = {}
    for each in typing.get_args(kind):
        if each in (type(None), str, int, float, bool):
            continue
        members = _members(each)
        if members is None:
            return None
        found |= members
    return found


def _of_model(kind: Any) -> dict[str, Any]:
    """Return the members of a pydantic model, by their own names and by the other ones that it takes them under."""
    found: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        choices = getattr(field.validation_alias, "choices", [field.alias, field.validation_alias])
        found |= {each: field.annotation for each in (name, *choices) if isinstance(each, str)}
    return found
