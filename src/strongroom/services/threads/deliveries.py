"""Decisions about delivery: who may handle a thread, what comes next, what a failure leads to. No I/O.

A thread that is handled has one document (kind "delivery"): the lease, and for each receiver the index it has reached
and the message that failed there, of which each has at most one, since it goes in order.
Its version is the fencing token: every commit of a worker expects the version it knows, so a worker that was paused
past its lease cannot write late. Clocks only decide when a lease may be taken over; they never decide whose write
counts.

A flag (kind "mail") says that a thread may hold something for a receiver. It is raised in the very commit that appends
a message for somebody, and needs no expectation, so appends go on to commute. Whoever takes it down expects the thread
to be as long as it was when nothing was found due: a message that came meanwhile is not missed, and what is due is
always found by the flags alone, however many threads there are.

A worker that vanishes (killed, or paused past its lease) says nothing about the message it was at, and if that message
kills whoever begins it, it would be delivered for ever. So a thread that is taken over from another's lease is under
suspicion: `begun` is there, at first empty, and whoever handles it notes each message before it begins. Where nobody
vanished there is no such field and no such commit. A message is innocent, and its note goes, as soon as a worker lives
to say how it ended: handled, failed, or handed back. Notes are kept for each receiver, because those of another may be
served by another program, which knows nothing of the message.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from datetime import datetime
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from strongroom.arguments import check_fields
from strongroom.codec import encode, pack
from strongroom.errors import Damaged, InvalidInput
from strongroom.store import Document, Key, Put, Record
from strongroom.values import moment

T = TypeVar("T")

DELIVERY, MAIL, DEAD = "delivery", "mail", "dead_letter"


class Failing(Struct, frozen=True):
    """A message that failed and will be tried again."""

    index: int
    attempts: int
    not_before: int
    error: str


class Begun(Struct, frozen=True):
    """A message that was begun under suspicion: how many workers in a row did, and told of no end."""

    index: int
    times: int


class Delivery(Struct, frozen=True):
    """How far a thread has been handled, and who is at it.

    By their receivers: `put_off` are messages that failed, and `begun`, which is there if a worker vanished, what was
    begun since. Nobody is given what stands before `seen`: it was restored.
    """

    owner: str | None = None
    until: int = 0
    next: dict[str, int] = {}
    put_off: dict[str, Failing] = {}
    begun: dict[str, Begun] | UnsetType = UNSET
    seen: int | UnsetType = UNSET

    def reached(self, receiver: str | None) -> int:
        """Return the first index that may hold something for a receiver."""
        return max(0 if self.seen is UNSET else self.seen, self.next.get(receiver or "", 0))


class DeliveryFailed(Struct, frozen=True):
    """What a caller is told when a message could not be handled."""

    handler: str
    index: int
    error: str
    attempts: int


class DeadLetter(Struct, frozen=True):
    """A message nobody could handle."""

    id: str
    thread_id: str
    index: int
    handler: str
    error: str
    attempts: int
    at: datetime


class StoredDeadLetter(Struct):
    thread_id: str
    index: int
    handler: str
    error: str
    attempts: int
    at: int


class Retry(Struct, frozen=True, kw_only=True):
    """How often to try a message, and how long to wait: first, then `factor` times longer each time.

    `attempts` are those that raise. `takeovers` are workers that began it and vanished, one after the other.

    >>> from strongroom.dispatch import Retry
    >>> retry = Retry(attempts=5, first_seconds=0.5)
    >>> [retry.delay_seconds(failed) for failed in (1, 2, 3)]
    [0.5, 1.0, 2.0]
    """

    attempts: int = 3
    first_seconds: float = 0.1
    factor: float = 2.0
    max_seconds: float = 30.0
    takeovers: int = 20

    def __post_init__(self) -> None:
        check_fields(self)
        counts, times = (self.attempts, self.takeovers), (self.first_seconds, self.max_seconds)
        if min(counts) < 1 or self.factor <= 0 or min(times) < 0 or math.isinf(max(self.factor, *times)):
            raise InvalidInput(
                "a retry needs an attempt, a takeover, a factor above 0 and no time below 0, none without end, "
                f"not {self}"
            )

    def delay_seconds(self, attempts: int) -> float:
        """Return how long to wait after that many failed attempts."""
        try:
            return min(self.first_seconds * self.factor ** (attempts - 1), self.max_seconds)
        except OverflowError:
            return self.max_seconds if self.first_seconds else 0.0


def read_delivery(document: Document | None) -> Delivery:
    return Delivery() if document is None else _read(document, Delivery)


def _read(document: Document, type: type[T]) -> T:
    try:
        return msgspec.json.decode(document.value, type=type)
    except msgspec.DecodeError as problem:
        what = f"{document.key.kind.replace('_', ' ')} {document.key.id!r}"
        raise Damaged(f"the document of {what} is not one: {problem}", reason="corrupt", id=document.key.id) from None


def mail_key(space: str, *, thread_id: str, receiver: str) -> Key:
    return Key(space, MAIL, sha256(encode([thread_id, receiver])).hexdigest())


def raise_flag(space: str, *, thread_id: str, receiver: str) -> Put:
    """Say that a thread may hold something for a receiver."""
    key = mail_key(space, thread_id=thread_id, receiver=receiver)
    return Put(key, encode({"thread_id": thread_id}), {"receiver": receiver})


def blocked_until(state: Delivery, *, owner: str, now: int) -> int:
    """Return when a worker may take the thread: 0 for now, or a time to come back at.

    A message that failed holds up the whole thread, whoever it is for: those behind it may follow from it.
    """
    held = state.until if state.owner not in (None, owner) else 0
    later = max(held, *(failing.not_before for failing in state.put_off.values()), 0)
    return later if later > now else 0


def taken(state: Delivery, *, owner: str, until: int) -> Delivery:
    """Take a thread that may be taken. What the last worker began is under suspicion if that one never gave it back."""
    begun = state.begun
    if state.owner == owner:
        begun = UNSET  # it was cut off from the store, and lives
    elif state.owner is not None and begun is UNSET:
        begun = {}
    return replace(state, owner=owner, until=until, begun=begun)


def renewed(state: Delivery, *, until: int) -> Delivery:
    return replace(state, until=until)


def suspicious(state: Delivery) -> bool:
    """Say whether a worker vanished, so that a message is to be noted before it begins."""
    return state.begun is not UNSET


def vanished(state: Delivery, record: Record) -> int:
    """Return how many workers in a row are known to have begun a message and vanished."""
    known = state.begun.get(record.receiver or "") if state.begun is not UNSET else None
    return known.times if known is not None and known.index == record.index else 0


def noted(state: Delivery, record: Record, *, until: int) -> Delivery:
    """Note that a message begins, in a thread from which a worker vanished."""
    assert record.receiver is not None
    begun = Begun(record.index, vanished(state, record) + 1)
    known = {} if state.begun is UNSET else state.begun
    return replace(state, until=until, begun={**known, record.receiver: begun})


def _cleared(state: Delivery, receivers: Collection[str]) -> dict[str, Begun] | UnsetType:
    """Return what is under suspicion when somebody has lived to say what became of these receivers' messages."""
    if state.begun is UNSET:
        return UNSET
    return {name: begun for name, begun in state.begun.items() if name not in receivers} or UNSET


