"""Which values JSON gives back exactly, and how the others are kept all the same. Pure."""

from __future__ import annotations

import json
from typing import Any

from strongroom.codec import encode
from strongroom.errors import InvalidInput

PLAIN = frozenset({str, int, float, bool, type(None)})
DEEPEST = 6  # levels that a value may stand in below the top of what is stored


def is_exact(value: Any) -> bool:
    """Tell whether a stored value comes back with the same types and values; the order of keys is free."""
    if not _is_plain(value):
        return False
    try:
        encode(value, depth=DEEPEST)
    except InvalidInput:
        return False
    return True


def sidecar_of(value: Any) -> Any:
    """Return what must lie beside a message for it to come back exactly: nothing, as a rule, or its JSON as text.

    Text holds what our own JSON refuses: lone surrogates, integers beyond 64 bits, NaN.
    """
    return None if is_exact(value) else {"json": json.dumps(value)}


def restored(value: dict[str, Any], sidecar: Any) -> dict[str, Any]:
    """Return a message exactly as it was given."""
    given: dict[str, Any] = json.loads(sidecar["json"]) if isinstance(sidecar, dict) and "json" in sidecar else value
    return given


def _is_plain(value: Any) -> bool:
    kind = type(value)
    try:
        if kind is dict:
            return all(type(key) is str and _is_plain(item) for key, item in value.items())
        return all(map(_is_plain, value)) if kind is list else kind in PLAIN
    except RecursionError:
        return False
