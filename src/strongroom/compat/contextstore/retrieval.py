"""Finding messages by meaning: the interface, an index in memory, and one function over both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from strongroom.compat.contextstore.embedding import EmbedFn, embedded, infer_embedding_dim, validate_vectors
from strongroom.embedders import Fingerprint, unit
from strongroom.vectors import Row
from strongroom.vectors.local import LocalVectors


@dataclass
class RetrievedItem:
    """A message that is near a query, and how near: its cosine."""

    message_id: str
    score: float
    metadata: dict[str, Any]


@runtime_checkable
class RetrievalBackend(Protocol):
    """An index of messages. One that also has `remove(session_id, message_id)` and `remove_session(session_id)` is told
    what was deleted."""

    async def add(
        self, session_id: str, message_id: str, vector: list[float], metadata: dict[str, Any] | None = None
    ) -> None: ...

    async def search(self, session_id: str, query_vector: list[float], k: int) -> list[RetrievedItem]: ...

    async def has_embedding(self, session_id: str, message_id: str) -> bool: ...


class InMemoryEmbeddingStore:
    """An index in this process's memory. The vectors of a session all have the dimension of its first."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    async def add(
        self, session_id: str, message_id: str, vector: list[float], metadata: dict[str, Any] | None = None
    ) -> None:
        """Add a message, or put it in the place of the one that has its id."""
        dimension = infer_embedding_dim([vector])
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = _Session(dimension)
        session.change(message_id, vector, dict(metadata or {}))

    async def remove(self, session_id: str, message_id: str) -> None:
        """Forget a message."""
        if session_id in self._sessions:
            self._sessions[session_id].change(message_id)

    async def remove_session(self, session_id: str) -> None:
        """Forget a session."""
        self._sessions.pop(session_id, None)

    async def has_embedding(self, session_id: str, message_id: str) -> bool:
        return session_id in self._sessions and message_id in self._sessions[session_id].metadata

    async def search(self, session_id: str, query_vector: list[float], k: int) -> list[RetrievedItem]:
        """Return the `k` nearest messages, best first. Nothing is near a vector without a direction."""
        session = self._sessions.get(session_id)
        if session is None or k <= 0 or not np.any(query_vector):
            return []
        return session.search(query_vector, k)


class _Session:
    """The vectors of one session, in an index of their own."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._index = LocalVectors()
        self._place = self._index.open("session", Fingerprint("contextstore", "", dimension))
        self.metadata: dict[str, dict[str, Any]] = {}

    def change(
        self, message_id: str, vector: list[float] | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        rows = []
        if vector is not None:
            validate_vectors([vector], self._dimension)
            rows = [Row(message_id, "session", unit(np.asarray([vector], np.float32))[0])]
            self.metadata[message_id] = metadata or {}
        else:
            self.metadata.pop(message_id, None)
        self._index.apply("session", self._place, self._place + 1, rows, [message_id])
        self._place += 1

    def search(self, vector: list[float], k: int) -> list[RetrievedItem]:
        validate_vectors([vector], self._dimension)
        query = unit(np.asarray([vector], np.float32))[0]
        found = self._index.search("session", query, k, ["session"])
        return [RetrievedItem(one, score, dict(self.metadata[one])) for one, score in found]


async def retrieve_relevant(
    session_id: str, query: str, embed_fn: EmbedFn, store: RetrievalBackend, k: int = 5
) -> list[RetrievedItem]:
    """Return the messages of a session that are nearest to a query, best first."""
    if k <= 0:
        return []
    [vector] = await embedded(embed_fn, [query])
    return await store.search(session_id, vector, k)
