"""Ending memories that nobody asked to end one by one: those of a revoked source, and those past their time.

A revocation is first recorded, in one commit, as a document that searches look for; from then on nothing derived from
the source is found and nothing that cites it can be committed. Then the tombstones are written, a level of derivation
at a time: a memory is ended *before* its own derivatives are looked for, so none can slip in behind. The walk starts
from the source each time, so it can be interrupted anywhere and repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from strongroom.codec import pack
from strongroom.errors import Conflict, InvalidInput
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.values import End, Memory, Revoked
from strongroom.services.memories.writes import end, expired, load
from strongroom.store import Commit, Document, Expect, Get, Put, Scan, Write, new_id, require_text
from strongroom.values import moment

PAGE = 100


class Revocations:
    """The tombstone writer of one space."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def revoke(self, source_ref: str, by: str, reason: str) -> Revoked:
        if not source_ref:
            raise InvalidInput("revoke() needs the source_ref to revoke, as a non-empty string")
        require_text(source_ref)
        recorded = await self._record(source_ref, by, reason)
        return recorded if recorded.done else await self._finish(recorded)

    async def sweep(self) -> int:
        ended = 0
        async for page in self._pages(keys.REVOCATION, {"status": "open"}):
            for document in page:
                ended += (await self._finish(load(document, Revoked))).memories
        async for page in self._pages(keys.MEMORY, {"status": "active"}):
            now = moment(self._scope.clock())
            past = [document for document in page if expired(load(document, Memory), now)]
            ended += await self._end(past, "expired", "", "")
        return ended

    async def _record(self, source_ref: str, by: str, reason: str) -> Revoked:
        key = keys.revocation_key(self._scope.space, source_ref)
        [found] = await self._scope.store.read([Get(key)])
        if found is not None:
            return load(found, Revoked)
        now = self._scope.clock()
        revoked = Revoked(source_ref=source_ref, by=by, reason=reason, at=moment(now), done=False)
        note = keys.log(self._scope.space, "REVOKED", now, by, reason=f"{source_ref}: {reason}")
        put = Put(key, pack(revoked), {"status": "open"})
        try:
            await self._scope.store.commit(Commit(new_id(), (Expect(key, 0),), (put, note)))
        except Conflict:
            return await self._record(source_ref, by, reason)
        return revoked

    async def _finish(self, revoked: Revoked) -> Revoked:
        root = revoked.source_ref
        walked: set[str] = set()
        if keys.can_be_id(root):
            [itself] = await self._scope.store.read([Get(self._scope.key(keys.MEMORY, root))])
            if itself is not None:
                walked.add(root)
                await self._end([itself], "revoked", revoked.by, revoked.reason)
        level = {root}
        while level:
            found: set[str] = set()
            for ref in sorted(level):
                async for page in self._pages(keys.MEMORY, {keys.source_tag(ref): "1"}):
                    found.update(document.key.id for document in page)
                    await self._end(page, "revoked", revoked.by, revoked.reason)
            level = found - walked
            walked |= level
        return await self._close(revoked, len(walked))

    async def _close(self, revoked: Revoked, count: int) -> Revoked:
        key = keys.revocation_key(self._scope.space, revoked.source_ref)
        [found] = await self._scope.store.read([Get(key)])
        current = load(found, Revoked)
        if current.done:
            return current
        done = replace(current, done=True, memories=count)
        put = Put(key, pack(done), {"status": "done"})
        try:
            await self._scope.store.commit(Commit(new_id(), (Expect(key, found.version),), (put,)))
        except Conflict:
            return await self._close(revoked, count)
        return done

    async def _end(self, documents: Sequence[Document], status: End, by: str, reason: str) -> int:
        """End these memories in one commit, starting over with fresh ones while somebody else changes them."""
        while True:
            memories = [(document, load(document, Memory)) for document in documents]
            ending = [pair for pair in memories if pair[1].status != status and _may_become(pair[1], status)]
            if not ending:
                return 0
            try:
                await self._scope.store.commit(self._tombstones(ending, status, by, reason))
            except Conflict:
                documents = await self._scope.store.read([Get(document.key) for document, _ in ending])
                continue
            return len(ending)

    def _tombstones(self, ending: Sequence[tuple[Document, Memory]], status: End, by: str, reason: str) -> Commit:
        space, now = self._scope.space, self._scope.clock()
        expects = [Expect(document.key, document.version) for document, _ in ending]
        writes: list[Write] = [
            keys.put_memory(document.key, end(memory, status, by, reason, moment(now))) for document, memory in ending
        ]
        removed = [memory.id for _, memory in ending if memory.status == "active"]
        writes.append(keys.log(space, status.upper(), now, by, removed=removed, reason=reason))
        return Commit(new_id(), tuple(expects), tuple(writes))

    async def _pages(self, kind: str, tags: dict[str, str]) -> AsyncIterator[tuple[Document, ...]]:
        after = None
        while True:
            [page] = await self._scope.store.read([Scan(self._scope.space, kind, tags, after, PAGE)])
            if page.documents:
                yield page.documents
            if page.next is None:
                return
            after = page.next


def _may_become(memory: Memory, status: End) -> bool:
    return status == "revoked" or memory.status == "active"
