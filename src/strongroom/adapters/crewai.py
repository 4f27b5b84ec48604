"""CrewAI on Strongroom: `StrongroomStorage` keeps what its `Memory` remembers.

| kind | shape | holds |
|---|---|---|
| `crewai_memory` | document for each record | the record as CrewAI dumps it, and its vector; its scopes are tags |
| `crewai_dimension` | one document | how long the vectors are; whoever saves expects what was read |

A call is written once, for blocking and async code. CrewAI saves from a pool of threads: each save is one commit, and
needs no lock. Vectors are compared one by one, within the scope that is asked for.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from strongroom.adapters.extras import without
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import digest

try:
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ModuleNotFoundError as missing:
    raise without(missing, "crewai") from None

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.bridge import run
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.store import Commit, Delete, Document, Expect, Get, Key, Put, Scan, Write, new_id

KIND = layouts.CREW_MEMORY
DIMENSION = layouts.CREW_DIMENSION
CODEC = "crewai.MemoryRecord/1"
DEEPEST = 16  # parts of a scope that an index knows; those below are compared
PAGE = 500

Kept = Callable[[MemoryRecord], bool]


class StrongroomStorage(Closing):
    """Keep memory in a Strongroom store: `Memory(storage=StrongroomStorage("agent.db"))`, from any thread and loop.

    `where` is a context of `strongroom.open` or `strongroom.connect`, or an address.
    """

    def __init__(self, where: Where, **options: Any) -> None:
        self.opened = Opened(where, options)

    @property
    def _calls(self) -> Calls:
        return Calls(self.opened.blocking)

    @property
    def _async_calls(self) -> Calls:
        return Calls(self.opened.awaitable)

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records, all of them or none; one of an id that is there replaces it."""
        run(self._calls.save(records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        await self._async_calls.save(records)

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records whose vectors point where the query's does, the best first: 1 is the same direction."""
        kept = fits(categories, metadata_filter)
        return run(self._calls.search(query_embedding, scope_prefix, kept, limit, min_score))

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        kept = fits(categories, metadata_filter)
        return await self._async_calls.search(query_embedding, scope_prefix, kept, limit, min_score)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Remove the records that meet every criterion, for good, and return how many went."""
        return run(self._calls.delete(scope_prefix, fits(categories, metadata_filter, record_ids, older_than)))

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        kept = fits(categories, metadata_filter, record_ids, older_than)
        return await self._async_calls.delete(scope_prefix, kept)

    def update(self, record: MemoryRecord) -> None:
        """Replace the record of the same id."""
        run(self._calls.save([record]))

    def touch_records(self, record_ids: list[str]) -> None:
        """Note that records were read now."""
        run(self._calls.touch(record_ids))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        return run(self._calls.get(record_id))

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return records of a scope, the newest first."""
        if limit <= 0 or offset < 0:
            return []
        found = run(self._calls.all(scope_prefix))
        return sorted(found, key=lambda one: moment(one.created_at), reverse=True)[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        path = normal(scope)
        found = run(self._calls.all(path))
        times = sorted((one.created_at for one in found), key=moment)
        return ScopeInfo(
            path=path,
            record_count=len(found),
            categories=sorted({name for one in found for name in one.categories}),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=children(path, found),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        return children(normal(parent), run(self._calls.all(parent)))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        counts: dict[str, int] = {}
        for one in run(self._calls.all(scope_prefix)):
            for name in one.categories:
                counts[name] = counts.get(name, 0) + 1
        return counts

    def count(self, scope_prefix: str | None = None) -> int:
        return len(run(self._calls.all(scope_prefix)))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Remove all records of a scope; without one, also how long vectors are."""
        run(self._calls.reset(scope_prefix))


class Calls:
    """What the storage does, written once."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._dimension = scope.key(DIMENSION, "vectors")

    def _key(self, record_id: str) -> Key:
        return self._scope.key(KIND, digest(record_id))

    async def save(self, records: Sequence[MemoryRecord]) -> None:
        lengths = [len(one.embedding) for one in records if one.embedding]
        for length in lengths:
            if length != lengths[0]:
                raise EmbeddingDimensionMismatchError(lengths[0], length)
        puts: dict[Key, Write] = {self._key(one.id): stored(self._key(one.id), one) for one in records}
        for _ in attempts("the dimension of vectors"):
            known = await self._scope.get(Get(self._dimension))
            expects, writes = list[Expect](), list(puts.values())
            if lengths:
                if known is not None and known.value.load() != lengths[0]:
                    raise EmbeddingDimensionMismatchError(known.value.load(), lengths[0])
                expects.append(Expect(self._dimension, 0 if known is None else known.version))
                if known is None:
                    writes.append(Put(self._dimension, encode(lengths[0])))
            if not writes:
                return
            try:
                await self._scope.store.commit(Commit(new_id(), tuple(expects), tuple(writes)))
            except Conflict:
                continue
            return

    async def get(self, record_id: str) -> MemoryRecord | None:
        document = await self._scope.get(Get(self._key(record_id)))
        return None if document is None else record_of(document)

    async def all(self, scope_prefix: str | None) -> list[MemoryRecord]:
        return [record_of(one) for one in await self._documents(scope_prefix)]

    async def search(
        self, query: Sequence[float], scope_prefix: str | None, kept: Kept, limit: int, min_score: float
    ) -> list[tuple[MemoryRecord, float]]:
        known = await self._scope.get(Get(self._dimension))
        if known is not None and known.value.load() != len(query):
            raise EmbeddingDimensionMismatchError(known.value.load(), len(query))
        documents = await self._documents(scope_prefix)
        scores = similarities(np.asarray(query, dtype=np.float32), [vector_of(one) for one in documents])
        found = list[tuple[MemoryRecord, float]]()
        for place in np.argsort(-scores, kind="stable"):
            score = float(scores[place])
            if len(found) >= limit or score < min_score:
                break
            record = record_of(documents[place])
            if kept(record):
                found.append((record, score))
        return found

    async def delete(self, scope_prefix: str | None, wanted: Kept) -> int:
        gone = 0
        for _ in attempts("records that are deleted"):
            found = [one for one in await self._documents(scope_prefix) if wanted(record_of(one))]
            try:
                for start in range(0, len(found), PAGE):
                    some = found[start : start + PAGE]
                    expects = tuple(Expect(one.key, one.version) for one in some)
                    await self._scope.store.commit(Commit(new_id(), expects, tuple(Delete(one.key) for one in some)))
                    gone += len(some)
            except Conflict:
                continue  # somebody else was first with one of them
            return gone
        raise AssertionError("attempts() raises when it is enough")

    async def touch(self, record_ids: Sequence[str]) -> None:
        for _ in attempts("records that are read"):
            found = [one for one in await self._scope.get_all([Get(self._key(id)) for id in record_ids]) if one]
            now = datetime.now(UTC).replace(tzinfo=None)  # as CrewAI tells times
            puts = [stored(one.key, record_of(one).model_copy(update={"last_accessed": now})) for one in found]
            if not puts:
                return
            expects = tuple(Expect(one.key, one.version) for one in found)
            try:
                await self._scope.store.commit(Commit(new_id(), expects, tuple(puts)))
            except Conflict:
                continue
            return

    async def reset(self, scope_prefix: str | None) -> None:
        await self.delete(scope_prefix, lambda record: True)
        if normal(scope_prefix) == "/":
            await self._scope.store.commit(Commit(new_id(), (), (Delete(self._dimension),)))

    async def _documents(self, scope_prefix: str | None) -> list[Document]:
        """Return what is stored in a scope and below it."""
        path = normal(scope_prefix)
        parts = path.split("/")[1:] if path != "/" else []
        tags = {str(len(parts)): digest(path)} if 0 < len(parts) <= DEEPEST else {}
        scan = Scan(self._scope.space, KIND, tags, limit=PAGE)
        found = [one async for page in self._scope.pages(scan) for one in page]
        return found if tags or not parts else [one for one in found if is_inside(record_of(one).scope, path)]


def stored(key: Key, record: MemoryRecord) -> Put:
    """Return what stores a record. Vectors are numbers of 32 bits, as those of embedders are.

    `TypeError` for metadata that JSON would not bring back, as by CrewAI's own storage.
    """
    json.dumps(record.metadata)
    vector = None if not record.embedding else b64encode(np.asarray(record.embedding, dtype="<f4").tobytes()).decode()
    value = {"codec": CODEC, "json": record.model_dump_json(), "vector": vector}
    parts = normal(record.scope).split("/")[1:]
    tags = {str(depth): digest("/" + "/".join(parts[:depth])) for depth in range(1, min(len(parts), DEEPEST) + 1)}
    return Put(key, encode(value), tags, record.content.replace("\0", "") or None)


def record_of(document: Document) -> MemoryRecord:
    record = MemoryRecord.model_validate_json(document.value.load()["json"])
    vector = vector_of(document)
    record.embedding = None if vector is None else vector.tolist()
    return record


def vector_of(document: Document) -> Any:
    encoded = document.value.load()["vector"]
    return None if encoded is None else np.frombuffer(b64decode(encoded), dtype="<f4")


def similarities(query: Any, vectors: Sequence[Any]) -> Any:
    """Return the cosine of each vector with the query, not below 0; 0 where there is none."""
    scores = np.zeros(len(vectors), dtype=np.float32)
    places = [place for place, one in enumerate(vectors) if one is not None]
    if places:
        many = np.stack([vectors[place] for place in places])
        lengths = np.linalg.norm(many, axis=1) * np.linalg.norm(query)
        scores[places] = np.clip((many @ query) / np.where(lengths > 0, lengths, 1), 0, 1)
    return scores


def normal(scope: str | None) -> str:
    return "/" + (scope or "").strip("/")


def is_inside(scope: str, path: str) -> bool:
    return f"{normal(scope)}/".startswith(f"{path}/")


def children(path: str, records: Sequence[MemoryRecord]) -> list[str]:
    """Return the scopes just below one."""
    start = path.rstrip("/") + "/"
    below = [normal(one.scope).removeprefix(start) for one in records if normal(one.scope).startswith(start)]
    return sorted({start + rest.split("/")[0] for rest in below if rest})


def fits(
    categories: Sequence[str] | None,
    metadata: dict[str, Any] | None,
    ids: Sequence[str] | None = None,
    older_than: datetime | None = None,
) -> Kept:
    """Return whether a record meets every criterion that there is."""

    def kept(record: MemoryRecord) -> bool:
        return (
            (not categories or not set(categories).isdisjoint(record.categories))
            and all(record.metadata.get(name) == value for name, value in (metadata or {}).items())
            and (ids is None or record.id in ids)
            and (older_than is None or moment(record.created_at) < moment(older_than))
        )

    return kept


def moment(time: datetime) -> datetime:
    """Return a time that can be compared: CrewAI's own are of UTC and do not say so."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
