"""Memories: the blocking twin of AsyncMemories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strongroom.bridge import blocking
from strongroom.embedders import Embedder
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.policy import Policy
from strongroom.vectors import VectorIndex


class Memories:
    """What is known for longer than a run, in one space."""

    def __init__(self, memories: AsyncMemories) -> None:
        self._async = memories.inline()

    def using(
        self,
        *,
        policy: Policy | None = None,
        embedder: Embedder | Callable[..., Any] | None = None,
        index: VectorIndex | None = None,
    ) -> Memories:
        """Return the same memories under another policy, embedder or vector index. What is not given stays."""
        return Memories(self._async.using(policy=policy, embedder=embedder, index=index))

    def __repr__(self) -> str:
        return repr(self._async)

    add = blocking(AsyncMemories.add)
    update = blocking(AsyncMemories.update)
    delete = blocking(AsyncMemories.delete)
    propose = blocking(AsyncMemories.propose)
    batch = blocking(AsyncMemories.batch)
    pending = blocking(AsyncMemories.pending)
    commit = blocking(AsyncMemories.commit)
    batch_writes = blocking(AsyncMemories.batch_writes)
    reject = blocking(AsyncMemories.reject)
    search = blocking(AsyncMemories.search)
    get = blocking(AsyncMemories.get)
    list = blocking(AsyncMemories.list)
    history = blocking(AsyncMemories.history)
    at = blocking(AsyncMemories.at)
    revoke = blocking(AsyncMemories.revoke)
    would_revoke = blocking(AsyncMemories.would_revoke)
    revocation = blocking(AsyncMemories.revocation)
    erase = blocking(AsyncMemories.erase)
    sweep = blocking(AsyncMemories.sweep)
    index = blocking(AsyncMemories.index)
    reembed = blocking(AsyncMemories.reembed)
