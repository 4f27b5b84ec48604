"""Vectors in Qdrant (extra `qdrant`): for more memories than one process should hold, shared by all of them.

One collection serves any number of spaces and one embedder. Every point carries its space and owner, and every search
filters by both inside Qdrant. A space's place in its log is a point too, so losing the collection only means starting
over. Several processes may bring it up to date at once: the same change twice is the same change.
"""

from __future__ import annotations

import os
import threading
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from strongroom.embedders import Fingerprint
from strongroom.errors import InvalidInput, StrongroomError, Unavailable
from strongroom.vectors import Row, Vector

NAMES = uuid.UUID("5a4c2a1e-7a66-4c57-9a1b-0d2c6f3b8e11")
CHUNK = 256


class QdrantMemories:
    """A vector index in a Qdrant collection, by default the one `QDRANT_URL` and `QDRANT_COLLECTION` name.

    `url` may also be ":memory:" or a folder, which is qdrant-client's own small stand-in for a server.
    """

    kind = "qdrant"

    def __init__(
        self,
        url: str | None = None,
        *,
        collection: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 10.0,
        client: Any = None,
    ) -> None:
        address = url or os.environ.get("QDRANT_URL")
        if client is None and not address:
            raise InvalidInput("where is Qdrant? Give a url, or set QDRANT_URL")
        self.collection = collection or os.environ.get("QDRANT_COLLECTION") or "agent_memories"
        self._models = _package().models
        self._client = client or _connect(str(address), api_key, timeout_seconds)
        # The stand-in is plain Python objects without a lock of their own.
        remote = client is None and str(address).startswith(("http://", "https://"))
        self._turn: Any = nullcontext() if remote else threading.RLock()
        self._fingerprints: dict[str, Fingerprint] = {}

    def open(self, space: str, fingerprint: Fingerprint) -> int:
        with self._turn, self._reached():
            if not self._client.collection_exists(self.collection):
                self._create(fingerprint)
            self._check_size(fingerprint)
            found = self._client.retrieve(self.collection, ids=[_position_id(space)], with_payload=True)
        self._fingerprints[space] = fingerprint
        if not found:
            return 0
        theirs = msgspec.convert(found[0].payload["fingerprint"], Fingerprint)
        if theirs != fingerprint:
            raise self._mismatch(str(theirs), fingerprint)
        return int(found[0].payload["position"])

    def apply(self, space: str, start: int, stop: int, rows: Sequence[Row], removed: Sequence[str]) -> None:
        if not rows and not removed and start == stop:
            return
        with self._turn, self._reached():
            for begin in range(0, len(rows), CHUNK):
                points = [self._point(space, row) for row in rows[begin : begin + CHUNK]]
                self._client.upsert(self.collection, points=points, wait=True)
            for begin in range(0, len(removed), CHUNK):
                ids = [_id(space, id) for id in removed[begin : begin + CHUNK]]
                self._client.delete(self.collection, points_selector=self._models.PointIdsList(points=ids), wait=True)
            self._remember(space, stop)

    def search(self, space: str, vector: Vector, limit: int, owners: Sequence[str]) -> list[tuple[str, float]]:
        models = self._models
        visible = models.Filter(
            must=[
                models.FieldCondition(key="space", match=models.MatchValue(value=space)),
                models.FieldCondition(key="owner", match=models.MatchAny(any=list(owners))),
            ]
        )
        with self._turn, self._reached():
            answer = self._client.query_points(
                self.collection,
                query=vector.tolist(),
                query_filter=visible,
                limit=limit,
                with_payload=["memory_id"],
            )
        found = [(str(point.payload["memory_id"]), float(point.score)) for point in answer.points]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def rebuild(self, space: str, fingerprint: Fingerprint) -> None:
        models = self._models
        mine = models.Filter(must=[models.FieldCondition(key="space", match=models.MatchValue(value=space))])
        with self._turn, self._reached():
            if not self._client.collection_exists(self.collection):
                self._create(fingerprint)
            elif self._size() != fingerprint.dimension:
                others = self._client.count(self.collection, count_filter=models.Filter(must_not=mine.must), exact=True)
                if others.count:
                    raise InvalidInput(
                        f"collection {self.collection!r} also serves other spaces with vectors of {self._size()} "
                        f"dimensions; give this space a collection of its own for {fingerprint}"
                    )
                self._client.delete_collection(self.collection)
                self._create(fingerprint)
            else:
                selector = models.FilterSelector(filter=mine)
                self._client.delete(self.collection, points_selector=selector, wait=True)

    # ---- the collection ---------------------------------------------------------------------------------------------

    def _create(self, fingerprint: Fingerprint) -> None:
        models = self._models
        size = models.VectorParams(size=fingerprint.dimension, distance=models.Distance.COSINE)
        try:
            self._client.create_collection(self.collection, vectors_config=size)
        except Exception:
            # Another process may have been first; if it was not, the caller's next look will say so.
            if not self._client.collection_exists(self.collection):
                raise
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the stand-in has no payload indexes and says so
            for field in ("space", "owner"):
                self._client.create_payload_index(self.collection, field, models.PayloadSchemaType.KEYWORD)

    def _size(self) -> int:
        return int(self._client.get_collection(self.collection).config.params.vectors.size)

    def _check_size(self, fingerprint: Fingerprint) -> None:
        size = self._size()
        if size != fingerprint.dimension:
            raise self._mismatch(f"vectors of {size} dimensions", fingerprint)

    def _mismatch(self, theirs: str, ours: Fingerprint) -> InvalidInput:
        return InvalidInput(
            f"Qdrant collection {self.collection!r} holds {theirs}, and this embedder is {ours}; "
            "use another collection, or make the vectors anew with memories.reembed(embedder)"
        )

    # ---- points -----------------------------------------------------------------------------------------------------

    def _point(self, space: str, row: Row) -> Any:
        payload = {"space": space, "owner": row.owner, "memory_id": row.id}
        return self._models.PointStruct(id=_id(space, row.id), vector=row.vector.tolist(), payload=payload)

    def _remember(self, space: str, position: int) -> None:
        fingerprint = self._fingerprints[space]
        # A point needs a vector. Having no owner, this one is outside of every search.
        vector = [1.0] + [0.0] * (fingerprint.dimension - 1)
        payload = {"space": space, "position": position, "fingerprint": msgspec.to_builtins(fingerprint)}
        point = self._models.PointStruct(id=_position_id(space), vector=vector, payload=payload)
        self._client.upsert(self.collection, points=[point], wait=True)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn whatever the client raises into `Unavailable`: the index is derived, so nothing is lost without it."""
        try:
            yield
        except StrongroomError:
            raise
        except Exception as problem:
            said = str(problem) or type(problem).__name__
            raise Unavailable(f"Qdrant cannot be used now: {said:.300}", reason="unreachable") from problem


def _package() -> Any:
    try:
        import qdrant_client
    except ImportError:
        raise Unavailable(
            "qdrant-client is not installed; pip install 'strongroom[qdrant]'", reason="missing"
        ) from None
    return qdrant_client


def _connect(address: str, api_key: str | None, timeout_seconds: float) -> Any:
    client = _package().QdrantClient
    if address == ":memory:":
        return client(location=address)
    if not address.startswith(("http://", "https://")):
        return client(path=address)
    return client(url=address, api_key=api_key, timeout=int(timeout_seconds) or 1, check_compatibility=False)


def _id(space: str, memory_id: str) -> str:
    return str(uuid.uuid5(NAMES, f"{len(space)}:{space}{memory_id}"))


def _position_id(space: str) -> str:
    return str(uuid.uuid5(NAMES, f"{len(space)}:{space}\nposition"))
