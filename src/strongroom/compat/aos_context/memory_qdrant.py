"""QdrantMemoryStore: memories found by meaning, with their vectors in a Qdrant collection.

Qdrant holds vectors, which can be made again. The memories themselves are in a Strongroom store: that of `address`, by
default `STRONGROOM_URL`, or `strongroom.db` under `AOS_RUNS_ROOT`. A collection is a space of its own there. A batch is
committed there first and indexed then; if Qdrant cannot be reached, that is logged, and the next search indexes it.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import strongroom
from strongroom.blocking import Context
from strongroom.blocking.memories import Memories
from strongroom.compat.aos_context import _locations
from strongroom.compat.aos_context._items import as_item
from strongroom.compat.aos_context._views import everything
from strongroom.compat.aos_context.environment import STORE, qdrant, runs_root
from strongroom.compat.aos_context.memory import POLICY, CommitResult, StoredMemory
from strongroom.embedders import Embedder
from strongroom.errors import StrongroomError
from strongroom.stemming import words
from strongroom.vectors.qdrant import QdrantMemories

log = logging.getLogger(__name__)
DIMENSION = 384


class IndexedMemory(StoredMemory):
    """Memories with vectors in a Qdrant collection."""

    def __init__(
        self, using: Callable[[], AbstractContextManager[Context]], embedder: Embedder, index: QdrantMemories
    ) -> None:
        super().__init__(using)
        self._embedder = embedder
        self._index = index

    def memories(self, ctx: Context) -> Memories:
        return ctx.memories.using(policy=POLICY, embedder=self._embedder, index=self._index)

    def commit(self, batch_id: str, *, run_id: str | None = None) -> CommitResult:
        """Make a whole batch known, once, and index it."""
        result = super().commit(batch_id, run_id=run_id)
        if result.ok:
            try:
                self.start()
            except StrongroomError as problem:
                log.error("batch %s is committed and not indexed yet: %s", batch_id, problem)
        return result

    def start(self) -> None:
        """Make the collection if need be, and index what is not in it yet; raise if Qdrant cannot be used."""
        with self.using() as ctx:
            self.memories(ctx).index()

    def get_all(self) -> list[dict[str, Any]]:
        """Return every memory item that is active."""
        with self.using() as ctx:
            return [as_item(memory) for memory in everything(ctx) if memory.status == "active"]


class QdrantMemoryStore(IndexedMemory):
    """Memories with vectors of `embedding_fn` in a collection of `client`."""

    def __init__(
        self,
        client: Any,
        collection_name: str,
        embedding_fn: Callable[[str], list[float]],
        *,
        address: str | os.PathLike[str] | None = None,
    ) -> None:
        self.client, self.collection_name, self.embedding_fn = client, collection_name, embedding_fn
        where = os.fspath(address or os.environ.get("STRONGROOM_URL") or default_store())
        name = getattr(embedding_fn, "__qualname__", type(embedding_fn).__qualname__)
        embedder = Embedder(lambda texts: [embedding_fn(text) for text in texts], name=name)
        index = QdrantMemories(client=client, collection=collection_name)
        if "://" in where:
            ctx = strongroom.open(where, space=collection_name)
            super().__init__(lambda: nullcontext(ctx), embedder, index)
        else:
            location = _locations.Location(Path(where).absolute(), collection_name)
            super().__init__(lambda: _locations.using(location), embedder, index)


def default_store() -> Path:
    return (runs_root() or Path("./runs")) / STORE


def memory_of_server(using: Callable[[], AbstractContextManager[Context]]) -> StoredMemory:
    """Return the memories of a server: with vectors in Qdrant if `QDRANT_URL` names one."""
    named = qdrant()
    if named is None:
        return StoredMemory(using)
    url, collection = named
    log.warning("memories are indexed in Qdrant by the words they hold; for meaning, use a real embedding function")
    return IndexedMemory(using, Embedder(hashed_words, name="hashed-words"), QdrantMemories(url, collection=collection))


def hashed_words(texts: list[str]) -> list[list[float]]:
    """Stand in for an embedding function: texts are near each other that have words in common. No model is needed."""
    vectors = []
    for text in texts:
        vector = [0.0] * DIMENSION
        for word in words(text) or ["(nothing)"]:
            vector[zlib.crc32(word.encode()) % DIMENSION] += 1.0
        vectors.append(vector)
    return vectors
