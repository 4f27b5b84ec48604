"""The frozen values of long-term memory: what is asked for, what is staged, what is known, what is found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strongroom.embedders.health import Failing
from strongroom.meant import Meant
from strongroom.retrieval import joined, unreadable
from strongroom.showing import shown_by

SCHEMA_VERSION: Literal["2.1"] = "2.1"

Op = Literal["add", "supersede", "deprecate", "noop"]
Type = Literal["fact", "preference", "policy", "decision", "invariant"]
ScopeName = Literal["user", "project", "global"]
End = Literal["superseded", "deprecated", "expired", "revoked", "erased"]
Status = Literal["active", End]
Mode = Literal["lexical", "vector", "hybrid"]
Outcome = Literal["pending", "committed", "duplicate", "rejected"]
Trust = Literal["untrusted", "unverified", "trusted"]

Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Id = Annotated[str, Meta(min_length=3, max_length=255)]
Share = Annotated[float, Meta(ge=0, le=1)]
Time = Annotated[datetime, Meta(tz=True)]
Tag = Annotated[str, Meta(min_length=1, max_length=100)]
Value = Annotated[str, Meta(max_length=1_000)] | int | float | bool | None

T = TypeVar("T")


@shown_by("op", "type", "scope", "user_id", "project_id", "content")
class Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A memory change request, version 2.1, plus fields of our own: trust, expiry, tags, metadata, times of events.

    `created_at` and `updated_at` are kept with the request; a memory is dated by the store, not by who proposes it.
    When what it tells happened, and from when until when it is so, is the proposer's to say.
    """

    schema_version: Literal["2.1"] = msgspec.field(name="_schema_version", default=SCHEMA_VERSION)
    op: Op
    type: Type
    scope: ScopeName
    content: Text
    rationale: Text
    confidence: Share
    source_refs: tuple[Text, ...]
    supersedes: tuple[Id, ...] = ()
    target_memory_id: Id | None = None
    memory_id: Id | None = None
    user_id: Name | None = None
    project_id: Name | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    expires_at: Time | None = None
    trust: Trust | None = None
    tags: Annotated[tuple[Tag, ...], Meta(max_length=32)] = ()
    metadata: Annotated[dict[Tag, Value], Meta(max_length=64)] = {}
    happened_at: Time | None = None
    valid_from: Time | None = None
    valid_until: Time | None = None


class _Needed(TypedDict):
    op: Op
    type: Type
    scope: ScopeName
    content: str
    rationale: str
    confidence: float
    source_refs: Sequence[str]


class MemoryRequest(_Needed, total=False):
    """A `Request` as the plain data that callers write, for type checkers.

    >>> ctx = strongroom.open("memory://")
    >>> request: strongroom.MemoryRequest = {
    ...     "op": "add", "type": "fact", "scope": "user", "user_id": "ana", "content": "lives in Rome",
    ...     "rationale": "she said so", "confidence": 0.9, "source_refs": ["message:chat-7#12"],
    ... }
    >>> ctx.memories.propose(request, proposer="agent-7").status
    'pending'
    """

    _schema_version: Literal["2.1"]
    supersedes: Sequence[str]
    target_memory_id: str | None
    memory_id: str | None
    user_id: str | None
    project_id: str | None
    created_at: datetime | str | None
    updated_at: datetime | str | None
    expires_at: datetime | str | None
    trust: Trust | None
    tags: Sequence[str]
    metadata: Mapping[str, str | int | float | bool | None]
    happened_at: datetime | str | None
    valid_from: datetime | str | None
    valid_until: datetime | str | None


class Ended(Struct, frozen=True):
    """How a memory stopped being active, or stopped being believed at all after that."""

    status: End
    at: datetime
    by: str
    reason: str = ""


