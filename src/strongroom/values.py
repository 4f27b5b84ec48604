"""The frozen values a user of runs sees. Plain data: nothing here reads, writes or decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from strongroom.errors import InvalidInput
from strongroom.meant import Meant
from strongroom.payloads import ErrorTold as ErrorTold
from strongroom.payloads import ModelAction as ModelAction
from strongroom.payloads import ModelUpdate as ModelUpdate
from strongroom.payloads import Spent as Spent
from strongroom.payloads import StepRequest as StepRequest
from strongroom.payloads import ToolCall as ToolCall
from strongroom.payloads import ToolResult as ToolResult
from strongroom.showing import shown_by

SCHEMA_VERSION = "2.1"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Status = Literal["BOOT", "IDLE", "BUSY", "WAITING_INPUT", "PAUSED", "DONE", "FAILED"]

T = TypeVar("T")


def moment(microseconds: int) -> datetime:
    """Turn the clock's microseconds into the aware UTC time a user sees: the first or the last one there is for what is
    no time of any calendar, since one record that says so must not keep its neighbours from being shown."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return (datetime.min if microseconds < 0 else datetime.max).replace(tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Turn an aware time into the clock's microseconds."""
    passed = at - EPOCH
    return (passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds


def iso(at: datetime) -> str:
    """Write a time the one way we write times: UTC, microseconds, Z."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Listing(tuple[T, ...], Generic[T]):
    """A page of things, and the cursor of the next page (None at the end). It equals a list of the same things.

    `damaged` are the ids of what belongs on it and cannot be read; `strongroom check` says more.

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> for number in range(5):
    ...     _ = run.record("TOOL_CALL", {"tool_name": f"track {number}"})
    >>> page = run.events(limit=4)
    >>> len(page), len(run.events(limit=4, after=page.next))
    (4, 2)
    """

    next: str | None
    damaged: tuple[str, ...]

    def __new__(cls, items: Iterable[T] = (), next: str | None = None, damaged: tuple[str, ...] = ()) -> Listing[T]:
        made = super().__new__(cls, items)
        made.next = next
        made.damaged = damaged
        return made

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # a tuple has one of its own

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        """Show that it is not all: a page that looks like a whole list is taken for one."""
        more = "" if self.next is None else f" and more: next={self.next!r}"
        damaged = "" if not self.damaged else f" and {len(self.damaged)} damaged"
        return super().__repr__() + more + damaged


# Where a page of a stream begins: after so many, or after another page, by what that one calls `next`.
Cursor = int | str | None


def place_of(after: Cursor) -> int:
    """Return how many come before a page."""
    place = int(after) if isinstance(after, str) and after.isdecimal() and len(after) < 19 else after
    if place is None:
        return 0
    if type(place) is int and place >= 0:
        return place
    raise InvalidInput(f"after must be a whole number, 0 or more, or what a page calls `next`, not {after!r:.40}")


# ---- the working set ------------------------------------------------------------------------------------------------


class ArtifactRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pointer from a working set to stored content, or, without a `sha256`, to something kept elsewhere."""

    type: str
    id: str
    path: str = ""
    sha256: str = ""


class PinnedItem(Struct, frozen=True, kw_only=True):
    """Context that stays until somebody takes it out."""

    id: str
    content: str
    source_ref: str = ""


class SlidingItem(Struct, frozen=True, kw_only=True):
    """Context that makes room for more important or newer context. Priority 9 goes last."""

    id: str
    content: str
    timestamp: str
    priority: int


@shown_by("run_id", "seq", "status", "current_stage", "objective", "next_action")
class WorkingSet(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"schema_version": "_schema_version", "seq": "_update_seq", "own_state": "state"},
):
    """The state of a run after `seq` updates (version 2.1).

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> now = run.update(status="BUSY", blockers=["the carrier is closed"])
    >>> now.seq, now.status, now.blockers
    (1, 'BUSY', ('the carrier is closed',))
    >>> now.to_dict()["status"]
    'BUSY'
    """

    schema_version: Literal["2.1"] = "2.1"
    seq: int
    task_id: str
    thread_id: str
    run_id: str
    objective: str
    status: Status
    current_stage: str
    acceptance_criteria: tuple[str, ...]
    constraints: tuple[str, ...]
    blockers: tuple[str, ...]
    next_action: str
    last_action_summary: str
    artifact_refs: tuple[ArtifactRef, ...]
    pinned_context: tuple[PinnedItem, ...]
    sliding_context: tuple[SlidingItem, ...]
    own_state: dict[str, Any] | UnsetType | None = UNSET

    @property
    def state(self) -> dict[str, Any] | None:
        """The run's own state, as JSON; None if it has none."""
        return None if isinstance(self.own_state, UnsetType) else self.own_state

    def to_dict(self) -> dict[str, Any]:
        """Return the v2.1 JSON, as fresh plain data. The run's own state is not part of it."""
        return plain(msgspec.structs.replace(self, own_state=UNSET))


