"""The vectors of a session's messages: made on the back of ordinary calls, stored, never lost.

They stand in a stream of their own, block by block in the order of the messages. Its end says how far embedding has
come, so whoever needs more goes on from there: after a failure, in another process, next year. There is no queue that
could forget a message, and no thread that could fail unseen. Blocks of another embedder are passed over.
"""

from __future__ import annotations

import heapq
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strongroom.codec import encode
from strongroom.embedders import Embedder, Fingerprint
from strongroom.errors import Conflict
from strongroom.operations import Operation, Plan, nothing, perform
from strongroom.scope import Scope
from strongroom.services.sessions.state import SESSION, VECTOR, covers, parse
from strongroom.services.sessions.view import View
from strongroom.store import EXISTS, Append, Entry, Expect, Get, Range, Record, Slice, Tail

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 128
SLICE = 8 * BLOCK  # how many messages one ordinary call embeds at most


class Progress(Struct, frozen=True):
    """What one call did: how many messages it embedded, how many it looked at, and how many are left."""

    embedded: int
    seen: int
    left: int


class Meaning(Struct, frozen=True):
    """An embedder, and whether it may be called on another thread."""

    embedder: Embedder
    threads: bool

    async def catch_up(self, view: View, most: int | None = None) -> Progress:
        """Embed messages that have no vector yet, the oldest first, until at least `most` have been looked at."""
        mark = str(await self.embedder.fingerprint(threads=self.threads))
        made = seen = 0
        while True:
            done, length = await self._progress(view, mark)
            left = max(view.length - max(done, view.first), 0)
            if not left or (most is not None and seen >= most):
                return Progress(made, seen, left)
            part = await view.scope.some(Range(view.stream, done, view.length, BLOCK))
            if not part.records:
                return Progress(made, seen, 0)  # the session is gone
            try:
                made += await self._embed(view, part, length, mark)
            except Conflict as problem:
                if problem.key == view.document:
                    return Progress(made, seen, 0)
            seen += len(part.records)  # by us, or by somebody who was faster

    async def left(self, view: View) -> int:
        """Return how many messages have no vector yet."""
        return (await self.catch_up(view, 0)).left

    async def nearest(self, view: View, query: str, limit: int) -> dict[int, float]:
        """Return the visible messages nearest in meaning with their cosine, reading the vectors a block at a time."""
        fingerprint: Fingerprint = await self.embedder.fingerprint(threads=self.threads)
        mark = str(fingerprint)
        vector = (await self.embedder.embed([query], threads=self.threads, purpose="query"))[0]
        best: list[tuple[float, int]] = []
        start = 0
        while True:
            part = await view.scope.some(Range(view.side(VECTOR), start, None, BLOCK))
            if not part.records:
                return {index: score for score, index in best if score > 0}
            start = part.records[-1].index + 1
            for record in part.records:
                if record.type == mark:
                    indexes, matrix = _block(record, fingerprint.dimension)
                    scores = (matrix @ vector).round(6).tolist()
                    shown = [(score, index) for score, index in zip(scores, indexes, strict=True) if view.shows(index)]
                    best = heapq.nlargest(limit, [*best, *shown])

    async def _progress(self, view: View, mark: str) -> tuple[int, int]:
        """Return the index up to which messages have been looked at, and the length of the stream of vectors."""
        end = await view.scope.get(Range(view.side(VECTOR), 0, 0))
        before = end.length
        while True:
            part = await view.scope.get(Tail(view.side(VECTOR), 1, None, before))
            if not part.records:
                return 0, end.length
            (record,) = part.records
            if record.type == mark and record.body is not None:
                return int(record.body.load()["stop"]), end.length
            before = record.index

    async def _embed(self, view: View, part: Slice, length: int, mark: str) -> int:
        spoken = [(record.index, record.text) for record in part.records if record.text]
        matrix = await self.embedder.embed([text for _, text in spoken], threads=self.threads)
        body = {
            "stop": part.records[-1].index + 1,
            "indexes": [index for index, _ in spoken],
            "vectors": b64encode(matrix.astype("<f2").tobytes()).decode(),
        }
        await keep(view.scope, view.id, mark, length, body)
        return len(spoken)


async def keep(
    scope: Scope, session_id: str, mark: str, length: int, block: dict[str, Any], commit_id: str | None = None
) -> None:
    """Store the vectors of a block of messages, if nobody has since their stream was so long."""
    document, key = scope.key(SESSION, session_id), scope.key(VECTOR, session_id)

    async def attempt() -> Plan[None]:
        found = await scope.get(Get(document))
        if found is None:
            raise Conflict(f"there is no session {session_id!r:.80}", expected=EXISTS, actual=0, key=document)
        # What was erased meanwhile must not come into the store as a vector.
        erased = parse(found.value).erased
        if any(covers(erased, index) for index in block["indexes"]):
            raise Conflict("some of these messages are erased by now; nothing changed", expected=0, actual=0, key=key)
        expects = (Expect(document, found.version), Expect(key, length))
        writes = (Append(key, (Entry(mark, encode(block), at=scope.clock()),)),)
        return Plan(expects, writes, lambda _: None, refusal=lambda lost: lost if lost.key == key else None)

    content = encode({"mark": mark, "length": length, "block": block})
    await perform(scope, Operation("session.embed", document, content, commit_id), attempt, nothing)


def _block(record: Record, dimension: int) -> tuple[list[int], NDArray[np.float32]]:
    import numpy as np

    body: dict[str, Any] = record.body.load() if record.body is not None else {"indexes": [], "vectors": ""}
    flat = np.frombuffer(b64decode(body["vectors"]), dtype="<f2").astype(np.float32)
    return body["indexes"], flat.reshape(len(body["indexes"]), dimension)
