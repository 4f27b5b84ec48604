"""A dispatcher, blocking and async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher, Dispatcher
from tests.awaitable import Awaitable

F = TypeVar("F", bound=Callable[..., Any])


class Desk:
    """A dispatcher whose methods are awaited, blocking or not; `handler` is the decorator itself."""

    def __init__(self, dispatcher: AsyncDispatcher | Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._view: Any = dispatcher if isinstance(dispatcher, AsyncDispatcher) else Awaitable(dispatcher)

    def handler(self, name: str, **options: Any) -> Callable[[F], F]:
        decorator: Callable[[F], F] = self._dispatcher.handler(name, **options)
        return decorator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


@pytest.fixture
def make_desk() -> Callable[..., Desk]:
    def make(ctx: Any, **options: Any) -> Desk:
        settings: dict[str, Any] = {"poll_seconds": 0.01, **options}
        if isinstance(ctx, AsyncContext):
            return Desk(AsyncDispatcher(ctx, **settings))
        return Desk(Dispatcher(ctx._target, **settings))

    return make


@pytest.fixture
def desk(ctx: Any, make_desk: Callable[..., Desk]) -> Desk:
    return make_desk(ctx)
