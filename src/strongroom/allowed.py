"""What may stand where something wrong was said: the values of a choice, or the fields of an object. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import inspect

_STEP = re.compile(r"\.(\w+)|\[")


def allowed(kind: Any, problem: str) -> str:
    """Return what to say after a refusal of msgspec's: the values that it takes at the place it names, or the fields of
    the object around."""
    _, told, place = problem.rpartition(" - at `$")
    found = [*_parts(_described(kind))]
    fields = _fields(found)
    for step in _STEP.finditer(place if told else ""):
        found = [each for one in found for inner in _within(one, step[1]) for each in _parts(inner)]
        fields = _fields(found) or fields
    if values := [str(value) for one in found if isinstance(one, inspect.LiteralType) for value in one.values]:
        return f"; allowed: {', '.join(values)}"
    return fields


@cache
def _described(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _parts(one: inspect.Type) -> Iterator[inspect.Type]:
    """Yield what a type can be."""
    if isinstance(one, inspect.Metadata):
        yield from _parts(one.type)
    elif isinstance(one, inspect.UnionType):
        for each in one.types:
            yield from _parts(each)
    else:
        yield one


def _within(one: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    """Yield the type of a field of this name, without one those of all items."""
    if isinstance(one, inspect.StructType):
        yield from (each.type for each in one.fields if each.encode_name == name)
    elif isinstance(one, inspect.DictType):
        yield one.value_type
    elif isinstance(one, inspect.ListType | inspect.VarTupleType) and name is None:
        yield one.item_type


def _fields(found: list[inspect.Type]) -> str:
    objects = [one for one in found if isinstance(one, inspect.StructType)]
    named = [_field(each) for one in objects for each in one.fields]
    return f"; allowed fields: {', '.join(named) or 'none'}" if objects else ""


def _field(field: inspect.Field) -> str:
    """Name a field, and what may stand in it if that has names of its own."""
    extra = field.type.extra if isinstance(field.type, inspect.Metadata) else None
    return f"{field.encode_name} (of {', '.join(extra['fields'])})" if extra else field.encode_name
