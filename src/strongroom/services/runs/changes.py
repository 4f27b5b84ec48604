"""The difference between two states of a working set, as small as what really changed (pure).

A change is JSON: `{"set": {field: value}, "lists": {field: [[start, stop, items], ...]}}`. A splice replaces
old[start:stop] by items; the splices of a list are ascending, do not overlap, and speak about the list before any of
them.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from strongroom.codec import encode

# Above this many differing items a single splice is written: matching costs the product of both lengths.
MAX_MATCHED = 2000

WorkingSetJson = dict[str, Any]


def change(before: WorkingSetJson, after: WorkingSetJson) -> dict[str, Any]:
    """Return what turns `before` into `after`. Both have the same fields."""
    fields: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    for name, value in after.items():
        old = before[name]
        if old == value:
            continue
        if isinstance(value, list):
            lists[name] = _splices(old, value)
        else:
            fields[name] = value
    return {"set": fields, "lists": lists}


def apply(state: WorkingSetJson, change: dict[str, Any]) -> WorkingSetJson:
    """Return a new state with the change made; the given one stays as it is."""
    after = {**state, **change["set"]}
    for name, splices in change["lists"].items():
        items = list(state[name])
        for start, stop, replacement in reversed(splices):
            items[start:stop] = replacement
        after[name] = items
    return after


def _splices(old: list[Any], new: list[Any]) -> list[list[Any]]:
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if not left or not right or len(left) * len(right) > MAX_MATCHED**2:
        return [[head, head + len(left), right]]
    matcher = SequenceMatcher(None, [encode(item) for item in left], [encode(item) for item in right], autojunk=False)
    return [[head + a, head + b, right[c:d]] for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