class ListFields(TypedDict, total=False):
    """The lists of a working set, and what an update may put into them."""

    acceptance_criteria: Sequence[str]
    constraints: Sequence[str]
    blockers: Sequence[str]
    artifact_refs: Sequence[ArtifactRef | Mapping[str, Any]]
    pinned_context: Sequence[PinnedItem | Mapping[str, Any]]
    sliding_context: Sequence[SlidingItem | Mapping[str, Any]]


class UpdateFields(ListFields, total=False):
    """The fields of a working set that an update may replace.

    >>> ctx = strongroom.open("memory://")
    >>> fields: strongroom.UpdateFields = {"status": "BUSY", "next_action": "call the carrier"}
    >>> ctx.runs.create(objective="Answer a ticket").update(**fields).status
    'BUSY'
    """

    status: Status
    current_stage: str
    next_action: str
    last_action_summary: str
    state: Any


class Removed(TypedDict, total=False):
    """What an update may take out of the lists of a working set: texts, and items as they are or by their ids."""

    acceptance_criteria: Sequence[str]
    constraints: Sequence[str]
    blockers: Sequence[str]
    artifact_refs: Sequence[str | ArtifactRef | Mapping[str, Any]]
    pinned_context: Sequence[str | PinnedItem | Mapping[str, Any]]
    sliding_context: Sequence[str | SlidingItem | Mapping[str, Any]]


class RunConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run was created with. It never changes, so every process evicts alike.

    >>> ctx = strongroom.open("memory://")
    >>> small = strongroom.RunConfig(ws_max_tokens=300, milestone_step_cap=10)
    >>> ctx.runs.create(objective="Take notes", config=small).config.ws_max_tokens
    300
    """

    ws_max_tokens: int = 2000
    pinned_context_max_items: int = 10
    milestone_step_cap: int | None = None
    milestone_error_cap: int | None = None
    state_max_bytes: int = 65_536


class EvictedItem(Struct, frozen=True, kw_only=True):
    """A sliding item that had to leave, and why. Its content is still in `run.at(seq - 1)`, or in the update."""

    id: str
    priority: int
    timestamp: str
    tokens: int
    reason: Literal["over_budget"] = "over_budget"


class Eviction(Struct, frozen=True, kw_only=True):
    """The receipt of an eviction: what left, in the order it left, and the tokens of the brief before and after."""

    evicted: tuple[EvictedItem, ...]
    tokens_before: int
    tokens_after: int
    max_tokens: int
    tokenizer: str


# ---- the ledger -----------------------------------------------------------------------------------------------------


@shown_by("sequence_id", "type", "actor", "at", "payload", "erased")
class Event(Struct, frozen=True, kw_only=True):
    """One entry of a run's ledger.

    `payload` is what the event's schema says; `detail` is what Strongroom adds for itself, such as the change an update
    made. An erased event keeps its place, type and time; its content is gone.

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> event = run.record("TOOL_RESULT", {"tool_name": "track", "ok": True}, actor="support")
    >>> event.type, event.payload["ok"], event.actor
    ('TOOL_RESULT', True, 'support')
    """

    sequence_id: int
    event_id: str
    type: str
    payload: dict[str, Any]
    actor: str
    at: datetime
    run_id: str
    task_id: str
    thread_id: str
    parent_event_id: str | None = None
    detail: dict[str, Any] | None = None
    erased: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the v2.1 JSON of the event."""
        return {
            "_schema_version": SCHEMA_VERSION,
            "event_id": self.event_id,
            "parent_event_id": self.parent_event_id,
            "sequence_id": self.sequence_id,
            "event_type": self.type,
            "timestamp": iso(self.at),
            "writer_id": self.actor,
            "task_id": self.task_id,
            "thread_id": self.thread_id,
            "run_id": self.run_id,
            "payload": self.payload,
        }


