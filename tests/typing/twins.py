"""What a type checker must understand of the blocking twins: the names, parameters and results of the async methods."""

from __future__ import annotations

from typing import Literal, assert_type, overload

from strongroom.bridge import blocking


class AsyncHandle:
    async def size(self) -> int:
        return 1


class AsyncThings:
    async def count(self, name: str, *, limit: int = 10) -> int:
        return limit

    @overload
    async def told(self, kind: Literal["size"], said: int) -> int: ...
    @overload
    async def told(self, kind: Literal["name"], said: str) -> str: ...
    async def told(self, kind: str, said: int | str) -> int | str:
        return said

    async def open(self, name: str) -> AsyncHandle:
        return AsyncHandle()

    async def open_all(self) -> list[AsyncHandle]:
        return [AsyncHandle()]


class Handle:
    def __init__(self, handle: AsyncHandle) -> None:
        self._async = handle

    size = blocking(AsyncHandle.size)


def _handles(found: list[AsyncHandle]) -> list[Handle]:
    return [Handle(handle) for handle in found]


class Things:
    def __init__(self) -> None:
        self._async = AsyncThings()

    count = blocking(AsyncThings.count)
    told = blocking(AsyncThings.told)
    open = blocking(AsyncThings.open, wrap=Handle)
    open_all = blocking(AsyncThings.open_all, wrap=_handles)


things = Things()
assert_type(things.count("a"), int)
assert_type(things.count("a", limit=3), int)
assert_type(things.count(name="a"), int)
assert_type(things.told("size", 3), int)
assert_type(things.told("name", "a"), str)
assert_type(things.open("a"), Handle)
assert_type(things.open("a").size(), int)
assert_type(things.open_all(), list[Handle])
