"""Erasing memories for good: what they said, why, whose they were, where it came from; in the store and in its files.

A memory that is erased keeps its id, its times and its place in the lineage, and says that it was erased. The batches
that asked for it say it no more; one that is still pending is turned down. Vectors of the text are deleted, and the log
tells every index to drop the memory. Whatever was derived from it is named in the receipt, or goes with it.

The work is done in bounded commits, each of which looks for what is left, so it can be interrupted and repeated. The
last one finds nothing more and records that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import encode, pack
from strongroom.errors import InvalidInput, NotFound
from strongroom.folding import folded
from strongroom.operations import Operation, Plan, made_here, perform, step
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.keys import load
from strongroom.services.memories.requests import replaced
from strongroom.services.memories.values import Batch, Ended, Erased, Memory, Proposal, Revoked
from strongroom.store import Delete, Document, Erase, Expect, Get, Key, Put, Receipt, Scan, Write, require_name
from strongroom.values import moment

GONE = "(erased)"
PAGE = 100


class Target(Struct, frozen=True):
    """What is to be erased: one memory and its lineage, all of an owner, or all that cites a source.

    A source is cited by whoever spells it alike; an `exact` one only by its very letters.
    """

    memory_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    source_ref: str | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        named = [name for name, value in self.named.items() if value is not None]
        if len(named) != 1 and named != ["user_id", "project_id"]:
            raise InvalidInput(
                "erase() takes one of memory_id, user_id, project_id, source_ref, or a user_id in a project_id; "
                "nothing changed"
            )
        for name in named:
            if name != "source_ref":
                require_name(getattr(self, name), name)

    @property
    def named(self) -> dict[str, str | None]:
        """What the caller named."""
        return {name: getattr(self, name) for name in ("memory_id", "user_id", "project_id", "source_ref")}

    def key(self, scope: Scope) -> Key:
        """Return what the operation is about, so that one id may be used for several."""
        if self.memory_id is not None:
            return scope.key(keys.MEMORY, self.memory_id)
        if self.source_ref is not None:
            return keys.revocation_key(scope.space, self.source_ref)
        return scope.key(keys.LOG, keys.owner(self.user_id, self.project_id))

    def owns(self, user_id: str | None, project_id: str | None) -> bool:
        """Tell whether the owner that is to be erased is this one."""
        if self.user_id is None and self.project_id is None:
            return False
        return self.user_id in (None, user_id) and self.project_id in (None, project_id)

    def cited_in(self, refs: Iterable[str]) -> bool:
        if self.source_ref is None or self.exact:
            return self.source_ref is not None and self.source_ref in refs
        return folded(self.source_ref) in {folded(ref) for ref in refs}


class Cleared(Struct, frozen=True):
    """What was taken away: which memories, which derived from them stay, and how many batches spoke of them."""

    memories: tuple[str, ...]
    derived: tuple[str, ...]
    batches: int


class Erasure:
    """The eraser of one space. `vectors` names the documents that hold the vectors of a text."""

    def __init__(self, scope: Scope, vectors: Callable[[Sequence[str]], AsyncIterator[Key]]) -> None:
        self._scope = scope
        self._vectors = vectors

    async def erase(self, target: Target, derived: bool, by: str, reason: str, commit_id: str | None) -> Erased:
        scope, log = self._scope, keys.log_key(self._scope.space)
        content = encode({**target.named, "derived": derived, "by": by, "reason": reason})

        async def attempt() -> Plan[Erased]:
            at = scope.clock()
            gone = await self.clear(target, derived, by)
            told = Erased(
                memories=gone.memories, derived=gone.derived, batches=gone.batches, by=by, reason=reason, at=moment(at)
            )
            writes = noted(scope, at, by, gone.memories)
            return Plan((), writes, lambda receipt: _told(told, receipt.pending), pack(told))

        async def clean() -> Plan[str | None]:
            # Whoever erased may have been killed before the store's files were clean.
            return Plan((), (traces(log),), lambda receipt: receipt.pending)

        async def replay(receipt: Receipt) -> Erased:
            assert receipt.answer is not None
            pending = await step(scope, log, clean) if made_here(scope) else receipt.pending
            return _told(msgspec.json.decode(receipt.answer, type=Erased), pending)

        return await perform(scope, Operation("memories.erase", target.key(scope), content, commit_id), attempt, replay)

    async def clear(self, target: Target, derived: bool, by: str) -> Cleared:
        """Take away what is to be erased. Doing so again does nothing more; whoever calls notes that it was done."""
        chosen, named = await self._chosen(target, derived)
        for ids in [chosen[n : n + PAGE] for n in range(0, len(chosen), PAGE)]:
            await self._memories(ids, by)
        batches = await self._batches(target, set(chosen), by)
        await self._revocations(target)
        return Cleared(tuple(chosen), tuple(named), batches)

    async def _chosen(self, target: Target, derived: bool) -> tuple[list[str], list[str]]:
        """Return the memories to erase, and those derived from them that stay."""
        chosen: dict[str, None] = {}
        if target.memory_id is not None:
            frontier = {target.memory_id}
            while frontier:
                found = await self._get(sorted(frontier))
                if not chosen and not found:
                    raise NotFound(
                        f"there is no memory {target.memory_id!r:.80}; nothing changed",
                        kind="memory",
                        id=target.memory_id,
                    )
                chosen |= dict.fromkeys(found)
                frontier = {
                    id for one in found.values() for id in (*one.supersedes, one.superseded_by) if id
                } - chosen.keys()
        else:
            tags = {} if target.source_ref is None else {keys.source_tag(target.source_ref): "1"}
            async for page in self._scope.pages(Scan(self._scope.space, keys.MEMORY, tags, limit=PAGE)):
                for memory in [load(document, Memory) for document in page]:
                    if target.owns(memory.user_id, memory.project_id) or target.cited_in(memory.source_refs):
                        chosen[memory.id] = None
        named: dict[str, None] = {}
        waiting = list(chosen)
        while waiting:
            cited = Scan(self._scope.space, keys.MEMORY, {keys.source_tag(waiting.pop()): "1"}, limit=PAGE)
            async for page in self._scope.pages(cited):
                new = [document.key.id for document in page if document.key.id not in chosen | named]
                (chosen if derived else named).update(dict.fromkeys(new))
                waiting += new
        return list(chosen), list(named)

    async def _get(self, ids: Sequence[str]) -> dict[str, Memory]:
        documents = await self._scope.get_all([Get(self._scope.key(keys.MEMORY, id)) for id in ids])
        return {document.key.id: load(document, Memory) for document in documents if document is not None}

    async def _memories(self, ids: Sequence[str], by: str) -> None:
        async def attempt() -> Plan[None]:
            documents = await self._scope.get_all([Get(self._scope.key(keys.MEMORY, id)) for id in ids])
            held = [(document, load(document, Memory)) for document in documents if document is not None]
            left = [(document, memory) for document, memory in held if memory.status != "erased"]
            now = self._scope.clock()
            writes: list[Write] = [keys.put_memory(document.key, _blank(memory, by, now)) for document, memory in left]
            writes += [Delete(key) async for key in self._vectors([memory.content for _, memory in left])]
            # The trace even if nothing is left: whoever came first may have been killed before the files were clean.
            if left:
                removed = [memory.id for _, memory in left]
                writes.append(keys.log(self._scope.space, "ERASING", now, by, removed=removed))
            writes.append(traces(keys.log_key(self._scope.space)))
            return Plan(_unchanged(document for document, _ in left), writes, lambda _: None)

        await step(self._scope, keys.log_key(self._scope.space), attempt)

    async def _batches(self, target: Target, ids: set[str], by: str) -> int:
        """Take what is erased out of every batch that speaks of it. Return how many did."""
        count = 0
        async for page in self._scope.pages(Scan(self._scope.space, keys.BATCH, limit=PAGE)):
            held = [document.key for document in page if _speaks(load(document, Batch), target, ids)]
            count += len(held)

            async def attempt(held: Sequence[Key] = held) -> Plan[None]:
                found = await self._scope.get_all([Get(key) for key in held])
                documents = [document for document in found if document is not None]
                now, writes = self._scope.clock(), list[Write]()
                for batch in [load(document, Batch) for document in documents]:
                    writes.append(keys.put_batch(self._scope.space, _cleared(batch, target, ids, by, now)))
                    if batch.status == "pending":
                        writes.append(keys.tally(self._scope.space, keys.DECIDED, batch, now))
                writes.append(traces(keys.log_key(self._scope.space)))
                return Plan(_unchanged(documents), writes, lambda _: None)

            if held:
                await step(self._scope, held[0], attempt)
        return count

    async def _revocations(self, target: Target) -> None:
        """Forget the name of a source that is revoked; that it is stays known by its hash."""
        if target.source_ref is None:
            return
        key = keys.revocation_key(self._scope.space, target.source_ref)

        async def attempt() -> Plan[None]:
            stored = await self._scope.get(Get(key))
            if stored is None or not (revoked := load(stored, Revoked)).done:
                return Plan((), (), lambda _: None)
            blank = pack(replace(revoked, source_ref=GONE, by=GONE, reason=GONE))
            put = Put(key, blank, {"status": "done"})
            return Plan((Expect(key, stored.version),), (put, traces(keys.log_key(key.space))), lambda _: None)

        await step(self._scope, key, attempt)


def _blank(memory: Memory, by: str, now: int) -> Memory:
    """Return what stays of a memory: its id, its type, its times, its place among others."""
    at = moment(now)
    ended = [replace(one, by="", reason="") for one in memory.ended]
    return Memory(
        id=memory.id,
        type=memory.type,
        scope=memory.scope,
        content=GONE,
        rationale=GONE,
        confidence=0.0,
        status="erased",
        trust="untrusted",
        proposer=GONE,
        reviewer=GONE,
        batch_id=memory.batch_id,
        proposed_at=memory.proposed_at,
        created_at=memory.created_at,
        updated_at=at,
        supersedes=memory.supersedes,
        superseded_by=memory.superseded_by,
        ended=(*ended, Ended("erased", at, by)),
    )


def is_blank(memory: Memory) -> bool:
    """Tell whether a memory is what stays of one that was erased, and no more."""
    owned = memory.user_id or memory.project_id or memory.run_id
    more = memory.source_refs or memory.tags or memory.metadata
    said = {memory.content, memory.rationale} - {GONE}
    return memory.status == "erased" and not (owned or more or said)


def _about(proposal: Proposal, target: Target, ids: set[str]) -> bool:
    request = proposal.request
    if request.content == GONE and request.rationale == GONE:
        return False
    mentioned = {proposal.memory_id, proposal.duplicate_of, *replaced(request)}
    return (
        bool(mentioned & ids)
        or target.owns(request.user_id, request.project_id)
        or target.cited_in(request.source_refs)
    )


def _speaks(batch: Batch, target: Target, ids: set[str]) -> bool:
    return any(_about(proposal, target, ids) for proposal in batch.proposals)


def _cleared(batch: Batch, target: Target, ids: set[str], by: str, now: int) -> Batch:
    proposals = tuple([_without(one) if _about(one, target, ids) else one for one in batch.proposals])
    batch = replace(batch, proposals=proposals, reason="")
    if batch.status == "pending":
        refused = tuple([replace(one, outcome="rejected", reason=GONE) for one in proposals])
        batch = replace(batch, status="rejected", proposals=refused, reviewer=by, decided_at=moment(now), reason=GONE)
    return batch


def _without(proposal: Proposal) -> Proposal:
    request = replace(
        proposal.request,
        content=GONE,
        rationale=GONE,
        source_refs=(),
        user_id=None,
        project_id=None,
        tags=(),
        metadata={},
    )
    return replace(proposal, request=request, reason="")


def _unchanged(documents: Iterable[Document]) -> list[Expect]:
    return [Expect(document.key, document.version) for document in documents]


def noted(scope: Scope, at: int, by: str, memories: Sequence[str]) -> tuple[Write, ...]:
    """Return what records that an erasure is done."""
    note = keys.log(scope.space, "ERASED", at, by, removed=[*memories])
    return note, traces(keys.log_key(scope.space))


def traces(log: Key) -> Erase:
    """Return what makes the store's files forget what a commit takes away, or an earlier one that was killed."""
    return Erase(log, 0, 0)


def _told(told: Erased, pending: str | None) -> Erased:
    return replace(told, complete=pending is None, pending=pending)
