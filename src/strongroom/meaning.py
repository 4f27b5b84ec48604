"""What memories and sessions are searched by meaning with, as callers name it: in `strongroom.open(...)`, in
`strongroom.yaml`, in the environment of a server.

| option | what it is |
|---|---|
| `embedder` | a name (see `strongroom.embedders.named`), an `Embedder`, or a function from texts to vectors |
| `embedder_key` | the key of an embedding service |
| `qdrant_url`, `qdrant_collection` | an index that processes share; without one, each holds its own |

A name that stands for nothing is refused when the store is opened. Whether a service answers is not asked then: a
program must be able to write while it is away. `memories.health()` tells; a server asks before it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from strongroom.embedders import Embedder
from strongroom.embedders.named import named
from strongroom.errors import InvalidInput
from strongroom.vectors.qdrant import QdrantMemories
from strongroom.vectors.watched import WatchedVectors

OPTIONS = ("embedder", "embedder_key", "qdrant_url", "qdrant_collection")


class Meaning(Struct, frozen=True):
    """An embedder and an index; None for words alone, and for an index in this process."""

    embedder: Embedder | None = None
    index: WatchedVectors | None = None


def meaning(
    *,
    embedder: str | Embedder | Callable[..., Any] | None = None,
    embedder_key: str | None = None,
    qdrant_url: str | None = None,
    qdrant_collection: str | None = None,
) -> Meaning:
    """Return what these options stand for, or raise `InvalidInput`."""
    if not embedder:
        if qdrant_url or qdrant_collection or embedder_key:
            raise InvalidInput(
                "qdrant_url, qdrant_collection and embedder_key go with an embedder, and none is named; "
                "nothing was opened"
            )
        return Meaning()
    if isinstance(embedder, str):
        made = named(embedder, embedder_key or None)
    else:
        made = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
    if not qdrant_url:
        if qdrant_collection:
            raise InvalidInput("qdrant_collection goes with a qdrant_url, and none is named; nothing was opened")
        return Meaning(made)
    return Meaning(made, WatchedVectors(QdrantMemories(qdrant_url, collection=qdrant_collection or None)))


def split(options: dict[str, Any]) -> tuple[Meaning, dict[str, Any]]:
    """Return what options say of meaning, and the options of the store."""
    mine = {name: options[name] for name in OPTIONS if name in options}
    return meaning(**mine), {name: value for name, value in options.items() if name not in OPTIONS}
