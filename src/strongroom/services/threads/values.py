"""What a user of threads sees: slots, limits and figures. All frozen.

The guard against edits: `slot.payload` is the very object that was appended for as long as it still encodes to the
bytes that were stored. Once somebody has edited it, the slot hands out a fresh one made from those bytes instead, so an
edit never shows in the history. A deep frozen view was rejected: it is not the caller's type any more.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from strongroom.arguments import check_fields, require_positive
from strongroom.codec import Json
from strongroom.errors import InvalidInput, NotFound
from strongroom.services.threads.payloads import CHAIN, Inert, Opened, PayloadTypes, build, unedited, unseal
from strongroom.store import Record
from strongroom.values import moment


class Slot(Struct, frozen=True, eq=False):
    """One message of a thread. It never changes; what it shows is computed when asked for.

    `native` is the sender's own object, for a record that came back without it.

    >>> ctx = strongroom.open("memory://")
    >>> slot = ctx.threads.append("planner", {"task": "call the carrier"}, from_id="support", to_id="planner")
    >>> slot.thread_id, slot.index, slot.from_id, slot.to_id
    ('planner', 0, 'support', 'planner')
    """

    thread_id: str
    record: Record
    types: PayloadTypes
    native: Any = None

    @property
    def index(self) -> int:
        """Its place in the thread, from 0."""
        return self.record.index

    @property
    def type(self) -> str:
        """The name of the payload's type."""
        return self.record.type

    @property
    def from_id(self) -> str:
        """Who sent it."""
        return self.record.sender or ""

    @property
    def to_id(self) -> str:
        """Who it is for; empty if for nobody in particular."""
        return self.record.receiver or ""

    @property
    def at(self) -> datetime:
        """When it was appended."""
        return moment(self.record.at)

    @property
    def payload(self) -> Any:
        """The payload: the object that was appended, a registered type, plain JSON, or `Inert`."""
        raw = self._opened.payload
        native = self.record.native if self.native is None else self.native
        if native is None:
            return self.types.build(self.type, raw)
        if unedited(native, raw):
            return native
        try:
            return build(type(native), raw)
        except InvalidInput:
            return self.types.build(self.type, raw)

    @property
    def data(self) -> Any:
        """The payload as plain JSON, fresh at each access."""
        return Inert(self.type, Json(bytes(self._opened.payload))).data

    @property
    def metadata(self) -> dict[str, Any]:
        """What the sender gave along with the payload, fresh at each access."""
        return {name: value for name, value in self._opened.metadata.items() if name != CHAIN}

    @property
    def chain(self) -> tuple[str, ...]:
        """The call chain the message belongs to, the receiver last."""
        return self._opened.chain or (self.from_id, self.to_id)

    @property
    def _opened(self) -> Opened:
        if self.record.body is None:
            raise NotFound(f"slot {self.index} of thread {self.thread_id!r} was erased", kind="slot", id=self.thread_id)
        return unseal(self.record.body)

    def made_at(self, at: int) -> Slot:
        """Return the same slot with the time (in microseconds) that a store knows better."""
        return replace(self, record=replace(self.record, at=at))

    def __eq__(self, other: object) -> bool:
        return type(other) is Slot and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.thread_id, self.index))

    def _identity(self) -> tuple[Any, ...]:
        record = self.record
        return (self.thread_id, record.index, record.type, record.body, record.sender, record.receiver, record.at)

    def __repr__(self) -> str:
        return f"Slot({self.thread_id!r}, {self.index}, {self.type}, {self.from_id!r} -> {self.to_id!r})"


class Limits(Struct, frozen=True, kw_only=True):
    """How much a space's threads may hold. None: no limit.

    `archive` is called with a thread's id and its pack before the thread leaves; see `strongroom.archives`. Without it,
    a     new thread over `max_threads` is refused.
    """

    max_slots_per_thread: int | None = None
    max_threads: int | None = None
    ttl_seconds: float | None = None
    archive: Callable[[str, bytes], None] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require_positive(
            max_slots_per_thread=self.max_slots_per_thread, max_threads=self.max_threads, ttl_seconds=self.ttl_seconds
        )


NO_LIMITS = Limits()

State = Literal["live", "deleted", "expired", "archived"]


class ThreadInfo(Struct, frozen=True):
    """A thread, or what is left of it. `first` is the oldest index it can show, `length` counts all it ever had."""

    thread_id: str
    state: State
    created_at: datetime
    ended_at: datetime | None
    first: int
    length: int


class ErasedSlots(Struct, frozen=True):
    """What was erased of a thread. `pending` says why some of it may still lie in the store's files, out of anybody's
    reach; repeating the erasure tells how it stands."""

    thread_id: str
    slots: int
    complete: bool
    pending: str | None = None


class ThreadStats(Struct, frozen=True):
    """Figures over all live threads of a space."""

    thread_count: int
    total_slots: int
    max_threads: int | None
    max_slots_per_thread: int | None
