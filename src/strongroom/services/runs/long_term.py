"""What runs need of long-term memory. The memories service offers it; runs do not know how it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from strongroom.store import Expect, Write


class MemoryWrites(Protocol):
    """What to join to a commit so that memories are made with it."""

    @property
    def expects(self) -> tuple[Expect, ...]: ...
    @property
    def writes(self) -> tuple[Write, ...]: ...
    @property
    def memory_ids(self) -> tuple[str, ...]: ...


class LongTerm(Protocol):
    """Memory that outlives a run."""

    def inline(self) -> LongTerm:
        """Return the same for code without an event loop."""
        ...

    async def batch_writes(self, batch_id: str, *, reviewer: str, run_id: str | None = None) -> MemoryWrites:
        """Say what commits a batch; write nothing."""
        ...

    async def search(self, query: str, k: int = 8, *, user_id: str | None, project_id: str | None) -> Sequence[Any]:
        """Return hits, best first; each has a `memory` with `id`, `content` and `confidence`."""
        ...


@runtime_checkable
class Packable(Protocol):
    """Long-term memory that can travel in a resume pack."""

    async def pack_items(self, memory_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return memories as plain JSON."""
        ...

    async def unpack_writes(self, items: Sequence[Mapping[str, Any]]) -> MemoryWrites:
        """Say what brings memories from a pack back, leaving those already known alone; write nothing."""
        ...
