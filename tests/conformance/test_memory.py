"""The in-memory store keeps every promise, in both colours."""

from __future__ import annotations

from holdfast.backends.memory import MemoryStore
from holdfast.bridge import OnLoop
from holdfast.store import AsyncStore, Store
from holdfast.testing import Driven, StoreConformance


class TestMemory(StoreConformance):
    keeps_native = True

    def make_store(self) -> Store:
        return MemoryStore()


class TestMemoryAsync(TestMemory):
    def make_store(self) -> Store:
        return Driven(opened)


async def opened() -> AsyncStore:
    return OnLoop(MemoryStore())
