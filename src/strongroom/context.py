"""AsyncContext: everything an agent knows, behind one object."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

from strongroom.scope import Scope
from strongroom.services.files.files import AsyncFiles
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.threads.registry import AsyncRegistry
from strongroom.services.threads.threads import AsyncThreads
from strongroom.store import AsyncStore, Durability


class AsyncContext:
    """Everything in one space of one store. Use it as `async with strongroom.aopen(...) as ctx`."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.memories = AsyncMemories(scope)
        self.runs = AsyncRuns(scope, memories=self.memories)
        self.sessions = AsyncSessions(scope)
        self.threads = AsyncThreads(scope)
        self.registry = AsyncRegistry(scope)
        self.files = AsyncFiles(scope)

    @property
    def store(self) -> AsyncStore:
        return self.scope.store

    @property
    def space(self) -> str:
        return self.scope.space

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives here."""
        return self.store.durability

    async def close(self) -> None:
        """Finish what is under way and let go of the store."""
        await self.store.close()

    async def __aenter__(self) -> AsyncContext:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncContext({self.store!r}, space={self.space!r})"


class Opening(Coroutine[Any, Any, AsyncContext]):
    """A context that is about to be opened: await it, or enter it with `async with`, which closes it at the end."""

    def __init__(self, opened: Coroutine[Any, Any, AsyncContext]) -> None:
        self._opened = opened
        self._context: AsyncContext | None = None

    # A coroutine to asyncio too, so that `asyncio.run(aopen(...))` and tasks take it.
    def send(self, value: Any) -> Any:
        return self._opened.send(value)

    def throw(self, *error: Any) -> Any:
        return self._opened.throw(*error)

    def close(self) -> None:
        self._opened.close()

    def __await__(self) -> Generator[Any, Any, AsyncContext]:
        return self._opened.__await__()

    async def __aenter__(self) -> AsyncContext:
        self._context = await self._opened
        return self._context

    async def __aexit__(self, *_: object) -> None:
        assert self._context is not None
        await self._context.close()
