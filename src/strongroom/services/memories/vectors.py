"""Keeping vectors in step with the memories they were made from.

Each vector is a document named by the hash of its embedder's fingerprint and its text: a cache shared by every process
that nothing has to invalidate. One document says which embedder the space uses. An index is built from those by
following the log, so any index can be lost and made again.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence

from strongroom.codec import encode, pack
from strongroom.embedders import Embedder, Fingerprint, offload
from strongroom.errors import Conflict, InvalidInput
from strongroom.scope import Scope
from strongroom.services.memories import keys, screening
from strongroom.services.memories.values import Memory
from strongroom.services.memories.writes import load
from strongroom.store import Commit, Delete, Expect, Get, Key, Put, Range, Scan, Write, new_id
from strongroom.vectors import Row, Vector, VectorIndex

EMBEDDING = "embedding"
INDEX = "memory_index"
CHUNK = 256


class Vectors:
    """The vectors of one space: an embedder, an index, and the way between them and the store."""

    def __init__(self, scope: Scope, embedder: Embedder | None, index: VectorIndex | None, threads: bool) -> None:
        self._scope = scope
        self.embedder = embedder
        self.index = index if index is not None or embedder is None else _local()
        self.threads = threads

    async def catch_up(self) -> int:
        """Bring the index up to date with the log. Return how many log entries it took in."""
        fingerprint = await self._agreed()
        space = self._scope.space
        started = position = await offload.call(self.threads, self._found().open, space, fingerprint)
        while True:
            [log] = await self._scope.store.read([Range(keys.log_key(space), position, limit=CHUNK)])
            if not log.records:
                return position - started
            added: dict[str, None] = {}
            removed: dict[str, None] = {}
            for record in log.records:
                body = record.body.load()
                removed |= dict.fromkeys(body["removed"])
                added |= dict.fromkeys(body["added"])
            rows = await self._rows([id for id in added if id not in removed], fingerprint)
            stop = log.records[-1].index + 1
            await offload.call(self.threads, self._found().apply, space, position, stop, rows, list(removed))
            position = stop

    async def embed_query(self, query: str) -> Vector:
        matrix = await self._required().embed([query], threads=self.threads, purpose="query")
        vector: Vector = matrix[0]
        return vector

    async def nearest(self, vector: Vector, limit: int, owners: Sequence[str]) -> list[tuple[str, float]]:
        """Return the nearest memories. Scores are rounded, so that equal texts tie whatever computed them."""
        found = await offload.call(self.threads, self._found().search, self._scope.space, vector, limit, owners)
        return sorted(((id, round(score, 6)) for id, score in found), key=lambda pair: (-pair[1], pair[0]))

    async def reembed(self, embedder: Embedder, progress: Callable[[int, int], object] | None) -> int:
        """Embed every active memory with another embedder, then switch to it."""
        fingerprint = await embedder.fingerprint(threads=self.threads)
        texts = await self._active_texts()
        made = 0
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            made += await self._store_missing(part, embedder, fingerprint)
            if progress is not None:
                progress(start + len(part), len(texts))
        await self._switch(fingerprint)
        self.index = self.index or _local()
        self.embedder = embedder
        await offload.call(self.threads, self._found().rebuild, self._scope.space, fingerprint)
        await self._drop_others(fingerprint)
        return made

    def _found(self) -> VectorIndex:
        assert self.index is not None, "who has an embedder has an index"
        return self.index

    # ---- which embedder ---------------------------------------------------------------------------------------------

    async def _agreed(self) -> Fingerprint:
        """Return our embedder's fingerprint, having made sure that the space's vectors are its own."""
        ours = await self._required().fingerprint(threads=self.threads)
        key = self._scope.key(INDEX, "embedder")
        [found] = await self._scope.store.read([Get(key)])
        if found is None:
            try:
                await self._scope.store.commit(Commit(new_id(), (Expect(key, 0),), (Put(key, pack(ours)),)))
            except Conflict:
                return await self._agreed()
            return ours
        theirs = load(found, Fingerprint)
        if theirs != ours:
            raise InvalidInput(
                f"the vectors of space {self._scope.space!r} were made by {theirs}, not by {ours}; "
                "use that embedder, or make them anew with memories.reembed(embedder)"
            )
        return ours

    async def _switch(self, fingerprint: Fingerprint) -> None:
        key = self._scope.key(INDEX, "embedder")
        await self._scope.store.commit(Commit(new_id(), (), (Put(key, pack(fingerprint)),)))

    def _required(self) -> Embedder:
        if self.embedder is None:
            raise InvalidInput("there is no embedder: memories.using(embedder=...)")
        return self.embedder

    # ---- vectors as documents ---------------------------------------------------------------------------------------

    async def _rows(self, ids: Sequence[str], fingerprint: Fingerprint) -> list[Row]:
        """Return the rows of those ids that are active, embedding what is not stored yet."""
        rows: list[Row] = []
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            documents = await self._scope.store.read([Get(self._scope.key(keys.MEMORY, id)) for id in part])
            memories = [load(document, Memory) for document in documents if document is not None]
            active = [memory for memory in memories if memory.status == "active"]
            vectors = await self._vectors([_text(memory) for memory in active], fingerprint)
            rows += [
                Row(memory.id, keys.owner(memory.user_id, memory.project_id), vector)
                for memory, vector in zip(active, vectors, strict=True)
            ]
        return rows

    async def _vectors(self, texts: Sequence[str], fingerprint: Fingerprint) -> list[Vector]:
        wanted = [self._key(text, fingerprint) for text in texts]
        while True:
            found = await self._scope.store.read([Get(key) for key in wanted]) if wanted else []
            missing = [text for text, document in zip(texts, found, strict=True) if document is None]
            if not missing:
                return [_decode(document.value.load()["vector"]) for document in found]
            await self._store_missing(missing, self._required(), fingerprint)

    async def _store_missing(self, texts: Sequence[str], embedder: Embedder, fingerprint: Fingerprint) -> int:
        """Embed the texts whose vectors are not stored, and store them. Return how many there were."""
        by_key = {self._key(text, fingerprint): text for text in texts}
        found = await self._scope.store.read([Get(key) for key in by_key])
        missing = {key: text for (key, text), document in zip(by_key.items(), found, strict=True) if document is None}
        if missing:
            matrix = await embedder.embed(list(missing.values()), threads=self.threads)
            tags = {"fingerprint": _mark(fingerprint)}
            writes: list[Write] = [
                Put(key, encode({"vector": b64encode(vector.tobytes()).decode()}), tags)
                for key, vector in zip(missing, matrix.astype("<f4"), strict=True)
            ]
            await self._scope.store.commit(Commit(new_id(), (), tuple(writes)))
        return len(missing)

    def _key(self, text: str, fingerprint: Fingerprint) -> Key:
        return self._scope.key(EMBEDDING, keys.digest(_mark(fingerprint), text))

    async def _active_texts(self) -> list[str]:
        texts: dict[str, None] = {}
        after = None
        while True:
            scan = Scan(self._scope.space, keys.MEMORY, {"status": "active"}, after, CHUNK)
            [page] = await self._scope.store.read([scan])
            texts |= dict.fromkeys(_text(load(document, Memory)) for document in page.documents)
            if page.next is None:
                return list(texts)
            after = page.next

    async def _drop_others(self, fingerprint: Fingerprint) -> None:
        """Delete the vectors of earlier embedders, a page at a time."""
        after = None
        while True:
            [page] = await self._scope.store.read([Scan(self._scope.space, EMBEDDING, {}, after, CHUNK)])
            old = [doc.key for doc in page.documents if doc.tags.get("fingerprint") != _mark(fingerprint)]
            if old:
                await self._scope.store.commit(Commit(new_id(), (), tuple(Delete(key) for key in old)))
            if page.next is None:
                return
            after = page.next


def _text(memory: Memory) -> str:
    return screening.plain(memory.content)


def _mark(fingerprint: Fingerprint) -> str:
    return keys.digest(fingerprint.name, fingerprint.revision, str(fingerprint.dimension))[:32]


def _local() -> VectorIndex:
    from strongroom.vectors.local import LocalVectors

    return LocalVectors()


def _decode(raw: str) -> Vector:
    import numpy as np

    return np.frombuffer(b64decode(raw), dtype="<f4").astype(np.float32)
