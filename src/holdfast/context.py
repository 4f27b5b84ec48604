"""AsyncContext: everything an agent knows, behind one object."""

from __future__ import annotations

from holdfast.scope import Scope
from holdfast.services.memories.memories import AsyncMemories
from holdfast.services.runs.runs import AsyncRuns
from holdfast.services.sessions.sessions import AsyncSessions
from holdfast.services.threads.registry import AsyncRegistry
from holdfast.services.threads.threads import AsyncThreads
from holdfast.store import AsyncStore, Durability


class AsyncContext:
    """Everything in one space of one store. Use it as `async with await holdfast.aopen(...)`."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.memories = AsyncMemories(scope)
        self.runs = AsyncRuns(scope, memories=self.memories)
        self.sessions = AsyncSessions(scope)
        self.threads = AsyncThreads(scope)
        self.registry = AsyncRegistry(scope)

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
