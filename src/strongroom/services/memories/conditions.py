"""What tags and metadata a memory must have, as plain data: the same in Python, over HTTP and in a terminal. Pure.

| condition | holds for |
|---|---|
| `{"city": "Lyon"}` | metadata `city` equal to `Lyon`; several fields must all fit |
| `{"age": {"gte": 3, "lt": 9}}` | a range: `gt`, `gte`, `lt`, `lte`, of numbers or of texts |
| `{"city": {"in": ["Lyon", "Nice"]}}` | one of these |
| `{"city": {"prefix": "Ly"}}` | a text that begins so |
| `{"tags": "travel"}` | a memory with this tag |
| `{"and": [...]}`, `{"or": [...]}`, `{"not": {...}}` | conditions joined |

A field that a memory does not have fits nothing but `not`. Texts and numbers are never compared with each other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strongroom.errors import InvalidInput
from strongroom.services.memories.values import Memory

Test = Callable[[Memory], bool]
Value = str | int | float | bool | None

MOST_PARTS = 100
DEEPEST = 8
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le,
}  # fmt: skip
_HELP = "a field with a value, or with gt, gte, lt, lte, in or prefix; or and, or, not"


def condition(where: Mapping[str, Any]) -> Test:
    """Turn a condition into a test of memories, or raise `InvalidInput` that says what is allowed."""
    return _Reader().read(where, 1)


class _Reader:
    """Reads one condition and counts its parts."""

    def __init__(self) -> None:
        self.parts = 0

    def read(self, where: object, depth: int) -> Test:
        if not isinstance(where, Mapping) or not where:
            raise InvalidInput(f"a condition is {_HELP}, not {where!r:.60}", path="where")
        if depth > DEEPEST:
            raise InvalidInput(f"a condition may be {DEEPEST} deep", path="where")
        tests = [self._part(name, value, depth) for name, value in where.items()]
        return tests[0] if len(tests) == 1 else lambda memory: all(test(memory) for test in tests)

    def _part(self, name: object, value: object, depth: int) -> Test:
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise InvalidInput(f"a condition may have {MOST_PARTS} parts", path="where")
        if not isinstance(name, str):
            raise InvalidInput(f"a field is a text, not {name!r:.60}", path="where")
        if name in ("and", "or"):
            if not isinstance(value, Sequence) or isinstance(value, str) or not value:
                raise InvalidInput(f"{name!r} takes a list of conditions, not {value!r:.60}", path="where")
            tests = [self.read(one, depth + 1) for one in value]
            joined = all if name == "and" else any
            return lambda memory: joined(test(memory) for test in tests)
        if name == "not":
            test = self.read(value, depth + 1)
            return lambda memory: not test(memory)
        fits = self._fits(value)
        if name == "tags":
            return lambda memory: any(fits(tag) for tag in memory.tags)
        return lambda memory: name in memory.metadata and fits(memory.metadata[name])

    def _fits(self, wanted: object) -> Callable[[Value], bool]:
        if not isinstance(wanted, Mapping):
            return _equal(wanted)
        tests = [self._compared(how, value) for how, value in wanted.items()]
        if not tests:
            raise InvalidInput(f"a condition is {_HELP}", path="where")
        return lambda found: all(test(found) for test in tests)

    def _compared(self, how: object, value: Any) -> Callable[[Value], bool]:
        self.parts += 1
        if how in _ORDERS and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            order = _ORDERS[str(how)]
            return lambda found: _comparable(found, value) and order(found, value)
        if how == "in" and isinstance(value, Sequence) and not isinstance(value, str) and len(value) <= MOST_PARTS:
            tests = [_equal(one) for one in value]
            return lambda found: any(test(found) for test in tests)
        if how == "prefix" and isinstance(value, str):
            return lambda found: isinstance(found, str) and found.startswith(value)
        raise InvalidInput(f"a condition is {_HELP}, not {how!r:.40} with {value!r:.60}", path="where")


def _equal(wanted: object) -> Callable[[Value], bool]:
    if not isinstance(wanted, (str, int, float, bool, type(None))):
        raise InvalidInput(f"a value is a text, a number, true, false or null, not {wanted!r:.60}", path="where")
    return lambda found: found == wanted and isinstance(found, bool) == isinstance(wanted, bool)


def _comparable(found: Value, value: object) -> bool:
    if isinstance(found, bool) or found is None:
        return False
    return isinstance(found, str) == isinstance(value, str)
