"""What a server searches meaning with: one embedder and one index for all of its spaces, proven to work at its start.

Later outages cost no write, because vectors are made when somebody searches: a search by words and meaning goes by
words and says so in `degraded`, one by meaning alone answers 503.
"""

from __future__ import annotations

from msgspec import Struct

from strongroom.embedders import Embedder, Fingerprint, offload
from strongroom.embedders.named import named
from strongroom.errors import InvalidInput
from strongroom.server.settings import Settings
from strongroom.vectors import VectorIndex
from strongroom.vectors.qdrant import QdrantMemories


class Meaning(Struct, frozen=True):
    """An embedder, what it is, and an index; None for one in this process."""

    embedder: Embedder
    fingerprint: Fingerprint
    index: VectorIndex | None = None

    def told(self) -> dict[str, str]:
        return {"embedder": str(self.fingerprint), "index": "local" if self.index is None else "qdrant"}


async def meaning_of(settings: Settings) -> Meaning | None:
    """Return what the settings ask for, or raise what says why it cannot be used."""
    if not settings.embedder:
        if settings.qdrant_url:
            raise InvalidInput("QDRANT_URL names an index, and there is no embedder: set STRONGROOM_EMBEDDER")
        return None
    embedder = named(settings.embedder, settings.embedder_key or None)
    fingerprint = await embedder.fingerprint(threads=True)
    index: VectorIndex | None = None
    if settings.qdrant_url:
        index = QdrantMemories(settings.qdrant_url, collection=settings.qdrant_collection or None)
        await offload.call(True, index.open, settings.space, fingerprint)
    return Meaning(embedder, fingerprint, index)
