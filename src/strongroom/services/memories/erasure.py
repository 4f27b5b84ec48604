"""Erasing memories for good: what they said, why, whose they were, where it came from; in the store and in its files.

A memory that is erased keeps its id, its times and its place in the lineage, and says that it was erased. The batches
that asked for it say it no more; one that is still pending is turned down. Vectors of the text are deleted, and the log
tells every index to drop the memory. Whatever was derived from it is named in the receipt, or goes with it.

The work is done in bounded commits, each of which looks for what is left, so it can be interrupted and repeated.
Whatever a kill leaves is still found by what names it: batches go first, so that nothing pending can become known
behind us, then revocations, then what was derived, then what it was derived from. That is done over again until nothing
is left. Each step owes the store's files a cleaning (`operations.erasing_step`); the last commit records what was
erased, and pays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence, Set
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import Damaged, NotFound
from strongroom.folding import folded
from strongroom.operations import Operation, Plan, erasing_step, perform, still_pending
from strongroom.scope import AT_ONCE, Scope
from strongroom.services.erasing import briefly, require_brief, waiting
from strongroom.services.memories import keys
from strongroom.services.memories.blanking import blanked, cleared, is_about, nameless
from strongroom.services.memories.keys import load
from strongroom.services.memories.noting import noted, recalled
from strongroom.services.memories.targets import PAGE, Target, Targets
from strongroom.services.memories.values import Batch, Erased, Memory, Proposal, Revoked
from strongroom.services.memories.vectors import Vectors
from strongroom.store import Document, Expect, Get, Key, Receipt, Scan, Write
from strongroom.values import moment

T = TypeVar("T")


class Cleared(Struct, frozen=True):
    """What was taken away: which memories, which derived from them stay, and how many batches spoke of them. `unread`
    says what stays because it is damaged, or something that goes with it is. `whole`: all that is known to be about
    them is gone; of what cannot be read nobody knows."""

    memories: tuple[str, ...]
    derived: tuple[str, ...]
    batches: int
    unread: tuple[str, ...] = ()
    whole: bool = True


class Erasure:
    """The eraser of one space. `vectors` says how the vectors of texts are removed."""

    def __init__(self, scope: Scope, vectors: Vectors) -> None:
        self._scope = scope
        self._vectors = vectors

    async def erase(self, target: Target, derived: bool, by: str, reason: str, commit_id: str | None) -> Erased:
        require_brief(by=by, reason=reason)
        scope, log = self._scope, keys.log_key(self._scope.space)
        content = encode({**target.named, "derived": derived, "by": by, "reason": reason})

        async def attempt() -> Plan[Erased]:
            at = scope.clock()
            gone = await self.clear([target], derived, by)
            told = Erased(
                memories=gone.memories,
                derived=gone.derived,
                batches=gone.batches,
                by=by,
                reason=reason,
                at=moment(at),
                pending=briefly(gone.unread),
            )
            writes, answer = await noted(scope, at, told)
            return Plan((), writes, lambda receipt: waiting(told, receipt.pending), answer)

        async def replay(receipt: Receipt) -> Erased:
            told = msgspec.convert(await recalled(scope, receipt), Erased)
            return waiting(told, await still_pending(scope, log, receipt))

        return await perform(scope, Operation("memories.erase", target.key(scope), content, commit_id), attempt, replay)

    async def clear(self, targets: Sequence[Target], derived: bool, by: str) -> Cleared:
        """Take away what is to be erased. Doing so again does nothing more; whoever calls notes that it was done."""
        wanted, batches, unread, kept = Targets(targets), 0, dict[str, str](), dict[str, str]()
        chosen, named, sources, owners = dict[str, bool](), dict[str, None](), set[str](), set[str]()
        looked = False
        while True:
            found, left = await self._chosen(wanted, derived, unread, sources, owners)
            rest = [id for id, erased in found.items() if not erased and id not in kept]
            if looked and not rest:
                break
            looked = True
            chosen |= found
            named |= left
            batches += await self._batches(wanted, chosen.keys(), derived, by, unread, kept)
            await self._revocations(wanted, chosen.keys() | sources, unread, kept)
            rest.reverse()  # what was derived before what it was derived from, by which it is found
            await self._despite_damage("memory", rest, partial(self._memories, by), str, kept)
        return Cleared(
            tuple(id for id in chosen if id not in kept),
            tuple(id for id in named if id not in chosen),
            batches,
            (*unread.values(), *kept.values()),
            not kept,
        )

    async def _despite_damage(
        self,
        what: str,
        things: Sequence[T],
        erase: Callable[[Sequence[T]], Awaitable[object]],
        name: Callable[[T], str],
        kept: dict[str, str],
    ) -> None:
        """Erase things, many at once; where something is damaged each alone, and note those that stay."""

        async def some(part: Sequence[T]) -> None:
            try:
                await erase(part)
            except Damaged as damage:
                if len(part) == 1:
                    kept[name(part[0])] = f"{what} {name(part[0])!r} was not erased: {damage}"
                    return
                for one in part:
                    await some([one])

        async for _ in self._scope.parts(things, AT_ONCE, some):
            pass

    async def _all(self, scan: Scan, type: type[T], unread: dict[str, str]) -> AsyncIterator[list[tuple[Document, T]]]:
        """Give all that a scan finds, a page at a time, and note what cannot be read of it."""

        def note(damage: Damaged) -> None:
            unread[f"{scan.kind} {damage.id}"] = (
                f"{damage}; whether it is to be erased is not known, so it is still there"
            )

        async for page in self._scope.pages(scan, note):
            held = list[tuple[Document, T]]()
            for document in page:
                try:
                    held.append((document, load(document, type)))
                except Damaged as damage:
                    note(damage)
            yield held

    async def _chosen(
        self, wanted: Targets, derived: bool, unread: dict[str, str], sources: set[str], owners: set[str]
    ) -> tuple[dict[str, bool], dict[str, None]]:
        """Return the memories to erase, each with whether it is so already, and those derived from them that stay. Add
        to `sources` what the former cite, as it is spelt alike, and to `owners` whose lineages are erased."""
        chosen: dict[str, bool] = {}

        def choose(memories: Iterable[Memory]) -> None:
            for memory in memories:
                chosen[memory.id] = memory.status == "erased"
                sources.update(map(folded, memory.source_refs))

        for target in wanted.targets:
            if target.memory_id is not None:
                choose(await self._lineage(target.memory_id, unread, owners))
        for scan in wanted.scans(self._scope.space):
            async for page in self._all(scan, Memory, unread):
                choose(memory for _, memory in page if wanted.include(memory))
        named: dict[str, None] = {}
        waiting = list(chosen)
        while waiting:
            cited = Scan(self._scope.space, keys.MEMORY, {keys.source_tag(waiting.pop()): "1"}, limit=PAGE)
            async for page in self._all(cited, Memory, unread):
                new = [memory for _, memory in page if memory.id not in chosen and memory.id not in named]
                waiting += [memory.id for memory in new]
                if derived:
                    choose(new)
                else:
                    named |= dict.fromkeys(memory.id for memory in new)
        return chosen, named

    async def _lineage(self, memory_id: str, unread: dict[str, str], owners: set[str]) -> Iterable[Memory]:
        """Return a memory with those it replaced, those that replaced it and those that only repeated it: a memory does
        not say who these are, they say whom they repeat. All of a lineage have one owner."""
        chosen: dict[str, Memory] = {}
        replaced: dict[str, set[str]] | None = None
        frontier = {memory_id}
        while frontier:
            found = await self._get(sorted(frontier))
            if not chosen and not found:
                raise NotFound(f"there is no memory {memory_id!r:.80}; nothing changed", kind="memory", id=memory_id)
            chosen |= found
            if replaced is None:
                owners |= {keys.owner(one.user_id, one.project_id) for one in found.values() if one.status != "erased"}
                replaced = await self._replaced(owners, unread)
            frontier = {
                id
                for one in found.values()
                for id in (*one.supersedes, one.superseded_by, *replaced.get(one.id, ()))
                if id
            } - chosen.keys()
        return chosen.values()

    async def _replaced(self, owners: Set[str], unread: dict[str, str]) -> dict[str, set[str]]:
        """Return by the id of a memory those that name it as what stands for them. What is erased says no more whose it
        was: whoever asks for nothing else is told of all owners."""
        replaced: dict[str, set[str]] = {}
        for whose in [{"owner": owner} for owner in sorted(owners)] or [{}]:
            for status in ("superseded", "revoked"):
                scan = Scan(self._scope.space, keys.MEMORY, {"status": status, **whose}, limit=PAGE)
                async for page in self._all(scan, Memory, unread):
                    for _, one in page:
                        if one.superseded_by is not None:
                            replaced.setdefault(one.superseded_by, set()).add(one.id)
        return replaced

    async def _get(self, ids: Sequence[str]) -> dict[str, Memory]:
        documents = await self._scope.get_each([Get(self._scope.key(keys.MEMORY, id)) for id in ids])
        return {document.key.id: load(document, Memory) for document in documents if document is not None}

    async def _memories(self, by: str, ids: Sequence[str]) -> None:
        log = keys.log_key(self._scope.space)

        async def attempt() -> Plan[None]:
            documents = await self._scope.get_all([Get(self._scope.key(keys.MEMORY, id)) for id in ids])
            held = [(document, load(document, Memory)) for document in documents if document is not None]
            left = [(document, memory) for document, memory in held if memory.status != "erased"]
            if not left:
                return Plan((), (), lambda _: None)
            now = self._scope.clock()
            expects, writes = await self._vectors.removing([memory.content for _, memory in left])
            writes += [keys.put_memory(document.key, blanked(memory, by, now)) for document, memory in left]
            removed = [memory.id for _, memory in left]
            writes.append(keys.log(self._scope.space, "ERASING", now, by, removed=removed))
            return Plan([*expects, *_unchanged(document for document, _ in left)], writes, lambda _: None)

        await erasing_step(self._scope, log, attempt)

    async def _batches(
        self,
        wanted: Targets,
        ids: Set[str],
        derived: bool,
        by: str,
        unread: dict[str, str],
        kept: dict[str, str],
    ) -> int:
        """Take what is erased out of every batch that speaks of it. Return how many did."""

        def about(proposal: Proposal) -> bool:
            return is_about(proposal, wanted, ids, derived)

        async def clear(held: Sequence[Key]) -> None:
            async def attempt() -> Plan[None]:
                found = await self._scope.get_all([Get(key) for key in held])
                documents = [document for document in found if document is not None]
                now, writes = self._scope.clock(), list[Write]()
                for batch in [load(document, Batch) for document in documents]:
                    writes.append(keys.put_batch(self._scope.space, cleared(batch, about, by, now)))
                    if batch.status == "pending":
                        writes.append(keys.tally(self._scope.space, keys.DECIDED, batch, now))
                return Plan(_unchanged(documents), writes, lambda _: None)

            await erasing_step(self._scope, keys.log_key(self._scope.space), attempt)

        count = 0
        async for page in self._all(Scan(self._scope.space, keys.BATCH, limit=PAGE), Batch, unread):
            spoken = [document.key for document, batch in page if any(map(about, batch.proposals))]
            held = [key for key in spoken if key.id not in kept]
            before = len(kept)
            await self._despite_damage("batch", held, clear, lambda key: key.id, kept)
            count += len(held) - (len(kept) - before)
        return count

    async def _revocations(
        self, wanted: Targets, names: Set[str], unread: dict[str, str], kept: dict[str, str]
    ) -> None:
        """Take out of every revocation of what is erased, or of a source that it cites, what it says; that it is
        revoked stays known by its hash, to whoever cites it too.

        All of them are looked at: their keys are hashes, which tell nothing of whose message it was.
        """

        async def forget(held: Sequence[Key]) -> None:
            async def attempt() -> Plan[None]:
                found = await self._scope.get_all([Get(key) for key in held])
                documents = [document for document in found if document is not None]
                writes = [keys.put_revocation(one.key, nameless(load(one, Revoked))) for one in documents]
                return Plan(_unchanged(documents), writes, lambda _: None)

            await erasing_step(self._scope, keys.log_key(self._scope.space), attempt)

        def about(revoked: Revoked) -> bool:
            return not names.isdisjoint({revoked.source_ref, folded(revoked.source_ref)}) or wanted.cited(
                [revoked.source_ref]
            )

        async for page in self._all(Scan(self._scope.space, keys.REVOCATION, limit=PAGE), Revoked, unread):
            telling = [document.key for document, revoked in page if about(revoked) and nameless(revoked) != revoked]
            held = [key for key in telling if key.id not in kept]
            await self._despite_damage("revocation", held, forget, lambda key: key.id, kept)


def _unchanged(documents: Iterable[Document]) -> list[Expect]:
    return [Expect(document.key, document.version) for document in documents]
