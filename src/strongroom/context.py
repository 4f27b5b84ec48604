"""AsyncContext: everything an agent knows, behind one object."""

from __future__ import annotations

from strongroom.scope import Scope
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.threads.registry import AsyncRegistry
from strongroom.services.threads.threads import AsyncThreads
from strongroom.store import AsyncStore, Durability


class AsyncContext:
    """Everything in one space of one store. Use it as `async with await strongroom.aopen(...)`."""

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