class ModelUsage(Struct, frozen=True, kw_only=True):
    """What calls came to: tokens in and out (those of `tokens_in` that were cached), time, cost, failures.

    The cost is in the unit that was recorded, whichever that is.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    latency_ms: float = 0
    cost: float = 0
    errors: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """What models and tools came to in a run, by its events: all of them, by model, and by tool."""

    model_actions: int = 0
    tool_results: int = 0
    total: ModelUsage = ModelUsage()
    models: dict[str, ModelUsage] = {}
    tools: dict[str, ModelUsage] = {}


class Head(Struct, frozen=True):
    """How long a ledger was and the hash of all of it. Keep one elsewhere, and a cut tail cannot hide."""

    length: int
    chain: str


class Anchor(Struct, frozen=True, kw_only=True):
    """A head that was sealed: whose, when, and perhaps signed. A line of a file of anchors holds one."""

    space: str
    run: str
    length: int
    chain: str
    time: str
    signature: dict[str, str] | None = None


class Verification(Struct, frozen=True, kw_only=True):
    """What checking a run found. `first_bad` is the sequence id of the first event that is not as recorded.

    `field` is the part of the run that is wrong: `ledger` (then there is a `first_bad`), or, where the ledger is as
    recorded, what is not as it tells: `document`, `working_set`, `config`, `episodes`, `artifacts`; or `anchors`, if
    what was kept elsewhere cannot be relied on. `anchored` is how many events are behind the last anchor, 0 without
    anchors; `note` tells of lines that were left out.

    >>> ctx = strongroom.open("memory://")
    >>> found = ctx.runs.create(objective="Answer a ticket").verify()
    >>> found.ok, found.checked, found.first_bad
    (True, 1, None)
    """

    ok: bool
    checked: int
    first_bad: int | None
    reason: str
    head: Head
    field: str = ""
    anchored: int = 0
    note: str = ""


@shown_by("event.sequence_id", "event.type", "working_set.seq", "working_set.status")
class Step(Struct, frozen=True):
    """One event of a replay and the working set after it (None where erasure removed what it needs)."""

    event: Event
    working_set: WorkingSet | None


@shown_by("field", "before", "after", "added", "removed")
class FieldChange(Struct, frozen=True, kw_only=True):
    """One field that differs between two versions. Lists also say which items came and went."""

    field: str
    before: Any
    after: Any
    added: tuple[Any, ...] = ()
    removed: tuple[Any, ...] = ()


@shown_by("changes", "from_seq", "to_seq")
class Diff(Struct, frozen=True):
    """What differs between two versions of a working set, by field name."""

    from_seq: int
    to_seq: int
    changes: tuple[FieldChange, ...]


# ---- milestones, briefs, packs, erasure -----------------------------------------------------------------------------


@shown_by("episode_id", "reason", "created_at", "summary")
class Episode(Struct, frozen=True, kw_only=True):
    """A milestone: the run before, the run after, and what happened between. Never changed once made.

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> episode = run.milestone("the customer has an answer")
    >>> episode.reason, len(run.episodes())
    ('the customer has an answer', 1)
    """

    episode_id: str
    reason: str
    created_at: datetime
    summary: str
    ws_before: WorkingSet
    ws_after: WorkingSet
    memory_commits: tuple[str, ...]
    next_entry_point: str
    first_event: int
    last_event: int

    def to_dict(self) -> dict[str, Any]:
        """Return the v2.1 JSON of the episode."""
        return {
            "_schema_version": SCHEMA_VERSION,
            "episode_id": self.episode_id,
            "created_at": iso(self.created_at),
            "summary": self.summary,
            "ws_before": self.ws_before.to_dict(),
            "ws_after": self.ws_after.to_dict(),
            "memory_commits": list(self.memory_commits),
            "next_entry_point": self.next_entry_point,
        }


class LeftOut(Struct, frozen=True, kw_only=True):
    """Something a brief does not show, and why. `no_index`: it could not be searched for, so it has no id. `damaged`:
    it was found and cannot be read."""

    section: str
    id: str
    reason: Literal["over_budget", "below_confidence", "no_index", "damaged"]


class BriefReceipt(Struct, frozen=True, kw_only=True):
    """What a brief was allowed, what it used, and what it left out."""

    max_tokens: int
    tokenizer: str
    approximate: bool
    left_out: tuple[LeftOut, ...]


@shown_by("text", "total_tokens")
class Brief(Meant, Struct, frozen=True):
    """The text to put before a model, never over its budget.

    >>> ctx = strongroom.open("memory://")
    >>> brief = ctx.runs.create(objective="Answer a ticket").brief(max_tokens=100)
    >>> "Answer a ticket" in brief.text, brief.total_tokens <= 100, brief.receipt.left_out
    (True, True, ())
    """

    text: str
    total_tokens: int
    receipt: BriefReceipt

    def __str__(self) -> str:
        return self.text


class Erasure(Struct, frozen=True, kw_only=True):
    """The receipt of an erasure: what was removed from the run, and where the ledger says so.

    Nothing of it can be read any more. Until `complete`, bytes of it may still lie in the store's files; `pending` says
    what that waits for. Repeating the erasure tells how it stands.
    """

    run_id: str
    reason: str
    actor: str
    at: datetime
    events: int
    episodes: int
    artifacts: int
    sequence_id: int
    complete: bool = True
    pending: str | None = None


class Pack(Struct, frozen=True, kw_only=True):
    """The receipt of an export: which pack, how far the ledger in it goes, and the hash of its manifest."""

    pack_id: str
    run_id: str
    head: Head
    manifest_sha256: str
    signed: bool


class SpacePack(Struct, frozen=True, kw_only=True):
    """The receipt of `ctx.export`: which pack, the hash of its manifest, and what is in it."""

    pack_id: str
    manifest_sha256: str
    signed: bool
    runs: list[str]
    sessions: list[str]
    threads: list[str]
    memories: int


class Restored(Struct, frozen=True, kw_only=True):
    """What `ctx.restore` brought back."""

    runs: tuple[str, ...]
    sessions: tuple[str, ...]
    threads: tuple[str, ...]
    memories: int


def plain(value: Struct) -> dict[str, Any]:
    """Return a value as fresh JSON data (lists, not tuples)."""
    fresh: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return fresh
