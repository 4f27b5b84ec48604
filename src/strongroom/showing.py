"""How a value shows itself where somebody prints it: in a line, with what matters. All of it is in its fields.

What has dozens of fields, or holds a conversation, would fill a screen; a list of them, several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import attrgetter
from reprlib import Repr
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 2, 50, 60
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = 3
_PLURAL = re.compile(r"(ie)?s$")


def shown_by(*names: str) -> Callable[[T], T]:
    """Let instances of a class show these of their attributes: the first as what they are called by.

    Lists are counted, long texts are cut, and what is empty is left out. A name may be a path (`receipt.format`).
    """
    first, *others = [(name.rpartition(".")[2], attrgetter(name)) for name in names]

    def decorate(cls: T) -> T:
        def shown(self: Any) -> str:
            parts = [_part(name, get(self)) for name, get in others]
            return " ".join([f"<{cls.__name__}", _value(first[0], first[1](self)), *filter(None, parts)]) + ">"

        cls.__repr__ = shown  # type: ignore[method-assign, assignment]
        return cls

    return decorate


def _part(name: str, value: Any) -> str:
    if value is None or value is False or value == "" or (isinstance(value, list | tuple | Mapping) and not value):
        return ""
    if isinstance(value, list | tuple):
        return _value(name, value)
    if isinstance(value, datetime):
        return f"{name}='{value:%Y-%m-%d %H:%M}'"
    return f"{name}={_SHORT.repr(value)}"


def _value(name: str, value: Any) -> str:
    if not isinstance(value, list | tuple):
        return _SHORT.repr(value)
    return f"1 {_PLURAL.sub(lambda end: 'y' if end[1] else '', name)}" if len(value) == 1 else f"{len(value)} {name}"