@shown_by("id", "status", "type", "scope", "user_id", "project_id", "content")
class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing known for longer than a run. Its status changes, never back to active; nothing else does.

    Where its reviewer chose other words, `edited_from` is what its proposer had said.

    >>> ctx = strongroom.open("memory://")
    >>> memory = ctx.memories.get(ctx.memories.add("likes tea", user_id="ana").id)
    >>> memory.content, memory.scope, memory.status
    ('likes tea', 'user', 'active')
    """

    id: str
    type: Type
    scope: ScopeName
    content: str
    rationale: str
    confidence: float
    status: Status
    trust: Trust
    proposer: str
    reviewer: str
    batch_id: str
    proposed_at: datetime
    created_at: datetime
    updated_at: datetime
    source_refs: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    run_id: str | None = None
    expires_at: datetime | None = None
    ended: tuple[Ended, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: dict[str, str | int | float | bool | None] = {}
    happened_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    edited_from: str | None = None

    @property
    def told_at(self) -> datetime:
        """When what it tells happened, as far as anybody said; else when it became known."""
        return self.happened_at or self.created_at

    def to_dict(self) -> dict[str, Any]:
        """Return the v2.1 memory item, which knows only three statuses."""
        return {
            "_schema_version": SCHEMA_VERSION,
            "memory_id": self.id,
            "type": self.type,
            "scope": self.scope,
            "content": self.content,
            "confidence": self.confidence,
            "status": self.status if self.status in ("active", "deprecated") else "inactive",
            "source_refs": list(self.source_refs),
            "created_at": msgspec.to_builtins(self.created_at),
            "updated_at": msgspec.to_builtins(self.updated_at),
            "user_id": self.user_id,
            "project_id": self.project_id,
            "supersedes": list(self.supersedes),
        }


@shown_by("id", "score", "content", "why")
class Hit(Meant, Struct, frozen=True):
    """A memory that answers a query, how well (more is better, within one answer only), and why.

    >>> ctx = strongroom.open("memory://")
    >>> _ = ctx.memories.add("likes tea", user_id="ana")
    >>> [(hit.content, hit.memory.status) for hit in ctx.memories.search("tea", user_id="ana")]
    [('likes tea', 'active')]
    """

    memory: Memory
    score: float
    why: str

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.memory.id

    @property
    def content(self) -> str:
        """What the memory says."""
        return self.memory.content


@shown_by("memory_id", "outcome", "request.op", "trust", "flags", "request.content")
class Proposal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a batch. `near_duplicates` and `replaces` are filled in for the reviewer, and never stored;
    while it is pending that goes for `duplicate_of` too, the memory that says the same. `edited` is what was committed
    instead of the request's content, if the reviewer chose other words; its `flags` are then those of that text.
    """

    request: Request
    memory_id: str | None = None
    trust: Trust = "untrusted"
    flags: tuple[str, ...] = ()
    outcome: Outcome = "pending"
    duplicate_of: str | None = None
    edited: str | None = None
    reason: str = ""
    near_duplicates: tuple[Hit, ...] = ()
    replaces: tuple[Memory, ...] = ()


