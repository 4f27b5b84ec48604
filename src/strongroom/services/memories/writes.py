"""What committing a batch would write, decided from what was read. Pure.

Every document a decision rests on is expected to be unchanged, so the commit holds exactly when the decision does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import Json, pack
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.services.memories import keys
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.requests import replaced
from strongroom.services.memories.trust import Trust, at_least, lowest
from strongroom.services.memories.values import Batch, Committed, End, Ended, Memory, Proposal, Request
from strongroom.store import Document, Expect, Key, Write
from strongroom.values import moment

T = TypeVar("T")


class World(Struct, frozen=True):
    """What a decision rests on: documents by key, and the ids of the active memories that say what it asked about.

    Contents that nobody has need no expectation: whoever is made active claims its own.
    """

    documents: dict[Key, Document | None] = {}
    holders: dict[str, str] = {}

    def get(self, key: Key) -> Document | None:
        return self.documents.get(key)

    def expects(self) -> list[Expect]:
        """Return what must still be so when the decision is committed."""
        return [Expect(key, document.version if document else 0) for key, document in self.documents.items()]


class BatchWrites(Struct, frozen=True):
    """What to join to a commit so that a batch is committed with it; `batch` is what the batch is then."""

    expects: tuple[Expect, ...]
    writes: tuple[Write, ...]
    memory_ids: tuple[str, ...]
    batch: Batch


def load(document: Document, type: type[T]) -> T:
    return msgspec.json.decode(document.value, type=type)


def keys_to_read(space: str, requests: Iterable[Request], ids: Iterable[str | None]) -> list[Key]:
    """Return the keys that deciding about these requests depends on."""
    found: dict[Key, None] = {}
    for request, id in zip(requests, ids, strict=True):
        if id is not None and request.memory_id is not None:  # one we made ourselves is new; expecting that is enough
            found[Key(space, keys.MEMORY, id)] = None
        for target in replaced(request):
            found[Key(space, keys.MEMORY, target)] = None
        for ref in request.source_refs:
            found[keys.revocation_key(space, ref)] = None
            if keys.can_be_id(ref):
                found[Key(space, keys.MEMORY, ref)] = None
    return list(found)


def looks_around(batch: Batch) -> bool:
    """Tell whether anything in a batch refers to what is already known. If not, it stands as it was proposed."""
    requests = [proposal.request for proposal in batch.proposals]
    return any(request.op != "add" or request.memory_id or request.source_refs for request in requests)


def receipt(batch: Batch) -> Committed:
    """Return what committing this batch did: a function of the batch, so every asker gets the same."""
    assert batch.reviewer is not None and batch.decided_at is not None
    done = [proposal for proposal in batch.proposals if proposal.outcome in ("committed", "duplicate")]
    return Committed(
        batch.id,
        batch.reviewer,
        batch.decided_at,
        tuple([p.memory_id for p in done if p.outcome == "committed" and p.memory_id]),
        tuple([target for p in done for target in replaced(p.request)]),
        tuple([p.duplicate_of for p in done if p.duplicate_of]),
        tuple([place for place, p in enumerate(batch.proposals) if p.outcome == "rejected"]),
    )


class Remembered(Struct, frozen=True):
    """What the receipt of a proposal keeps, so that the batch can be shown as it was even after it was decided.

    Requests and ids never change; trust and flags may, so they are kept: each kind once, and for each place its kind.
    """

    batch_id: str
    pending: bool
    kinds: list[tuple[Trust, tuple[str, ...]]]
    places: list[int]


def remembered(batch: Batch) -> Json:
    found = [(proposal.trust, proposal.flags) for proposal in batch.proposals]
    kinds = {kind: place for place, kind in enumerate(dict.fromkeys(found))}
    return pack(Remembered(batch.id, batch.status == "pending", list(kinds), [kinds[kind] for kind in found]))


def recalled(answer: Remembered, batch: Batch) -> Batch:
    """Return the batch as it was when the answer was kept. One that is decided never changes again."""
    if not answer.pending or batch.status == "pending":
        return batch
    proposals = [
        Proposal(request=proposal.request, memory_id=proposal.memory_id, trust=trust, flags=flags)
        for proposal, (trust, flags) in zip(batch.proposals, [answer.kinds[n] for n in answer.places], strict=True)
    ]
    return replace(batch, status="pending", proposals=tuple(proposals), reviewer=None, decided_at=None, reason="")


def same(wanted: Batch, found: Batch) -> Batch:
    """Return the batch that is there if it asks for the same, else raise."""
    asked = [(proposal.request, proposal.memory_id) for proposal in wanted.proposals]
    if wanted.proposer == found.proposer and asked == [(p.request, p.memory_id) for p in found.proposals]:
        return found
    raise Conflict(f"there already is another batch {found.id!r}; nothing changed", expected=0, actual=1)


def already_decided(batch: Batch, version: int) -> Conflict:
    return Conflict(
        f"batch {batch.id!r} was {batch.status} by {batch.reviewer!r}; nothing changed", expected=1, actual=version
    )


def turn_down(
    space: str, batch: Batch, expects: tuple[Expect, ...], reviewer: str, reason: str, now: int
) -> BatchWrites:
    """Return what to commit so that a batch is rejected."""
    refused = tuple([replace(proposal, outcome="rejected", reason=reason) for proposal in batch.proposals])
    batch = replace(
        batch, status="rejected", proposals=refused, reviewer=reviewer, decided_at=moment(now), reason=reason
    )
    note = keys.log(space, "REJECTED", now, reviewer, batch_id=batch.id, reason=reason)
    writes = (keys.put_batch(space, batch), note, keys.tally(space, keys.DECIDED, batch, now))
    return BatchWrites(expects, writes, (), batch)


class Decision:
    """What committing a batch would do. Made by applying its requests to the world one by one.

    Raises if the batch can not be committed as it stands. `settled` is the batch as it would be then.
    """

    def __init__(
        self,
        space: str,
        batch: Batch,
        world: World,
        *,
        policy: Policy,
        reviewer: str,
        run_id: str | None,
        reject: Mapping[int, str],
        now: int,
    ) -> None:
        self.space, self.batch, self.world = space, batch, world
        self.reviewer, self.run_id, self.now = reviewer, run_id or batch.run_id, now
        self.at = moment(now)
        self.ceiling = policy.ceiling(batch.proposer)
        self.common = _blank(batch, reviewer, self.run_id, self.at)
        self.changed: dict[Key, Memory] = {}
        self.contents: dict[str, str | None] = {}
        self.said: dict[Key, keys.Said] = {}
        self.added: list[str] = []
        self.removed: list[str] = []
        self.refused: set[str] = set()

        self.settled = replace(
            batch, status="committed", proposals=tuple(self._settle(reject)), reviewer=reviewer, decided_at=self.at
        )

    def writes(self, version: int) -> BatchWrites:
        """Return what to commit if the batch is stored at `version`."""
        expects = [Expect(Key(self.space, keys.BATCH, self.batch.id), version)]
        expects += self.world.expects()
        expects += [Expect(key, 0) for key in self.changed if key not in self.world.documents]
        return BatchWrites(tuple(expects), tuple(self._writes()), tuple(self.added), self.settled)

    def _settle(self, reject: Mapping[int, str]) -> Iterator[Proposal]:
        for place in reject:
            if type(place) is not int or not 0 <= place < len(self.batch.proposals):
                raise InvalidInput(f"batch {self.batch.id!r} has no proposal {place!r:.40}; nothing changed")
        for place, proposal in enumerate(self.batch.proposals):
            if place in reject:
                if proposal.memory_id is not None:
                    self.refused.add(proposal.memory_id)
                yield replace(proposal, outcome="rejected", reason=reject[place])
            else:
                yield self._apply(proposal, place)

    def _writes(self) -> list[Write]:
        batch = self.settled
        log = keys.log(
            self.space, "COMMITTED", self.now, self.reviewer, batch_id=batch.id, added=self.added, removed=self.removed
        )
        return [
            keys.put_batch(self.space, batch),
            *[keys.put_memory(key, memory, self.said.get(key)) for key, memory in self.changed.items()],
            log,
            keys.tally(self.space, keys.DECIDED, batch, self.now),
        ]

    def _apply(self, proposal: Proposal, place: int) -> Proposal:
        request = proposal.request
        if request.op == "noop":
            return replace(proposal, outcome="committed")
        derived, trust = self._provenance(proposal, place)
        flags = proposal.flags and tuple([flag for flag in proposal.flags if flag != "replaces_more_trusted"])
        ended = [self._target(target, request, place) for target in replaced(request)]
        if ended and any(not at_least(trust, memory.trust) for memory in ended):
            flags = (*flags, "replaces_more_trusted")
        proposal = replace(proposal, trust=trust, flags=flags, outcome="committed")
        if request.op == "deprecate":
            for memory in ended:
                self._end(memory, "deprecated", request.rationale)
            return proposal
        for memory in ended:
            self._end(memory, "superseded", request.rationale)
        memory = self._make(proposal, derived)
        key = self._key(memory.id)
        if request.memory_id is not None and self._get(key) is not None:
            raise Conflict(
                f"$[{place}]: there already is a memory {memory.id!r}; nothing changed",
                expected=0,
                actual=self._version(key),
            )
        said = self.said[key] = keys.said(request)
        twin = self._twin(said.claim)
        if ended:
            self._succeed(ended, twin or memory.id)
        if twin is not None:
            # Kept, though never active: what cites it must not lose its sources, or a revocation would miss it.
            repeated = end(memory, "superseded", self.reviewer, "known already", self.at)
            self.changed[key] = replace(repeated, superseded_by=twin)
            return replace(proposal, outcome="duplicate", duplicate_of=twin)
        self.changed[key] = memory
        self.contents[said.claim] = memory.id
        self.added.append(memory.id)
        return proposal

    def _provenance(self, proposal: Proposal, place: int) -> tuple[tuple[str, ...], Trust]:
        request = proposal.request
        if not request.source_refs:
            return (), lowest(self.ceiling, [request.trust]) if request.trust else self.ceiling
        labels = [request.trust] if request.trust else []
        derived = []
        path = f"$[{place}]"
        for ref in dict.fromkeys(request.source_refs):
            if ref in self.refused:
                raise InvalidInput(f"its source {ref!r} was rejected; reject it too; nothing changed", path=path)
            if self.world.get(keys.revocation_key(self.space, ref)) is not None:
                raise InvalidInput(f"its source {ref!r:.200} was revoked; nothing changed", path=path)
            source = self._get(self._key(ref)) if keys.can_be_id(ref) else None
            if source is None and ref.startswith(keys.OUR_IDS):
                # Citing a memory before it is known would escape the limit its trust will set.
                raise NotFound(f"{path}: its source {ref!r:.80} is not known; nothing changed", kind="memory", id=ref)
            if source is None:
                continue
            if source.status == "revoked":
                raise InvalidInput(f"its source {ref!r} was revoked; nothing changed", path=path)
            derived.append(ref)
            labels.append(source.trust)
        return tuple(derived), lowest(self.ceiling, labels)

    def _target(self, id: str, request: Request, place: int) -> Memory:
        key, path = self._key(id), f"$[{place}]"
        memory = self._get(key)
        if memory is None or id in self.added:
            raise NotFound(f"{path}: there is no memory {id!r}; nothing changed", kind="memory", id=id)
        if (memory.scope, memory.user_id, memory.project_id) != (request.scope, request.user_id, request.project_id):
            raise InvalidInput(f"{id!r} is of another scope, user or project; nothing changed", path=path)
        if memory.status != "active" or expired(memory, self.at):
            status = "expired" if memory.status == "active" else memory.status
            raise Conflict(
                f"{path}: memory {id!r} is {status}, not active; nothing changed", expected=1, actual=self._version(key)
            )
        return memory

    def _twin(self, content: str) -> str | None:
        """Return the active memory that already holds this content. One that has expired makes room."""
        holder = self.contents[content] if content in self.contents else self.world.holders.get(content)
        if holder is None:
            return None
        memory = self._get(self._key(holder))
        if memory is not None and expired(memory, self.at):
            self._end(memory, "expired", "")
            return None
        return holder

    def _end(self, memory: Memory, status: End, reason: str) -> None:
        ended = end(memory, status, self.reviewer, reason, self.at)
        self.changed[self._key(memory.id)] = ended
        self.contents[keys.said(memory).claim] = None
        self.removed.append(memory.id)

    def _succeed(self, ended: Iterable[Memory], successor: str) -> None:
        for key in [self._key(memory.id) for memory in ended]:
            self.changed[key] = replace(self.changed[key], superseded_by=successor)

    def _make(self, proposal: Proposal, derived: tuple[str, ...]) -> Memory:
        request = proposal.request
        assert proposal.memory_id is not None
        return replace(
            self.common,
            id=proposal.memory_id,
            type=request.type,
            scope=request.scope,
            content=request.content,
            rationale=request.rationale,
            confidence=request.confidence,
            trust=proposal.trust,
            source_refs=request.source_refs and tuple(dict.fromkeys(request.source_refs)),
            derived_from=derived,
            supersedes=request.supersedes,
            user_id=request.user_id,
            project_id=request.project_id,
            expires_at=request.expires_at,
        )

    def _version(self, key: Key) -> int:
        document = self.world.get(key)
        return document.version if document else 0

    def _get(self, key: Key) -> Memory | None:
        if key in self.changed:
            return self.changed[key]
        document = self.world.get(key)
        return load(document, Memory) if document else None

    def _key(self, id: str) -> Key:
        return Key(self.space, keys.MEMORY, id)


def _blank(batch: Batch, reviewer: str, run_id: str | None, at: datetime) -> Memory:
    """Return what the memories of a batch have in common. To fill it in costs a fifth of making one from its parts."""
    return Memory(
        id="",
        type="fact",
        scope="global",
        content="",
        rationale="",
        confidence=0.0,
        status="active",
        trust="untrusted",
        proposer=batch.proposer,
        reviewer=reviewer,
        batch_id=batch.id,
        proposed_at=batch.created_at,
        created_at=at,
        updated_at=at,
        run_id=run_id,
    )


def end(memory: Memory, status: End, by: str, reason: str, at: datetime) -> Memory:
    """Return the memory as it is once it is no longer active, or no longer believed."""
    return replace(memory, status=status, updated_at=at, ended=(*memory.ended, Ended(status, at, by, reason)))


def expired(memory: Memory, at: datetime) -> bool:
    return memory.expires_at is not None and memory.expires_at <= at