def handled(state: Delivery, record: Record, *, until: int) -> Delivery:
    """Say that a message is done with, whatever came of it."""
    assert record.receiver is not None
    left = {name: failing for name, failing in state.put_off.items() if name != record.receiver}
    following = {**state.next, record.receiver: record.index + 1}
    return replace(state, until=until, put_off=left, next=following, begun=_cleared(state, {record.receiver}))


def failed(state: Delivery, record: Record, *, error: str, not_before: int) -> Delivery:
    """Say that a message has to be tried again later, by anyone."""
    assert record.receiver is not None
    failing = Failing(record.index, attempts(state, record), not_before, error)
    later = {**state.put_off, record.receiver: failing}
    return replace(state, owner=None, until=0, put_off=later, begun=_cleared(state, {record.receiver}))


def handed_back(state: Delivery) -> Delivery:
    """Give the thread back although something may be due: whoever was at it lives."""
    return replace(state, owner=None, until=0, begun=UNSET)


def released(state: Delivery, *, receivers: Collection[str], length: int) -> Delivery:
    """Give the thread back; `receivers` have seen it up to `length`."""
    seen = {name: max(length, state.reached(name)) for name in receivers}
    return replace(state, owner=None, until=0, next={**state.next, **seen}, begun=_cleared(state, receivers))


def interrupted(state: Delivery, indexes: Collection[int]) -> Delivery:
    """Take the thread from whoever is at it, and forget why one of these messages failed."""
    left = {name: failing for name, failing in state.put_off.items() if failing.index not in indexes}
    return replace(state, owner=None, until=0, put_off=left, begun=UNSET)


def attempts(state: Delivery, record: Record) -> int:
    """Return which attempt at a message this is, from 1."""
    failing = state.put_off.get(record.receiver or "")
    return failing.attempts + 1 if failing is not None and failing.index == record.index else 1


def start(state: Delivery, receivers: Iterable[str]) -> int:
    """Return the first index that may hold something for one of the receivers."""
    return min(state.reached(name) for name in receivers)


def due(state: Delivery, records: Iterable[Record], receivers: Collection[str]) -> list[Record]:
    """Return the records still to be handled, in order."""
    return [
        record for record in records if record.receiver in receivers and record.index >= state.reached(record.receiver)
    ]


def dead_key(space: str, *, thread_id: str, index: int, receiver: str) -> Key:
    return Key(space, DEAD, sha256(encode([thread_id, index, receiver])).hexdigest())


def bury(space: str, *, thread_id: str, record: Record, error: str, attempts: int, now: int) -> Put:
    """Keep a message that could not be handled where people can find it."""
    assert record.receiver is not None
    stored = StoredDeadLetter(thread_id, record.index, record.receiver, error, attempts, now)
    key = dead_key(space, thread_id=thread_id, index=record.index, receiver=record.receiver)
    return Put(key, pack(stored), {"handler": record.receiver})


def read_dead_letter(document: Document) -> DeadLetter:
    stored = _read(document, StoredDeadLetter)
    return DeadLetter(
        document.key.id,
        stored.thread_id,
        stored.index,
        stored.handler,
        stored.error,
        stored.attempts,
        moment(stored.at),
    )
