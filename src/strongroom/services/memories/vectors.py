"""Keeping vectors in step with the memories they were made from.

Each vector is a document named by the hash of its embedder's fingerprint and its text: a cache shared by every process
that nothing has to invalidate. One document says which embedder the space uses. An index is built from those by
following the log, so any index can be lost and made again.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Struct

from strongroom.codec import Json, encode, pack
from strongroom.embedders import Embedder, Fingerprint, offload
from strongroom.errors import Damaged, InvalidInput, StrongroomError, Unavailable
from strongroom.operations import Operation, Plan, made_here, nothing, partly, perform, step
from strongroom.scope import Scope, Telling
from strongroom.services.memories import keys, screening
from strongroom.services.memories.keys import load, sound
from strongroom.services.memories.values import Memory, SearchHealth
from strongroom.store import Delete, Document, Expect, Get, Key, Put, Range, Receipt, Record, Scan, Write
from strongroom.vectors import Row, Vector, VectorIndex
from strongroom.vectors.watched import WatchedVectors

EMBEDDING = "embedding"
INDEX = "memory_index"
USED = "used"
MARK = "fingerprint"  # the tag of a vector that says who made it
CHUNK = 256


class Used(Struct, frozen=True):
    """Whose vectors a space may hold: of the embedder in charge, of earlier ones, of one that is to be in charge."""

    fingerprints: tuple[Fingerprint, ...] = ()


class Vectors:
    """The vectors of one space: an embedder, an index, and the way between them and the store."""

    def __init__(self, scope: Scope, embedder: Embedder | None, index: VectorIndex | None) -> None:
        self._scope = scope
        self.embedder = embedder
        chosen = index if index is not None or embedder is None else _local()
        self.index = None if chosen is None else WatchedVectors.of(chosen)
        self.threads = scope.threads
        self._unread: dict[str, None] = {}  # memories that the index went on without

    async def catch_up(self, damaged: Telling = None) -> int:
        """Bring the index up to date with the log. Return how many log entries it took in.

        With `damaged` the index goes on without what cannot be read; once it can be, `reembed` brings it in.
        """
        if damaged is not None and self._unread:
            await self._scope.get_known([self._scope.key(keys.MEMORY, id) for id in self._unread], damaged)
        fingerprint = await self._agreed()
        space = self._scope.space
        started = position = await offload.call(self.threads, self._found().open, space, fingerprint)
        while True:
            log = await self._scope.some(Range(keys.log_key(space), position, limit=CHUNK))
            if not log.records:
                return position - started
            for stop, added, removed in _steps(log.records):
                rows = await self._rows([id for id in added if id not in removed], fingerprint, damaged)
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

    async def reembed(
        self, embedder: Embedder, progress: Callable[[int, int], object] | None, commit_id: str | None
    ) -> int:
        """Embed every active memory with another embedder, then switch to it."""
        fingerprint, made = await embedder.fingerprint(threads=self.threads), 0

        async def embedded() -> int:
            nonlocal made
            texts = await self._active_texts()
            done = 0

            async def some(part: Sequence[tuple[str, str]]) -> tuple[int, int]:
                return await self._store_missing(dict(part), embedder, fingerprint), len(part)

            async for new, count in self._scope.parts([*texts.items()], CHUNK, some):
                made, done = made + new, done + count
                if progress is not None:
                    progress(done, len(texts))
            return made

        answer = await self.switch(fingerprint, embedded, commit_id)
        if await self._in_charge(fingerprint) == fingerprint:  # a repeat may come after a later one
            self.index = self.index or WatchedVectors.of(_local())
            self.embedder = embedder
            try:
                await offload.call(self.threads, self._found().rebuild, self._scope.space, fingerprint)
            except StrongroomError as problem:  # the space has the new embedder, and any index can be made of the store
                raise partly(problem) from None
        return answer

    async def switch(
        self, fingerprint: Fingerprint, embedded: Callable[[], Awaitable[int]], commit_id: str | None
    ) -> int:
        """Put another embedder in charge once everything is embedded, and let go of what the others made."""
        key = self._scope.key(INDEX, "embedder")

        async def attempt() -> Plan[int]:
            made = await embedded()
            return Plan((), (Put(key, pack(fingerprint)),), lambda _: made, encode(made))

        async def replay(receipt: Receipt) -> int:
            assert receipt.answer is not None
            return msgspec.json.decode(receipt.answer, type=int)

        async def decide() -> Json:
            return encode({"made": await embedded()})

        content = pack({"fingerprint": fingerprint})
        answer = await perform(
            self._scope, Operation("memories.reembed", key, content, commit_id), attempt, replay, decide
        )
        if made_here(self._scope):
            with suppress(StrongroomError):  # it is done; what an earlier embedder leaves behind, the next one drops
                if await self._in_charge(fingerprint) == fingerprint:
                    await self._drop_others(fingerprint)
        return answer

    async def health(self) -> SearchHealth:
        """Ask the index how far it is, and say what fails and how much waits. What it had taken in when it was last
        reached is remembered."""
        if self.embedder is None:
            return SearchHealth()
        index, space = self._found(), self._scope.space
        with suppress(Unavailable, InvalidInput):
            fingerprint = await self.embedder.fingerprint(threads=self.threads)
            await offload.call(self.threads, index.open, space, fingerprint)
        log = await self._scope.get(Range(keys.log_key(space), 0, limit=0))
        return SearchHealth(
            embedder=self.embedder.name,
            index=index.kind,
            waiting=max(log.length - index.reached.get(space, 0), 0),
            embedder_failing=self.embedder.health.failing,
            index_failing=index.health.failing,
        )

    def _found(self) -> WatchedVectors:
        assert self.index is not None, "who has an embedder has an index"
        return self.index

    # ---- which embedder ---------------------------------------------------------------------------------------------

    async def _agreed(self) -> Fingerprint:
        """Return our embedder's fingerprint, having made sure that the space's vectors are its own."""
        ours = await self._required().fingerprint(threads=self.threads)
        theirs = await self._in_charge(ours)
        if theirs != ours:
            raise InvalidInput(
                f"the vectors of space {self._scope.space!r} were made by {theirs}, not by {ours}; "
                "use that embedder, or make them anew with memories.reembed(embedder)"
            )
        return ours

    async def _in_charge(self, ours: Fingerprint) -> Fingerprint:
        """Return which embedder the space uses: from now on ours, if there was none."""
        found = await self._scope.get(Get(self._scope.key(INDEX, "embedder")))
        return await self.agree(ours) if found is None else load(found, Fingerprint)

    async def agree(self, ours: Fingerprint, commit_id: str | None = None) -> Fingerprint:
        """Put an embedder in charge if there is none, and return which one is."""
        key = self._scope.key(INDEX, "embedder")

        async def attempt() -> Plan[Fingerprint]:
            found = await self._scope.get(Get(key))
            if found is not None:
                theirs = load(found, Fingerprint)
                return Plan((Expect(key, found.version),), (), lambda _: theirs, pack(theirs))
            return Plan((Expect(key, 0),), (Put(key, pack(ours)),), lambda _: ours, pack(ours))

        async def replay(receipt: Receipt) -> Fingerprint:
            assert receipt.answer is not None
            return msgspec.json.decode(receipt.answer, type=Fingerprint)

        operation = Operation("memories.agree", key, pack({"fingerprint": ours}), commit_id)
        return await perform(self._scope, operation, attempt, replay)

    def _required(self) -> Embedder:
        if self.embedder is None:
            raise InvalidInput("there is no embedder: memories.using(embedder=...)")
        return self.embedder

    # ---- vectors as documents ---------------------------------------------------------------------------------------

    async def _rows(self, ids: Sequence[str], fingerprint: Fingerprint, damaged: Telling) -> list[Row]:
        """Return the rows of those ids that are active, embedding what is not stored yet."""
        asked = partial(self._some_rows, fingerprint, damaged)
        return [row async for part in self._scope.parts(ids, CHUNK, asked) for row in part]

    async def _some_rows(self, fingerprint: Fingerprint, damaged: Telling, ids: Sequence[str]) -> list[Row]:
        def left_out(damage: Damaged) -> None:
            assert damaged is not None
            self._unread[damage.id] = None
            damaged(damage)

        telling = None if damaged is None else left_out
        while True:
            documents = await self._scope.get_known([self._scope.key(keys.MEMORY, id) for id in ids], telling)
            active = _active((document for document in documents if document is not None), telling)
            found = await self._scope.get_all([Get(self._key(text, fingerprint)) for _, text in active])
            if None not in found:
                break
            # What was erased while it was embedded is not stored, and not among the active any more.
            await self._store_missing({memory.id: text for memory, text in active}, self._required(), fingerprint)
        return [
            Row(memory.id, keys.owner(memory.user_id, memory.project_id), _decode(document.value.load()["vector"]))
            for (memory, _), document in zip(active, found, strict=True)
            if document is not None
        ]

    async def _store_missing(self, texts: Mapping[str, str], embedder: Embedder, fingerprint: Fingerprint) -> int:
        """Embed what memories say whose vectors are not stored, and store those. Return how many there were."""
        by_key = {self._key(text, fingerprint): (id, text) for id, text in texts.items()}
        found = await self._scope.get_all([Get(key) for key in by_key])
        missing = {key: said for (key, said), document in zip(by_key.items(), found, strict=True) if document is None}
        if missing:
            matrix = await embedder.embed([text for _, text in missing.values()], threads=self.threads)
            vectors = {
                id: b64encode(vector.tobytes()).decode()
                for (id, _), vector in zip(missing.values(), matrix.astype("<f4"), strict=True)
            }
            await self.keep(fingerprint, vectors)
        return len(missing)

    async def keep(self, fingerprint: Fingerprint, vectors: Mapping[str, str], commit_id: str | None = None) -> None:
        """Store vectors of what memories say, by the ids of the memories, as far as those are still active."""
        tags = {MARK: _mark(fingerprint)}

        async def attempt() -> Plan[None]:
            questions = [Get(self._scope.key(keys.MEMORY, id)) for id in vectors]
            used, *held = await self._scope.get_all([Get(self._scope.key(INDEX, USED)), *questions])
            known = [document for document in held if document is not None]
            if len(known) < len(vectors):
                raise InvalidInput("vectors are named by the memories they are of, which must be; nothing changed")
            active = {self._key(text, fingerprint): memory.id for memory, text in _active(known)}
            found = await self._scope.get_all([Get(key) for key in active])
            # What is there stays: a text has one vector, and nobody can give it another.
            new = {key: id for (key, id), document in zip(active.items(), found, strict=True) if document is None}
            puts: list[Write] = [Put(key, encode({"vector": vectors[id]}), tags) for key, id in new.items()]
            # As they were read: what is erased meanwhile must not come into the store as a vector.
            expects = [Expect(document.key, document.version) for document in known if document.key.id in new.values()]
            noted = load(used, Used) if used is not None else Used()
            if new and fingerprint not in noted.fingerprints:
                key = self._scope.key(INDEX, USED)
                puts.append(Put(key, pack(Used((*noted.fingerprints, fingerprint)))))
                expects.append(Expect(key, used.version if used is not None else 0))
            expects += [Expect(key, 0) for key in new]
            return Plan(expects or [Expect(known[0].key, known[0].version)], puts, lambda _: None)

        content = pack({"fingerprint": fingerprint, "vectors": dict(vectors)})
        target = self._scope.key(INDEX, "embedder")
        await perform(self._scope, Operation("memories.embed", target, content, commit_id), attempt, nothing)

    async def removing(self, texts: Sequence[str]) -> tuple[list[Expect], list[Write]]:
        """Say what removes the vectors of texts, whoever made them, also those that somebody is just storing."""
        key, expects, marks = self._scope.key(INDEX, USED), list[Expect](), dict[str, None]()
        try:
            used = await self._scope.get(Get(key))
            noted = load(used, Used).fingerprints if used is not None else ()
            expects.append(Expect(key, used.version if used is not None else 0))
            charged = await self._scope.get(Get(self._scope.key(INDEX, "embedder")))
            made = (*noted, *([load(charged, Fingerprint)] if charged is not None else ()))
            marks |= dict.fromkeys(map(_mark, made))
        except Damaged:  # nobody can store a vector any more, and those that are there say who made them
            vectors = Scan(self._scope.space, EMBEDDING, limit=CHUNK)
            async for page in self._scope.pages(vectors, lambda _: None):
                marks |= dict.fromkeys(one.tags[MARK] for one in page if MARK in one.tags)
        said = dict.fromkeys(screening.plain(text) for text in texts)
        return expects, [Delete(self._named(text, mark)) for mark in marks for text in said]

    def _key(self, text: str, fingerprint: Fingerprint) -> Key:
        return self._named(text, _mark(fingerprint))

    def _named(self, text: str, mark: str) -> Key:
        return self._scope.key(EMBEDDING, keys.digest(mark, text))

    async def _active_texts(self) -> dict[str, str]:
        """Return what the active memories say: each text once, by the id of a memory that says it."""
        texts: dict[str, str] = {}
        async for page in self._scope.pages(Scan(self._scope.space, keys.MEMORY, {"status": "active"}, limit=CHUNK)):
            texts |= {text: memory.id for memory, text in _active(page)}
        return {id: text for text, id in texts.items()}

    async def _drop_others(self, fingerprint: Fingerprint) -> None:
        """Delete the vectors of earlier embedders, a page at a time."""
        async for page in self._scope.pages(Scan(self._scope.space, EMBEDDING, limit=CHUNK)):
            old = [Delete(doc.key) for doc in page if doc.tags.get(MARK) != _mark(fingerprint)]

            async def attempt(old: list[Delete] = old) -> Plan[None]:
                return Plan((), old, lambda _: None)

            if old:
                await step(self._scope, old[0].key, attempt)


def _steps(records: Sequence[Record]) -> Iterator[tuple[int, dict[str, None], dict[str, None]]]:
    """Cut a stretch of the log into steps of few memories each, so that what was done is done if a later one fails.

    A step is where it ends, what was added and what was removed.
    """
    added: dict[str, None] = {}
    removed: dict[str, None] = {}
    for record in records:
        assert record.body is not None
        body = record.body.load()
        removed |= dict.fromkeys(body["removed"])
        added |= dict.fromkeys(body["added"])
        if len(added) >= CHUNK or record is records[-1]:
            yield record.index + 1, added, removed
            added, removed = {}, {}


def _active(documents: Iterable[Document], damaged: Telling = None) -> list[tuple[Memory, str]]:
    """Return those memories that are active, each with the text that is embedded of it."""
    memories = [memory for document in documents if (memory := sound(document, Memory, damaged)) is not None]
    return [(memory, screening.plain(memory.content)) for memory in memories if memory.status == "active"]


def _mark(fingerprint: Fingerprint) -> str:
    return keys.digest(fingerprint.name, fingerprint.revision, str(fingerprint.dimension))[:32]


def _local() -> VectorIndex:
    from strongroom.vectors.local import LocalVectors

    return LocalVectors()


def _decode(raw: str) -> Vector:
    import numpy as np

    return np.frombuffer(b64decode(raw), dtype="<f4").astype(np.float32)
