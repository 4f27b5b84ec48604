"""From a type to the JSON Schema that clients are shown. Pure."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

_REFERENCE = "#/$defs/"


@cache
def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a type as one JSON Schema object without references: not every client follows them."""
    (reference,), components = msgspec.json.schema_components([kind], ref_template=_REFERENCE + "{name}")
    inlined = _inline(reference, components)
    assert isinstance(inlined, dict) and inlined["type"] == "object"
    return inlined


def _inline(value: Any, components: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inline(one, components) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        beside = {name: part for name, part in value.items() if name != "$ref"}
        target = components[value["$ref"].removeprefix(_REFERENCE)]
        return _inline({**target, **beside}, components)
    # A property may be called `title` as well; the titles of types say nothing that their place does not.
    return {
        name: (
            {each: _inline(part, components) for each, part in value["properties"].items()}
            if name == "properties"
            else _inline(part, components)
        )
        for name, part in value.items()
        if name != "title"
    }