@shown_by("id", "status", "proposer", "proposals", "created_at", "reviewer", "reason")
class Batch(Meant, Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a proposer asks for, to be committed or rejected as one.

    >>> ctx = strongroom.open("memory://")
    >>> asked = ctx.memories.add("lives in Rome", user_id="ana", proposer="agent-7")
    >>> [batch] = ctx.memories.pending()
    >>> batch.proposer, [proposal.request.content for proposal in batch.proposals]
    ('agent-7', ['lives in Rome'])
    >>> ctx.memories.reject(batch, reviewer="bo", reason="she moved").status
    'rejected'
    """

    id: str
    status: Literal["pending", "committed", "rejected"]
    proposer: str
    created_at: datetime
    proposals: tuple[Proposal, ...]
    run_id: str | None = None
    reviewer: str | None = None
    decided_at: datetime | None = None
    reason: str = ""


@shown_by("batch_id", "reviewer", "memory_ids", "ended_ids", "duplicate_ids", "rejected", "edited")
class Committed(Struct, frozen=True):
    """What committing a batch did. Asking again gives the same answer."""

    batch_id: str
    reviewer: str
    at: datetime
    memory_ids: tuple[str, ...]
    ended_ids: tuple[str, ...]
    duplicate_ids: tuple[str, ...]
    rejected: tuple[int, ...]
    edited: tuple[int, ...] = ()


class Written(Meant, Struct, frozen=True, kw_only=True):
    """What became of a change in one line: known now (`active`, `deprecated`), `pending` in a batch that waits for a
    reviewer, or `known` already, as the memory `id`. `flags` say what kept it from being committed at once. A repeat of
    what was `erased` since says so, and changes nothing.
    """

    id: str
    status: Literal["active", "deprecated", "pending", "known", "erased"]
    batch_id: str
    flags: tuple[str, ...] = ()


def id_of(batch: Batch | Written | str) -> str:
    """Return the id of a batch that is given by it, as itself, or by what became of a change that waits in it."""
    if isinstance(batch, Written):
        return batch.batch_id
    return batch.id if isinstance(batch, Batch) else batch


class Learnt(Struct, frozen=True, kw_only=True):
    """What was learnt from a session: from how many messages, and the batch of proposals it became, if any. `refused`
    says what of the model's answer was left out, and what of a very long message it was not shown; `left` is how many
    messages wait for the next call.
    """

    session_id: str
    messages: int = 0
    left: int = 0
    batch_id: str | None = None
    proposals: int = 0
    refused: tuple[str, ...] = ()


class Consolidated(Struct, frozen=True, kw_only=True):
    """What was suggested for the memories of one owner: how many were looked at, how many groups of them a model
    judged, and the batch of proposals that came of it, if any. `left` groups wait for the next call; `next` is where
    older memories go on. `refused` says what of the model's answer was left out, `degraded` what was not looked at.
    """

    memories: int = 0
    groups: int = 0
    left: int = 0
    next: str | None = None
    batch_id: str | None = None
    proposals: int = 0
    refused: tuple[str, ...] = ()
    degraded: str | None = None


class Revoked(Struct, frozen=True, kw_only=True):
    """A source that is no longer believed, and how many memories went with it."""

    source_ref: str
    by: str
    reason: str
    at: datetime
    done: bool
    memories: int = 0


@shown_by("memories", "derived", "batches", "by", "reason", "complete", "pending")
class Erased(Struct, frozen=True, kw_only=True):
    """What was erased: the ids of memories, and how many batches spoke of them. `derived` are memories made from those
    that are still there. Until it is `complete`, `pending` says why bytes may still lie in the store's files, and what
    is damaged, so that nobody knows whether it is about them.
    """

    memories: tuple[str, ...]
    derived: tuple[str, ...]
    batches: int
    by: str
    reason: str
    at: datetime
    complete: bool = False
    pending: str | None = None


class SearchHealth(Struct, frozen=True, kw_only=True):
    """What memories are searched by meaning with, whether it works, and how many changes are not in the index yet.

    They are taken in by the next search that reaches both; no write waits for that. Without an embedder there is none.
    """

    embedder: str | None = None
    index: str | None = None
    waiting: int = 0
    embedder_failing: Failing | None = None
    index_failing: Failing | None = None


@shown_by("event", "memory_id", "at", "by", "content", "reason")
class Change(Struct, frozen=True, kw_only=True):
    """One step in the life of a memory or of one it replaced."""

    at: datetime
    event: Literal["proposed", "committed", "superseded", "deprecated", "expired", "revoked", "erased"]
    memory_id: str
    by: str
    content: str
    reason: str = ""
    batch_id: str = ""
    run_id: str | None = None


# At one instant an end comes before the beginning that caused it, and a revocation comes last.
_ORDER = ("proposed", "superseded", "deprecated", "expired", "committed", "revoked", "erased")


def changes(memories: Iterable[Memory]) -> list[Change]:
    """Return every step in the lives of these memories, oldest first."""
    found: list[Change] = []
    for memory in memories:
        proposed = Change(
            at=memory.proposed_at,
            event="proposed",
            memory_id=memory.id,
            by=memory.proposer,
            content=memory.content if memory.edited_from is None else memory.edited_from,
            reason=memory.rationale,
            batch_id=memory.batch_id,
            run_id=memory.run_id,
        )
        committed = replace(proposed, at=memory.created_at, event="committed", by=memory.reviewer)
        found += [proposed, replace(committed, content=memory.content)]
        found.extend(
            Change(
                at=ended.at,
                event=ended.status,
                memory_id=memory.id,
                by=ended.by,
                content=memory.content,
                reason=ended.reason,
            )
            for ended in memory.ended
        )
    return sorted(found, key=lambda change: (change.at, _ORDER.index(change.event), change.memory_id))


class Results(list[T]):
    """A list that also says where the next page starts (`next`) and what it could not look at (`degraded`).

    `damaged` are the ids of what belongs in it and cannot be read; `degraded` tells of them too.
    """

    def __init__(
        self,
        items: Iterable[T] = (),
        *,
        next: str | None = None,
        degraded: str | None = None,
        damaged: Iterable[str] = (),
    ) -> None:
        super().__init__(items)
        self.next = next
        self.damaged = tuple(damaged)
        self.degraded = joined(degraded, unreadable(self.damaged))

    def __repr__(self) -> str:
        told = [f", {name}={value!r}" for name, value in vars(self).items() if value not in (None, ())]
        return f"Results({super().__repr__()}{''.join(told)})"


LABELS: tuple[Trust, ...] = ("untrusted", "unverified", "trusted")
_RANK = {label: rank for rank, label in enumerate(LABELS)}


def lowest(ceiling: Trust, others: Iterable[Trust]) -> Trust:
    """Return the least trusting of the labels."""
    return min((ceiling, *others), key=_RANK.__getitem__)


def at_least(label: Trust, floor: Trust) -> bool:
    """Tell whether `label` is trusted as much as `floor`, or more."""
    return _RANK[label] >= _RANK[floor]
