"""Ending memories that nobody asked to end one by one: those of a revoked source, and those past their time.

A revocation is first recorded, in one commit, as a document that searches look for; from then on nothing derived from
the source is found and nothing that cites it can be committed. Then the tombstones are written, a level of derivation
at a time: a memory is ended *before* its own derivatives are looked for, so none can slip in behind. The walk starts
from the source each time, so it can be interrupted anywhere and repeated. The last commit closes the revocation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.operations import NOTHING, Operation, Plan, perform, step
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.blanking import finished
from strongroom.services.memories.decisions import end, expired
from strongroom.services.memories.keys import load
from strongroom.services.memories.values import End, Memory, Results, Revoked
from strongroom.store import EXISTS, Expect, Get, Key, Range, Receipt, Scan, Write, require_text
from strongroom.values import moment


class Revocations:
    """The tombstone writer of one space."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def revoke(self, source_ref: str, by: str, reason: str, commit_id: str | None) -> Revoked:
        if not source_ref:
            raise InvalidInput("revoke() needs the source_ref to revoke, as a non-empty string; nothing changed")
        require_text(source_ref)
        key = keys.revocation_key(self._scope.space, source_ref)
        revoked = Revoked(source_ref=source_ref, by=by, reason=reason, at=moment(self._scope.clock()), done=False)

        async def attempt() -> Plan[Revoked]:
            return await self._finish(*await self._recorded(key, revoked))

        async def replay(_: Receipt) -> Revoked:
            stored = await self._scope.get(Get(key))
            assert stored is not None
            return load(stored, Revoked)

        operation = Operation(
            "memories.revoke", key, encode({"source_ref": source_ref, "by": by, "reason": reason}), commit_id
        )
        return await perform(self._scope, operation, attempt, replay)

    async def preview(self, source_ref: str, limit: int) -> Results[Memory]:
        """Return what revoking a source would end, at most `limit`; `degraded` says if there is more."""
        found: dict[str, Memory] = {}
        if keys.can_be_id(source_ref):
            itself = await self._scope.get(Get(self._scope.key(keys.MEMORY, source_ref)))
            if itself is not None and (memory := load(itself, Memory)).status != "erased":
                found[source_ref] = memory
        level = [source_ref]
        walked = {source_ref}
        while level:
            following: list[str] = []
            for ref in level:
                async for page in self._scope.pages(Scan(self._scope.space, keys.MEMORY, {keys.source_tag(ref): "1"})):
                    found |= {document.key.id: load(document, Memory) for document in page}
                    following += [document.key.id for document in page if document.key.id not in walked]
                    walked.update(following)
                    falling = [memory for memory in found.values() if memory.status != "revoked"]
                    if len(falling) > limit:
                        return Results(falling[:limit], degraded=f"more than {limit} would fall")
            level = following
        return Results(memory for memory in found.values() if memory.status != "revoked")

    async def revoked(self, source_ref: str) -> Revoked | None:
        """Return how a source was revoked, None if it is believed."""
        found = await self._scope.get(Get(keys.revocation_key(self._scope.space, source_ref)))
        return None if found is None else load(found, Revoked)

    async def sweep(self, commit_id: str | None) -> int:
        scope, ended = self._scope, 0
        log = keys.log_key(scope.space)

        async def attempt() -> Plan[int]:
            nonlocal ended
            async for page in scope.pages(Scan(scope.space, keys.REVOCATION, {"status": "open"})):
                for open_one in [load(document, Revoked) for document in page]:
                    done = await self.revoke(open_one.source_ref, open_one.by, open_one.reason, None)
                    ended += done.memories
            async for page in scope.pages(Scan(scope.space, keys.MEMORY, {"status": "active"})):
                now = moment(scope.clock())
                past = [document.key for document in page if expired(load(document, Memory), now)]
                ended += await self._end(past, "expired", "", "")
            length = (await scope.get(Range(log, limit=0))).length
            return Plan((Expect(log, EXISTS if length else 0),), (), lambda _: ended, encode(ended))

        async def replay(receipt: Receipt) -> int:
            assert receipt.answer is not None
            return msgspec.json.decode(receipt.answer, type=int)

        return await perform(scope, Operation("memories.sweep", log, NOTHING, commit_id), attempt, replay)

    async def _recorded(self, key: Key, revoked: Revoked) -> tuple[Revoked, Expect]:
        """Return the revocation of this source, made now if there was none, and what must still be so of it."""
        note = keys.log(
            self._scope.space,
            "REVOKED",
            self._scope.clock(),
            revoked.by,
        )

        async def attempt() -> Plan[tuple[Revoked, Expect]]:
            found = await self._scope.get(Get(key))
            if found is not None:
                known = load(found, Revoked), Expect(key, found.version)
                return Plan((), (), lambda _: known)
            put = keys.put_revocation(key, revoked)
            return Plan((Expect(key, 0),), (put, note), lambda made: (revoked, Expect(key, made.versions[0])))

        return await step(self._scope, key, attempt)

    async def _finish(self, revoked: Revoked, unchanged: Expect) -> Plan[Revoked]:
        """Write what tombstones are missing; return what closes the revocation."""
        if revoked.done:
            return Plan((unchanged,), (), lambda _: revoked)
        root = revoked.source_ref
        walked: set[str] = set()
        if keys.can_be_id(root):
            itself = await self._scope.get(Get(self._scope.key(keys.MEMORY, root)))
            if itself is not None and load(itself, Memory).status != "erased":
                walked.add(root)
                await self._end([itself.key], "revoked", revoked.by, revoked.reason)
        level = {root}
        while level:
            found: set[str] = set()
            for ref in sorted(level):
                cited = Scan(self._scope.space, keys.MEMORY, {keys.source_tag(ref): "1"})
                async for page in self._scope.pages(cited):
                    found.update(document.key.id for document in page)
                    await self._end([document.key for document in page], "revoked", revoked.by, revoked.reason)
            level = found - walked
            walked |= level
        done = replace(revoked, done=True, memories=len(walked))
        return Plan((unchanged,), (keys.put_revocation(unchanged.key, finished(done)),), lambda _: done)

    async def _end(self, which: Sequence[Key], status: End, by: str, reason: str) -> int:
        """End these memories in one commit. Return how many there were that had to be ended."""

        async def attempt() -> Plan[int]:
            documents = [document for document in await self._scope.get_all([*map(Get, which)]) if document is not None]
            memories = [(document, load(document, Memory)) for document in documents]
            ending = [pair for pair in memories if pair[1].status != status and _may_become(pair[1], status)]
            if not ending:
                return Plan((), (), lambda _: 0)
            now = self._scope.clock()
            writes: list[Write] = [
                keys.put_memory(document.key, end(memory, status, by, reason, moment(now)))
                for document, memory in ending
            ]
            removed = [memory.id for _, memory in ending if memory.status == "active"]
            writes.append(keys.log(self._scope.space, status.upper(), now, by, removed=removed))
            expects = [Expect(document.key, document.version) for document, _ in ending]
            return Plan(expects, writes, lambda _: len(ending))

        return await step(self._scope, keys.log_key(self._scope.space), attempt)


def _may_become(memory: Memory, status: End) -> bool:
    """Tell whether a memory can be ended so. Of an erased one nothing is left that could be revoked."""
    return memory.status == "active" or (status == "revoked" and memory.status != "erased")
