"""What a server searches meaning with: one embedder and one index for all of its spaces, proven to work at its start.

Later outages cost no write, because vectors are made when somebody searches: a search by words and meaning goes by
words and says so in `degraded`, one by meaning alone answers 503. Whoever runs into one notes it for `/ready`.
"""

from __future__ import annotations

from msgspec import Struct

from strongroom.embedders import Embedder, Fingerprint, offload
from strongroom.embedders.named import named
from strongroom.errors import InvalidInput
from strongroom.server.settings import Settings
from strongroom.vectors.qdrant import QdrantMemories
from strongroom.vectors.watched import WatchedVectors


class Meaning(Struct, frozen=True):
    """An embedder, what it is, and an index; None for one in this process."""

    embedder: Embedder
    fingerprint: Fingerprint
    index: WatchedVectors | None = None

    def told(self) -> dict[str, str]:
        """Say what is in force, and since when it fails, as whoever used it last found. Why is not everybody's."""
        told = {"embedder": str(self.fingerprint), "index": "local" if self.index is None else self.index.kind}
        parts = {"embedder": self.embedder.health, "index": None if self.index is None else self.index.health}
        return told | {
            f"{part}_failing_since": health.failing.since.isoformat()
            for part, health in parts.items()
            if health is not None and health.failing is not None
        }


async def meaning_of(settings: Settings) -> Meaning | None:
    """Return what the settings ask for, or raise what says why it cannot be used."""
    if not settings.embedder:
        if settings.qdrant_url:
            raise InvalidInput("QDRANT_URL names an index, and there is no embedder: set STRONGROOM_EMBEDDER")
        return None
    embedder = named(settings.embedder, settings.embedder_key or None)
    fingerprint = await embedder.fingerprint(threads=True)
    index: WatchedVectors | None = None
    if settings.qdrant_url:
        index = WatchedVectors(QdrantMemories(settings.qdrant_url, collection=settings.qdrant_collection or None))
        await offload.call(True, index.open, settings.space, fingerprint)
    return Meaning(embedder, fingerprint, index)
