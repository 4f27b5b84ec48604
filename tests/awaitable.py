"""One test body for blocking and async: a blocking object whose calls can be awaited.

`Awaitable(ctx)` has the names of `ctx`; calling a method returns something to await. Handles that come back from the
blocking package are wrapped again, plain values are not, iterators become async ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

from strongroom.values import Listing

BLOCKING = ("strongroom.blocking", "strongroom.client")


class Awaitable:
    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if callable(value) and not isinstance(value, type):
            return _Method(value)
        return _view(value)

    def __getitem__(self, item: Any) -> Any:
        return _view(self._target[item])

    def __len__(self) -> int:
        return len(self._target)

    def __iter__(self) -> Iterator[Any]:
        return (_view(item) for item in self._target)


class _Method:
    def __init__(self, method: Any) -> None:
        self._method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Call(self._method, args, kwargs)


class _Call:
    """The result of calling a method: awaited for a value, or iterated when the method yields."""

    def __init__(self, method: Callable[..., Any], args: Any, kwargs: Any) -> None:
        named = {name: _plain(value) for name, value in kwargs.items()}
        self._run: Callable[[], Any] = partial(method, *map(_plain, args), **named)

    def __await__(self) -> Any:
        return self._value().__await__()

    async def _value(self) -> Any:
        return _view(self._run())

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in self._run():
            yield _view(item)


def _plain(value: Any) -> Any:
    return value._target if isinstance(value, Awaitable) else value


def _view(value: Any) -> Any:
    if type(value).__module__.startswith(BLOCKING):
        return Awaitable(value)
    if isinstance(value, Listing) and value and type(value[0]).__module__.startswith(BLOCKING):
        return Listing(map(Awaitable, value), value.next)
    if isinstance(value, (list, tuple)) and value and type(value[0]).__module__.startswith(BLOCKING):
        return type(value)(Awaitable(item) for item in value)
    return value
