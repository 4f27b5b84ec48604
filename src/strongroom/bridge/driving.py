"""Running what is written in async def to its end: without a loop (`run`, `blocking`, `iterate`), or on one although
the caller was cancelled meanwhile (`finish`)."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints, overload

from strongroom.arguments import explained, secrets_of
from strongroom.embedders.offload import refuse_async
from strongroom.errors import InvalidInput, hidden

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


def run(coro: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine that never suspends to its result."""
    try:
        coro.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        coro.close()
    raise RuntimeError(
        "a blocking call awaited something that suspends; pass plain functions to the blocking API, "
        "or use strongroom.aopen() for async ones"
    )


def plain(name: str, given: object, *, writes: bool) -> None:
    """Refuse a function that is async among what a blocking call is given, before anything is called."""
    if callable(given):
        try:
            refuse_async(name, given)
        except InvalidInput as problem:
            if writes:
                problem.args = (f"{problem}; nothing changed",)
            raise


@overload
def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]: ...
@overload
def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], wrap: Callable[[T], U]
) -> Callable[Concatenate[Any, P], U]: ...
def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]], wrap: Callable[[Any], Any] | None = None
) -> Callable[Concatenate[Any, P], Any]:
    """Return the blocking twin of an async method: same name, same signature, driven over `self._async`.

    `wrap` turns an async handle in the result into its blocking one. Who asks what it takes, or gets that wrong, reads
    of blocking names only.
    """

    secrets, writes = secrets_of(method), "commit_id" in inspect.signature(method).parameters
    names = [*inspect.signature(method).parameters][1:]

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        for name in secrets:
            if name in kwargs:
                kwargs[name] = hidden(kwargs[name])
        for name, given in (*zip(names, args, strict=False), *kwargs.items()):
            plain(name, given, writes=writes)
        try:
            result = run(method(self._async, *args, **kwargs))
        except TypeError:
            if problem := explained(method, (self, *args), kwargs, f"{type(self).__name__}."):
                raise problem from None
            raise
        return result if wrap is None else wrap(result)

    call.__qualname__ = _plain(method.__qualname__)
    if wrap is not None:
        signature = inspect.signature(method)
        vars(call)["__signature__"] = signature.replace(return_annotation=_plain(signature.return_annotation))
        # The type itself, for whoever evaluates hints does so among the names of the async module.
        returned = wrap if isinstance(wrap, type) else get_type_hints(wrap)["return"]
        call.__annotations__ = {**method.__annotations__, "return": returned}
    return call


def _plain(name: Any) -> Any:
    """Return the blocking name of what has an async one, in annotations that are written as text."""
    return re.sub(r"\bAsync(?=[A-Z])", "", name) if isinstance(name, str) else name


async def finish(call: Coroutine[Any, Any, T]) -> T:
    """Await a call to its end, whoever cancels us meanwhile; then be cancelled."""
    # A task of its own: one that declined to be cancelled would be deaf to a driver's timeouts too.
    task = asyncio.ensure_future(call)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen: the cancellation is what the caller hears about
        raise cancelled
    return task.result()


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """Turn an async iterator that never suspends into a plain one."""

    async def step() -> T:
        return await anext(source)

    while True:
        try:
            yield run(step())
        except StopAsyncIteration:
            return
