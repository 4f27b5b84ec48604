"""The in-memory store keeps every promise, blocking and async."""

from __future__ import annotations

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.store import AsyncStore, Store
from strongroom.testing import Driven, StoreConformance


class TestMemory(StoreConformance):
    keeps_native = True

    def make_store(self) -> Store:
        return MemoryStore()


class TestMemoryAsync(TestMemory):
    def make_store(self) -> Store:
        return Driven(opened)


async def opened() -> AsyncStore:
    return OnLoop(MemoryStore())
