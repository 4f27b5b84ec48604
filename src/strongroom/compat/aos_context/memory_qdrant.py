"""QdrantMemoryStore: memories found by meaning, with their vectors in a Qdrant collection.

Qdrant holds vectors, which can be made again. The memories themselves are in a Strongroom store: that of `address`, by
default `STRONGROOM_URL`, or `strongroom.db` under `AOS_RUNS_ROOT`. A collection is a space of its own there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import strongroom
from strongroom.blocking import Context
from strongroom.blocking.memories import Memories
from strongroom.compat.aos_context import _places
from strongroom.compat.aos_context._views import everything
from strongroom.compat.aos_context.memory import POLICY, StoredMemory
from strongroom.embedders import Embedder
from strongroom.vectors.qdrant import QdrantMemories


class QdrantMemoryStore(StoredMemory):
    """Memories with vectors of `embedding_fn` in a collection of `client`."""

    def __init__(
        self,
        client: Any,
        collection_name: str,
        embedding_fn: Callable[[str], list[float]],
        *,
        address: str | os.PathLike[str] | None = None,
    ) -> None:
        where = os.fspath(address or os.environ.get("STRONGROOM_URL") or default_store())
        name = getattr(embedding_fn, "__qualname__", type(embedding_fn).__qualname__)
        self._embedder = Embedder(lambda texts: [embedding_fn(text) for text in texts], name=name)
        self._index = QdrantMemories(client=client, collection=collection_name)
        if "://" in where:
            ctx = strongroom.open(where, space=collection_name)
            super().__init__(lambda: nullcontext(ctx))
        else:
            place = _places.Place(Path(where).absolute(), collection_name)
            super().__init__(lambda: _places.using(place))

    def memories(self, ctx: Context) -> Memories:
        return ctx.memories.using(policy=POLICY, embedder=self._embedder, index=self._index)

    def get_all(self) -> list[dict[str, Any]]:
        """Return every memory item, whatever its status."""
        with self._using() as ctx:
            return [memory.to_dict() for memory in everything(ctx)]


def default_store() -> Path:
    return Path(os.environ.get("AOS_RUNS_ROOT", "./runs")) / _places.STORE
