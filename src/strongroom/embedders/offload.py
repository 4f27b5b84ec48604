"""Where slow, blocking work runs: on a thread if there is an event loop to keep free, right here if there is none."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from strongroom.errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")


async def call(threads: bool, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function, on a thread if `threads`. Without threads this never suspends."""
    if threads:
        return await asyncio.to_thread(lambda: carried(function, *args, **kwargs))
    return function(*args, **kwargs)


def carried(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function whose outcome a future is to carry. No future carries StopIteration: whoever awaits it would wait
    for ever. It becomes what it is when a coroutine raises it."""
    try:
        return function(*args, **kwargs)
    except StopIteration as problem:
        raise RuntimeError(f"{getattr(function, '__qualname__', 'the function')} raised StopIteration") from problem


def is_async(function: Callable[..., object]) -> bool:
    """Tell whether calling a function gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class NeedsALoop(InvalidInput):
    """A function is async, and whoever calls it has no event loop."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is async, and this is the blocking API; pass a plain function, or use strongroom.aopen()"
        )


def refuse_async(what: str, given: object) -> None:
    """Refuse a function that is async, for whoever has no event loop, before it is called."""
    if callable(given) and is_async(given):
        raise NeedsALoop(what)
