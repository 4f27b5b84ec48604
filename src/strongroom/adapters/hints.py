"""What was meant by what the frameworks' own classes take and ours do not.

An attribute says so when it is looked for, on a class as on an object, by the AttributeError that whoever asks on
purpose (`hasattr`) expects. See `strongroom.meant` for everything else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from strongroom.meant import ARGUMENTS

T = TypeVar("T", bound=Callable[..., None])

SET_UP = "nothing: a store is set up when it is opened"


class Instead:
    """An attribute that there is not, with what to write instead."""

    def __init__(self, told: str) -> None:
        self.told = told

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, thing: object, owner: type) -> None:
        # Without `obj`, or a trace would go on to guess beside what is said here.
        raise AttributeError(f"{owner.__name__} has no attribute {self.name!r}; use {self.told}", name=self.name)


def told_where(init: T) -> T:
    """Let an `__init__` that hears of no store say what names one."""
    signature = inspect.signature(init)

    @wraps(init)
    def made(*args: Any, **kwargs: Any) -> None:
        given = signature.bind_partial(*args, **kwargs).arguments
        if "where" not in given:
            word = next((name for name in kwargs if "address" in ARGUMENTS.get(name, ())), None)
            name = type(args[0]).__name__
            raise TypeError(
                f"{name}(): pass `where` it is kept: an address such as 'agent.db', or a context of strongroom.open"
                + ("" if word is None else f"; did you mean where={kwargs[word]!r:.80} by {word}?")
            )
        init(*args, **kwargs)

    return cast("T", made)
