"""What committing a batch would write: read what it depends on, decide purely, expect all of it to be unchanged.

So the commit holds exactly when the decision does. Only `decide` and `world_of` read; everything else is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from strongroom.errors import Conflict, InvalidInput, NotFound, StrongroomError
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.keys import load
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.requests import accepted, replaced
from strongroom.services.memories.values import Batch, End, Ended, Memory, Proposal, Request, Trust, at_least, lowest
from strongroom.store import Document, Expect, Get, Key, Write
from strongroom.values import moment


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


async def decide(
    scope: Scope,
    policy: Policy,
    batch: Batch,
    version: int,
    reviewer: str,
    run_id: str | None,
    reject: Mapping[int, str],
    *,
    contents: bool,
) -> Decision | None:
    """Decide what committing a batch writes; None if somebody decided the batch itself meanwhile."""
    space = scope.space
    kept = [proposal for place, proposal in enumerate(batch.proposals) if place not in reject]
    requests = [accepted(proposal) for proposal in kept]
    ids = [proposal.memory_id for proposal in kept]
    said = [keys.said(accepted(proposal)).claim for proposal in kept if proposal.memory_id is not None and contents]
    world = await world_of(scope, keys_to_read(space, requests, ids), said)
    try:
        return Decision(
            space,
            batch,
            world,
            policy=policy,
            reviewer=reviewer,
            run_id=run_id,
            reject=reject,
            now=scope.clock(),
        )
    except StrongroomError:
        # What stands in the way may be this very batch, committed since we read it.
        stored = await scope.get(Get(scope.key(keys.BATCH, batch.id)))
        if (stored.version if stored else 0) != version:
            return None
        raise


async def world_of(scope: Scope, wanted: Sequence[Key], contents: Sequence[str]) -> World:
    """Return what the keys hold and who says the contents, from one snapshot."""
    said = list(dict.fromkeys(contents))
    holding = [keys.holder(scope.space, content) for content in said]
    found, pages = await scope.read_all([Get(key) for key in wanted], holding)
    documents: dict[Key, Document | None] = dict(zip(wanted, found, strict=True))
    holders = {}
    for content, page in zip(said, pages, strict=True):
        for document in page.documents:
            holders[content] = document.key.id
            documents[document.key] = document
    return World(documents, holders)


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


class Decision:
    """What committing a batch would do. Made by applying its requests to the world one by one.

    Raises if the batch cannot be committed as it stands. `settled` is the batch as it would be then.
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
        # An edited text has two authors, and is trusted no more than either.
        self.edited_ceiling = lowest(self.ceiling, [policy.ceiling(reviewer)])
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
        require_places(self.batch, reject)
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
        request = accepted(proposal)
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
        if twin is not None and not at_least(twin.trust, trust):
            self._end(twin, "superseded", "known from a better source")
            memory = replace(memory, supersedes=(*memory.supersedes, twin.id))
            ended, twin = [*ended, twin], None
        if ended:
            self._succeed(ended, twin.id if twin is not None else memory.id)
        if twin is not None:
            # Kept, though never active: what cites it must not lose its sources, or a revocation would miss it.
            repeated = end(memory, "superseded", self.reviewer, "known already", self.at)
            self.changed[key] = replace(repeated, superseded_by=twin.id)
            return replace(proposal, outcome="duplicate", duplicate_of=twin.id)
        self.changed[key] = memory
        self.contents[said.claim] = memory.id
        self.added.append(memory.id)
        return proposal

    def _provenance(self, proposal: Proposal, place: int) -> tuple[tuple[str, ...], Trust]:
        request = proposal.request
        ceiling = self.ceiling if proposal.edited is None else self.edited_ceiling
        if not request.source_refs:
            return (), lowest(ceiling, [request.trust]) if request.trust else ceiling
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
        return tuple(derived), lowest(ceiling, labels)

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

    def _twin(self, content: str) -> Memory | None:
        """Return the active memory that already holds this content. One that has expired makes room."""
        holder = self.contents[content] if content in self.contents else self.world.holders.get(content)
        if holder is None:
            return None
        memory = self._get(self._key(holder))
        if memory is not None and expired(memory, self.at):
            self._end(memory, "expired", "")
            return None
        return memory

    def _end(self, memory: Memory, status: End, reason: str) -> None:
        ended = end(memory, status, self.reviewer, reason, self.at)
        self.changed[self._key(memory.id)] = ended
        self.contents[keys.said(memory).claim] = None
        if memory.id in self.added:  # by this very batch: nobody ever found it
            self.added.remove(memory.id)
        else:
            self.removed.append(memory.id)

    def _succeed(self, ended: Iterable[Memory], successor: str) -> None:
        for key in [self._key(memory.id) for memory in ended]:
            self.changed[key] = replace(self.changed[key], superseded_by=successor)

    def _make(self, proposal: Proposal, derived: tuple[str, ...]) -> Memory:
        request, batch = accepted(proposal), self.batch
        assert proposal.memory_id is not None
        return Memory(
            id=proposal.memory_id,
            type=request.type,
            scope=request.scope,
            content=request.content,
            rationale=request.rationale,
            confidence=request.confidence,
            status="active",
            trust=proposal.trust,
            proposer=batch.proposer,
            reviewer=self.reviewer,
            batch_id=batch.id,
            proposed_at=batch.created_at,
            created_at=self.at,
            updated_at=self.at,
            source_refs=tuple(dict.fromkeys(request.source_refs)),
            derived_from=derived,
            supersedes=request.supersedes,
            user_id=request.user_id,
            project_id=request.project_id,
            run_id=self.run_id,
            expires_at=request.expires_at,
            tags=tuple(dict.fromkeys(request.tags)),
            metadata=request.metadata,
            happened_at=request.happened_at,
            valid_from=request.valid_from,
            valid_until=request.valid_until,
            edited_from=None if proposal.edited is None else proposal.request.content,
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


def require_places(batch: Batch, places: Iterable[int]) -> None:
    """Refuse what names a proposal that is not there."""
    for place in places:
        if type(place) is not int or not 0 <= place < len(batch.proposals):
            raise InvalidInput(f"batch {batch.id!r} has no proposal {place!r:.40}; nothing changed")


def end(memory: Memory, status: End, by: str, reason: str, at: datetime) -> Memory:
    """Return the memory as it is once it is no longer active, or no longer believed."""
    return replace(memory, status=status, updated_at=at, ended=(*memory.ended, Ended(status, at, by, reason)))


def expired(memory: Memory, at: datetime) -> bool:
    return memory.expires_at is not None and memory.expires_at <= at
