"""Which values JSON gives back exactly, and how the others are kept all the same. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from strongroom.codec import encode
from strongroom.errors import InvalidInput, shown

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


def messages_of(items: Sequence[Mapping[str, Any]]) -> tuple[Any, list[Any]]:
    """Return items of a framework as a session stores them, and what lies beside each for it to come back exactly.

    As a rule that is nothing. Otherwise it is the item's JSON as text, which holds what our own JSON refuses: lone
    surrogates, integers beyond 64 bits, NaN.
    """
    each = list(items)  # once: whoever passes an iterator has no second
    if isinstance(items, Mapping) or any(isinstance(item, str) for item in each):
        wanted = "a list of items such as {'role': 'user', 'content': 'Hi'}"
        raise InvalidInput(f"pass {wanted}, not {shown(items)}; nothing changed")
    given = [dict(item) for item in each]
    exact = [is_exact(one) for one in given]
    messages = [one if fits else _outline(one) for one, fits in zip(given, exact, strict=True)]
    return messages, [None if fits else {"json": json.dumps(one)} for one, fits in zip(given, exact, strict=True)]


def _outline(item: dict[str, Any]) -> dict[str, Any]:
    """Return what a session can hold of an item that is kept beside it."""
    kept = {name: item[name] for name in ("role", "type") if isinstance(item.get(name), str) and is_exact(item[name])}
    return kept or {"type": "item"}


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
